/** Tokenizes on a thread with the o200k vocabulary, which takes a third of a second and some 100 MB to load. */
import { clearMergeCache, countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { toPieces } from './excerpt.ts'

declare const self: Worker

export type CountRequest = string[][]
/** One sum per list, and the rest to count as another request, so that others get a turn; null if done. */
export interface CountReply {
  sums: number[]
  rest: CountRequest | null
}

/** Replies with a partial count after this time. */
const SLICE_MS = 25

const AS_TEXT = { disallowedSpecial: new Set<string>() }

self.onmessage = (event: MessageEvent<CountRequest>) => {
  const endMs = performance.now() + SLICE_MS
  const counted = event.data.map((texts) => count(texts, endMs))
  // The encoder caches 100,000 words, which can be long in hostile text.
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
