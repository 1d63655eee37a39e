/**
 * The state of a model's thoughts on its way through clients: who issued it, and how it goes through those that know nothing of it, as
 * one opaque text. Such a text stands where Anthropic's clients keep a `signature`, and OpenAI's an `encrypted_content`, and comes back
 * unchanged; nothing of it is kept here. It proves nothing: whoever sends it may have made it, as with details themselves. Pure.
 */

import { asObject, asText, type JsonObject } from '../../domain/json.ts'
import { type JsonLimits, JsonScan } from '../../domain/json-text.ts'
import type { Target } from '../../domain/snapshot.ts'

/**
 * Who has signed or encrypted what a model thought: an upstream and its model there, `upstream/model`. Answers say it as `signer`
 * beside what is signed; it comes back with that, and decides whether it goes on. Another model refuses or drops a signature, and so
 * does the same one elsewhere (ai.google.dev/gemini-api/docs/thought-signatures; platform.claude.com, "Thinking blocks are tied to the
 * model that produced them"). What says no signer came by another way, and may be anybody's. Pure.
 */
export type IssuingTarget = Pick<Target, 'upstreamModel'> & { upstream: Pick<Target['upstream'], 'id'> }

export const toThoughtIssuer = ({ upstream, upstreamModel }: IssuingTarget): string => `${upstream.id}/${upstreamModel}`

/** How an encoded text begins, and no other. */
const PREFIX = 'tg1.'

/** Where the words of a detail stand, by its type: those may stand beside the encoded text already. */
const WORDS: Readonly<Record<string, string>> = { 'reasoning.text': 'text', 'reasoning.summary': 'summary' }
/** In place of the words: how many UTF-16 units of the words beside are this detail's. */
const LENGTH = 'units'

export const isEncodedState = (text: string): boolean => text.startsWith(PREFIX)

/**
 * Encodes details. Pieces of one, as a stream has them, are joined first.
 * @param beside what is sent beside the encoded text: where it is all that the details say, it is not repeated.
 */
export function encodeState(details: readonly object[], beside = ''): string {
  const joined = joinDetails(details)
  const isBeside = beside !== '' && joined.map(wordsOf).join('') === beside
  const items = isBeside ? joined.map(withoutWords) : joined
  return PREFIX + Buffer.from(JSON.stringify(items)).toString('base64url')
}

/**
 * Reads what was encoded; null for anything else.
 * @param beside what came beside it.
 */
export function decodeState(encoded: string, beside = ''): object[] | null {
  if (!isEncodedState(encoded)) return null
  const json = Buffer.from(encoded.slice(PREFIX.length), 'base64url').toString()
  if (new JsonScan(toLimits(json)).take(json) !== null) return null
  try {
    const items: unknown = JSON.parse(json)
    return Array.isArray(items) ? toDetails(items, beside) : null
  } catch {
    return null
  }
}

/** What a model thought. */
export interface Thought {
  text: string
  /** Items of `reasoning_details`. */
  details: object[]
}

const TEXT = 'reasoning.text'

/**
 * Encodes a thought with its words; null where there is nothing to be known again by.
 * @param beside what is sent of the words beside it.
 */
export function encodeThought({ text, details }: Thought, beside: string): string | null {
  const hasText = details.some((each) => asText(asObject(each)?.text) !== '')
  const all = text !== '' && !hasText ? [{ type: TEXT, text, index: 0 }, ...details] : details
  return all.length === 0 ? null : encodeState(all, beside)
}

/** Reads that; null for anything else. Words that nobody has signed are its text alone, to any model. */
export function decodeThought(encoded: string, beside: string): Thought | null {
  const details = decodeState(encoded, beside)
  if (details === null) return null
  const text = details.map((each) => asText(asObject(each)?.text)).join('')
  return { text, details: details.filter((each) => !isBare(each)) }
}

const isBare = (detail: object): boolean => {
  const { type, format, signature, signer } = detail as JsonObject
  return type === TEXT && !format && !signature && !signer
}

/** No thought has more of them, whatever it was cut into. */
const MAX_VALUES = 16_384

/** So many that reading a request full of encoded texts takes no longer than reading as many bytes of anything else. */
const toLimits = ({ length }: string): JsonLimits => ({
  depth: 16,
  values: Math.min(24 + length / 24, MAX_VALUES),
  escapes: 64 + length / 8,
  bare: 64 + length,
})

function toDetails(items: readonly unknown[], beside: string): object[] | null {
  const details: object[] = []
  let at = 0
  for (const item of items) {
    const detail = asObject(item)
    if (detail === null) return null
    const field = fieldOf(detail)
    if (field === undefined || detail[LENGTH] === undefined) {
      details.push(detail)
      continue
    }
    const { [LENGTH]: units, ...rest } = detail
    if (!Number.isSafeInteger(units)) return null
    const to = at + Math.max(0, Number(units))
    details.push({ ...rest, [field]: beside.slice(at, to) })
    at = to
  }
  return details
}

/** Joins the pieces in which a stream sent details: words of one index that no signature has ended yet. */
function joinDetails(details: readonly object[]): JsonObject[] {
  const joined: JsonObject[] = []
  const open = new Map<string, JsonObject>()
  for (const each of details) {
    const detail: JsonObject = { ...each }
    const field = fieldOf(detail)
    const place = `${detail.type}/${detail.index}`
    const before = field === undefined ? undefined : open.get(place)
    if (field === undefined || before === undefined) joined.push(detail)
    else {
      const text = asText(before[field]) + asText(detail[field])
      for (const name in detail) before[name] ??= detail[name]
      before[field] = text
    }
    const into = before ?? detail
    if (field !== undefined) asText(into.signature) === '' ? open.set(place, into) : open.delete(place)
  }
  return joined
}

const fieldOf = ({ type }: JsonObject): string | undefined => WORDS[asText(type)]

function wordsOf(detail: JsonObject): string {
  const field = fieldOf(detail)
  return field === undefined ? '' : asText(detail[field])
}

function withoutWords(detail: JsonObject): JsonObject {
  const field = fieldOf(detail)
  if (field === undefined) return detail
  const { [field]: words, ...rest } = detail
  return { ...rest, [LENGTH]: asText(words).length }
}
