/** Reads the token usage of a call, in all servers' variants. */

import type { ReportedCost } from '../../../domain/dialects.ts'
import type { AnswerEvent } from '../../../domain/events.ts'
import { asObject, type JsonObject, parseJson, type Reviver } from '../../../domain/json.ts'
import { MAX_SEARCHES, type Usage } from '../../../domain/usage.ts'
import { asCount, toSpeed } from '../readings.ts'

/** Finds the usage of a response or chunk: at the top level, or where Groq and Moonshot put it. */
export function findUsage(answer: JsonObject): Usage | null {
  if (answer.usage) return toUsage(answer.usage)
  if (answer.x_groq) return toUsage(asObject(answer.x_groq)?.usage)
  const choice = Array.isArray(answer.choices) ? answer.choices[0] : null
  return choice?.usage ? toUsage(choice.usage) : null
}

/**
 * The reported cost in nano-dollars. Null if there is none or it isn't all: with a customer's own key, OpenRouter doesn't know what the
 * provider charges.
 * @param place field of the response in `parsed`, if that is an event.
 */
export function findCharge(
  parsed: JsonObject,
  text: string,
  cost: ReportedCost | undefined,
  place: string | null = null,
): number | null {
  const answer = place === null ? parsed : asObject(parsed[place])
  if (!cost || asObject(answer?.usage)?.is_byok === true) return null
  return findReported(parsed, text, place === null ? cost : { ...cost, path: `${place}.${cost.path}` })
}

export function toUsageEvent(answer: JsonObject): UsageEvent | null {
  const usage = findUsage(answer)
  if (usage === null) return null
  const speed = answer.timings ? toSpeed(asObject(answer.timings)?.predicted_per_second) : undefined
  return { kind: 'usage', usage, ...(speed === undefined ? {} : { tokensPerSecond: speed }) }
}

type UsageEvent = Extract<AnswerEvent, { kind: 'usage' }>

/** Reads a `usage` object; null if it lacks the numbers to charge, or has the zeros of an early chunk. */
function toUsage(value: unknown): Usage | null {
  const usage = asObject(value)
  if (!usage) return null
  const counts = toCounts(usage)
  if (!counts || counts.prompt + counts.completion === 0) return null
  const read = asObject(usage.prompt_tokens_details ?? usage.prompt_token_details ?? usage.input_tokens_details)
  const written = asObject(usage.completion_tokens_details ?? usage.output_tokens_details)
  const cached = firstCount(
    read?.cached_tokens,
    usage.prompt_cache_hit_tokens,
    usage.cached_tokens,
    usage.num_cached_tokens,
    usage.cache_read_input_tokens,
  )
  const cacheWritten = firstCount(read?.cache_write_tokens, usage.cache_creation_input_tokens)
  // Anthropic splits cache writes by lifetime, and LiteLLM forwards that.
  const lifetimes = asObject(usage.cache_creation ?? read?.cache_creation_token_details)
  const reasoning = firstCount(written?.reasoning_tokens, usage.reasoning_tokens) ?? 0
  // Some providers count reasoning outside the completion. The total shows that.
  const beside = reasoning > 0 && toCount(usage.total_tokens) === counts.prompt + counts.completion + reasoning
  const completion = counts.completion + (beside ? reasoning : 0)
  const prompt = counts.prompt + (isCacheBeside(cached ?? 0, counts, usage) ? (cached ?? 0) : 0)
  // Limits parts to their total, whatever an upstream reports.
  const cacheRead = Math.min(cached ?? 0, prompt)
  const written1h = toCount(lifetimes?.ephemeral_1h_input_tokens) ?? 0
  const allWritten = Math.min(Math.max(cacheWritten ?? 0, written1h), prompt)
  const cacheWrite1h = Math.min(written1h, allWritten)
  const thought = Math.min(reasoning, completion)
  // Tokens read from a cache may have been written to one, too (seen with Gemini on OpenRouter).
  const inCache = cacheRead + allWritten > prompt ? Math.max(cacheRead, allWritten) : cacheRead + allWritten
  const heard = toMedia(read, prompt - inCache)
  const spoken = toMedia(written, completion - thought)
  return {
    prompt,
    cacheRead,
    cacheWrite: allWritten - cacheWrite1h,
    cacheWrite1h,
    audioPrompt: heard.audio,
    imagePrompt: heard.images,
    toolPrompt: 0,
    completion,
    reasoning: thought,
    audioCompletion: spoken.audio,
    imageCompletion: spoken.images,
    webSearches: toSearches(usage),
    computeMs: 0,
  }
}

/** True if cached tokens aren't part of the prompt: there are more of them, and the total doesn't contradict (seen on xAI). */
function isCacheBeside(
  cached: number,
  { prompt, completion }: { prompt: number; completion: number },
  usage: JsonObject,
) {
  return cached > prompt && toCount(usage.total_tokens) !== prompt + completion
}

