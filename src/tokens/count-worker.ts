/**
 * Tokenises on a thread of its own, with the o200k vocabulary: it takes a third of a second and some 100 MB to load,
 * and a long text takes its time. Talks to the thread of `count.ts` alone, one request at a time.
 */
import { clearMergeCache, countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { toPieces } from './excerpt.ts'

declare const self: Worker

/** Several lists of texts, each to be counted by itself. */
export type CountRequest = string[][]
/** One sum a list, and what is left to count: another request, so that others have their turn; null where nothing is. */
export interface CountReply {
  sums: number[]
  rest: CountRequest | null
}

/** After this it answers with what it has. */
const SLICE_MS = 25

/** Names of control tokens are ordinary text, whoever writes them. */
const AS_TEXT = { disallowedSpecial: new Set<string>() }

self.onmessage = (event: MessageEvent<CountRequest>) => {
  const endMs = performance.now() + SLICE_MS
  const counted = event.data.map((texts) => count(texts, endMs))
  // The encoder would remember 100,000 words, and those of a hostile text are long.
  clearMergeCache()
  const isDone = counted.every(({ rest }) => rest.length === 0)
  const reply: CountReply = {
    sums: counted.map(({ tokens }) => tokens),
    rest: isDone ? null : counted.map(({ rest }) => rest),
  }
  self.postMessage(reply)
}
self.postMessage('ready')

function count(texts: string[], endMs: number): { tokens: number; rest: string[] } {
  let tokens = 0
  for (const [number, text] of texts.entries()) {
    let at = 0
    for (const piece of toPieces(text)) {
      tokens += countTokens(piece, AS_TEXT)
      at += piece.length
      if (performance.now() < endMs) continue
      const rest = texts.slice(number + 1)
      return { tokens, rest: at < text.length ? [text.slice(at), ...rest] : rest }
    }
  }
  return { tokens, rest: [] }
}
