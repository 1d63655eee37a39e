/** How much JSON an upstream may send: what is parsed on the event loop must not hold up everybody else. Pure. */
import { tooLong, UpstreamError } from '../domain/error.ts'
import { type JsonLimits, JsonScan } from '../domain/json-scan.ts'

/** As deep as a request may be. */
const DEPTH = 256

/** Of a whole answer: 9,000 tokens with 20 likely ones each. One of embeddings has as many values as 64 MiB hold. */
export const toWholeLimits = (isEmbedding: boolean): Pick<JsonLimits, 'depth' | 'values'> => ({
  depth: DEPTH,
  values: isEmbedding ? Number.POSITIVE_INFINITY : 1_000_000,
})

/** Of one event, which is parsed in one go. */
const EVENT_LIMITS: JsonLimits = { depth: DEPTH, values: 500_000, escapes: 1_000_000, bare: 4 * 1024 * 1024 }
/** Names cost the most: each may be another one. Only log probabilities have more, and always the same. */
const MAX_EVENT_NAMES = 64_000
/** An event up to this holds nothing that would take long. */
const SHORT_CHARS = 16 * 1024

/** What a parsed value takes of memory, in bytes, and what a field of an object takes more. */
const VALUE_BYTES = 16
const NAME_BYTES = 48
export const toParsedBytes = ({ values, names }: { values: number; names: number }) =>
  VALUE_BYTES * values + NAME_BYTES * names

/** Why an event is not read; null for one that is. */
export function checkEvent(data: string, call: { wantsLogprobs: boolean }): UpstreamError | null {
  if (data.length <= SHORT_CHARS) return null
  const scan = new JsonScan(EVENT_LIMITS)
  const excess = scan.take(data)
  if (excess) return tooMuch('sent an event', excess)
  return scan.names > MAX_EVENT_NAMES && !call.wantsLogprobs ? tooMuch('sent an event', 'values') : null
}

const WORDS: Record<keyof JsonLimits, string> = {
  depth: `is nested more than ${DEPTH} levels deep`,
  values: 'holds more values than are read',
  escapes: 'holds more escaped characters than are read',
  bare: 'holds more characters outside of its strings than are read',
}

/**
 * What ends a call whose JSON is too much. Who nests too deeply sends nothing that anybody could read: another one may do better.
 *
 * @param what it did.
 */
export function tooMuch(what: 'answered with JSON' | 'sent an event', excess: keyof JsonLimits): UpstreamError {
  const message = `${what} that ${WORDS[excess]}`
  return excess === 'depth' ? new UpstreamError('broken', message) : tooLong(message)
}