/** Web searches with a fee, as reported by OpenRouter, Anthropic and Perplexity; xAI counts the sources found. */
const toSearches = (usage: JsonObject): number =>
  Math.min(
    MAX_SEARCHES,
    firstCount(
      asObject(usage.server_tool_use_details)?.web_search_requests,
      asObject(usage.server_tool_use)?.web_search_requests,
      usage.num_search_queries,
      usage.num_sources_used,
    ) ?? 0,
  )

const NO_MEDIA = { audio: 0, images: 0 }

/** Audio and image tokens; upstreams don't say which were cached, so cached ones are assumed to be text. */
function toMedia(details: JsonObject | null, most: number): typeof NO_MEDIA {
  if (!details || !(details.audio_tokens || details.image_tokens)) return NO_MEDIA
  const audio = Math.min(toCount(details.audio_tokens) ?? 0, most)
  return { audio, images: Math.min(toCount(details.image_tokens) ?? 0, most - audio) }
}

/** The total and one part give the other; a total alone can't be priced. */
function toCounts(usage: JsonObject): { prompt: number; completion: number } | null {
  const prompt = firstCount(usage.prompt_tokens, usage.input_tokens)
  const completion = firstCount(usage.completion_tokens, usage.output_tokens)
  const total = toCount(usage.total_tokens)
  if (prompt !== null && completion !== null) return { prompt, completion }
  if (total === null) return null
  if (prompt !== null && prompt <= total) return { prompt, completion: total - prompt }
  return completion !== null && completion <= total ? { prompt: total - completion, completion } : null
}

function firstCount(...values: unknown[]): number | null {
  for (const value of values) {
    const count = toCount(value)
    if (count !== null) return count
  }
  return null
}

/** Some providers write counts as strings. */
const toCount = (value: unknown): number | null =>
  asCount(typeof value === 'string' && value.trim() !== '' ? Number(value) : value)

/** Reads a reported cost exactly, from its digits, which a double can't hold, to nano-dollars, rounded once, half up. */
const NUMBER = /^(\d{1,40})(?:\.(\d{1,40}))?(?:e([+-]?\d{1,3}))?$/i

const PLACES: Readonly<Record<ReportedCost['unit'], number>> = { usd: 0, '1e-10usd': 10 }

/** A million dollars. A higher cost is invalid and would make totals inexact. */
const MAX_NANO_USD = 10n ** 15n

/** Reads a JSON number as integer nano-dollars; null if it is invalid, negative or too large. */
export function toNanoUsd(text: string, unit: ReportedCost['unit']): number | null {
  const [, whole = '', places = '', exponent = '0'] = NUMBER.exec(text.trim()) ?? []
  if (whole === '') return null
  const digits = BigInt(whole + places)
  if (digits === 0n) return 0
  // The last digit stands for 10^shift nano-dollars.
  const shift = Number(exponent) - places.length - PLACES[unit] + 9
  if (shift > 20) return null
  const nano = shift >= 0 ? digits * 10n ** BigInt(shift) : divide(digits, 10n ** BigInt(-shift))
  return nano > MAX_NANO_USD ? null : Number(nano)
}

const divide = (digits: bigint, by: bigint) => (digits + by / 2n) / by

/** Parsing longer texts again would block the event loop; the nearest double is exact enough. */
const MAX_PARSED_CHARS = 100_000

/**
 * The cost at the path of the upstream's setting; null if unreadable.
 * @param text source of the response, with the digits that parsing loses.
 */
export function findReported(answer: unknown, text: string, { path, unit }: ReportedCost): number | null {
  const names = path.split('.')
  const value = follow(answer, names)
  if (typeof value === 'string') return toNanoUsd(value, unit)
  if (typeof value !== 'number') return null
  const found = findDigits(text, names.at(-1) ?? '', value)
  const written = found ?? (text.length > MAX_PARSED_CHARS ? String(value) : parseDigits(text, names))
  return typeof written === 'string' ? toNanoUsd(written, unit) : null
}

const VALUE = /\s*:\s*(-?\d[\d.e+-]*)/iy

/** Searching the digits is much faster than parsing again. Null if not found, or ambiguous. */
function findDigits(text: string, name: string, value: number): string | null {
  const key = JSON.stringify(name)
  let found: string | null = null
  for (let at = text.indexOf(key); at !== -1; at = text.indexOf(key, at + key.length)) {
    VALUE.lastIndex = at + key.length
    const digits = VALUE.exec(text)?.[1]
    if (digits === undefined || Number(digits) !== value) continue
    if (found !== null && found !== digits) return null
    found = digits
  }
  return found
}

function parseDigits(text: string, names: readonly string[]): unknown {
  const last = names.at(-1)
  const keep: Reviver = (name, each, { source }) => (name === last && typeof each === 'number' ? source : each)
  return follow(parseJson(text, keep), names)
}

function follow(value: unknown, names: readonly string[]): unknown {
  let at = value
  for (const name of names) {
    const held = asObject(at)
    at = held !== null && Object.hasOwn(held, name) ? held[name] : undefined
  }
  return at
}
