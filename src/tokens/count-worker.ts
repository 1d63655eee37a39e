/**
 * Tokenises on a thread of its own, with the o200k vocabulary: it takes a third of a second and some 100 MB to load,
 * and a long text takes its time. Talks to the thread of `count.ts` alone, one request at a time.
 */
import { clearMergeCache, countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { toPieces } from './excerpt.ts'

declare const self: Worker

/** Several lists of texts, each to be counted by itself; the answer is one sum a list. */
export type CountRequest = string[][]
export type CountReply = number[]

/** Names of control tokens are ordinary text, whoever writes them. */
const AS_TEXT = { disallowedSpecial: new Set<string>() }

self.onmessage = (event: MessageEvent<CountRequest>) => {
  const reply: CountReply = event.data.map(count)
  // The encoder would remember 100,000 words, and those of a hostile text are long.
  clearMergeCache()
  self.postMessage(reply)
}
self.postMessage('ready')

function count(texts: string[]): number {
  let tokens = 0
  for (const text of texts) for (const piece of toPieces(text)) tokens += countTokens(piece, AS_TEXT)
  return tokens
}
