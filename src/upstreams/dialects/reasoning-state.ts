/**
 * Reasoning state that clients send back: its issuer, and its encoding as opaque text. Anthropic's clients keep it as `signature`, and
 * OpenAI's as `encrypted_content`. It proves nothing, since clients can forge it.
 */

import { asObject, asText, type JsonObject } from '../../domain/json.ts'
import { type JsonLimits, JsonScan } from '../../domain/json-text.ts'
import type { Target } from '../../domain/snapshot.ts'

/**
 * Issuer of reasoning state. State is sent only to its issuer: other models refuse or drop a signature, and so does the same model of
 * another provider (ai.google.dev/gemini-api/docs/thought-signatures; platform.claude.com, "Thinking blocks are tied to the model that
 * produced them"). The issuer of state without a signer is unknown.
 */
export type IssuingTarget = Pick<Target, 'upstreamModel'> & { upstream: Pick<Target['upstream'], 'id'> }

export const toReasoningIssuer = ({ upstream, upstreamModel }: IssuingTarget): string =>
  `${upstream.id}/${upstreamModel}`

/** Prefix of encoded text, and of nothing else. */
const PREFIX = 'tg1.'

/** Beginning of encoded state in Gemini's signatures, which are base64: some clients decode and re-encode them. */
export const SIGNATURE_PREFIX = 'dGcxL'

export const toSignature = (state: string): string => Buffer.from(state).toString('base64')

/** Null for Google's own signatures. */
export const toState = (signature: string): string | null =>
  signature.startsWith(SIGNATURE_PREFIX) ? Buffer.from(signature, 'base64').toString() : null

/** Text field of a detail by type; that text may already be next to the encoded state. */
const WORDS: Readonly<Record<string, string>> = { 'reasoning.text': 'text', 'reasoning.summary': 'summary' }
/** Replaces the text: how many UTF-16 units of the adjacent text belong to this detail. */
const LENGTH = 'units'

export const isEncodedState = (text: string): boolean => text.startsWith(PREFIX)

/**
 * Encodes details, after joining streamed pieces.
 * @param beside text sent next to it, which is not repeated if it is the text of the details.
 */
export function encodeState(details: readonly object[], beside = ''): string {
  const joined = joinDetails(details)
  const isBeside = beside !== '' && joined.map(wordsOf).join('') === beside
  const items = isBeside ? joined.map(withoutWords) : joined
  return PREFIX + Buffer.from(JSON.stringify(items)).toString('base64url')
}

/**
 * Null for anything that isn't encoded state.
 * @param beside text next to it.
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

export interface Reasoning {
  text: string
  details: object[]
}

const TEXT = 'reasoning.text'

/**
 * Encodes reasoning with its text; null if there is nothing to recognize it by.
 * @param beside text sent next to it.
 */
export function encodeReasoning({ text, details }: Reasoning, beside: string): string | null {
  const hasText = details.some((each) => asText(asObject(each)?.text) !== '')
  const all = text !== '' && !hasText ? [{ type: TEXT, text, index: 0 }, ...details] : details
  return all.length === 0 ? null : encodeState(all, beside)
}

/** Null for anything else. Unsigned text is returned as plain text, which any model may get. */
export function decodeReasoning(encoded: string, beside: string): Reasoning | null {
  const details = decodeState(encoded, beside)
  if (details === null) return null
  const text = details.map((each) => asText(asObject(each)?.text)).join('')
  return { text, details: details.filter((each) => !isBare(each)) }
}

const isBare = (detail: object): boolean => {
  const { type, format, signature, signer } = detail as JsonObject
  return type === TEXT && !format && !signature && !signer
}

/** More JSON values than any reasoning has. */
const MAX_VALUES = 16_384

/** Limits by length, so that encoded state isn't slower to read than other content. */
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

/** Joins streamed pieces of details: texts of one index up to a signature. */
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
