/** Parts of a response that are the same whole and streamed, with their checks. */
import type { Logprobs } from '../../src/domain/events.ts'

export type Json = null | boolean | number | string | Json[] | JsonObject
export interface JsonObject {
  [key: string]: Json | undefined
}

/** Throws an Error that names the check (a rule number of test/README.md, or the subject) unless `holds`. */
export function must(check: number | string, holds: boolean, rule: string): asserts holds {
  if (!holds) throw new Error(`${typeof check === 'number' ? `check ${check}` : check}: ${rule}`)
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const isCount = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0

/** Only these keys, and no optional one null. */
export function checkKeys(value: JsonObject, section: string, allowed: readonly string[], nullable: readonly string[]) {
  for (const [key, held] of Object.entries(value)) {
    must(6, key !== 'error', 'no chunk, choice or message has a key "error"')
    must(section, allowed.includes(key), `there is no key "${key}"`)
    must(7, held !== null || nullable.includes(key), `"${key}" is left out rather than null`)
  }
}

/** Throws on a lone surrogate. */
export function checkText(value: Json | undefined): void {
  if (typeof value === 'string')
    must(25, value.isWellFormed(), `no text holds half of a character: ${JSON.stringify(value)}`)
  else if (Array.isArray(value)) for (const item of value) checkText(item)
  else if (isObject(value)) for (const item of Object.values(value)) checkText(item)
}

/** The same in all frames of an answer. */
export interface Identity {
  id: string
  created: number
  model: string
}

export function checkIdentity(value: JsonObject, object: string, model: string | undefined): Identity {
  const { id, created } = value
  must('an object', value.object === object, `object is "${object}", not ${JSON.stringify(value.object)}`)
  must(7, typeof id === 'string' && /^chatcmpl-.+/.test(id), `id is a string of ours, not ${JSON.stringify(id)}`)
  must(17, isCount(created) && created < 1e11, `created is an integer of seconds, not ${JSON.stringify(created)}`)
  must(7, typeof value.model === 'string' && value.model !== '', 'model is a string')
  must(25, model === undefined || value.model === model, `model is what was resolved, not ${value.model}`)
  return { id, created, model: value.model }
}

export interface UsageReport {
  prompt: number
  completion: number
  cached: number
  reasoning: number
}

export function checkUsage(usage: Json | undefined): UsageReport {
  must(17, isObject(usage), 'usage is an object')
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage
  must(17, isCount(prompt) && isCount(completion) && isCount(total), 'counts of usage are integers')
  must(17, total === prompt + completion, 'total_tokens is the sum of both')
  const { prompt_tokens_details: read, completion_tokens_details: written } = usage
  must(17, read === undefined || (isObject(read) && isCount(read.cached_tokens)), 'cached_tokens is an integer')
  must(
    17,
    written === undefined || (isObject(written) && isCount(written.reasoning_tokens)),
    'reasoning_tokens is an integer',
  )
  const cached = isObject(read) ? Number(read.cached_tokens) : 0
  const reasoning = isObject(written) ? Number(written.reasoning_tokens) : 0
  must(17, cached <= prompt && reasoning <= completion, 'a part is not larger than what contains it')
  return { prompt, completion, cached, reasoning }
}

/** Null, or complete. */
export function checkLogprobs(value: Json | undefined): Logprobs | null {
  if (value === null || value === undefined) return null
  must(22, isObject(value), 'logprobs are an object or null')
  for (const key of ['content', 'refusal']) {
    const tokens = value[key]
    must(22, tokens !== undefined, `logprobs always have the key "${key}"`)
    must(22, tokens === null || Array.isArray(tokens), `logprobs.${key} is an array or null`)
    for (const token of tokens ?? []) {
      checkToken(token)
      const { top_logprobs: top } = token
      must(22, Array.isArray(top), 'a token has an array top_logprobs')
      for (const other of top) checkToken(other)
    }
  }
  return value as unknown as Logprobs
}

function checkToken(token: Json): asserts token is JsonObject {
  must(22, isObject(token) && typeof token.token === 'string', 'a logprob has its token')
  must(22, typeof token.logprob === 'number' && Number.isFinite(token.logprob), 'a logprob is a finite number')
  const { bytes } = token
  must(22, bytes === null || (Array.isArray(bytes) && bytes.every(isCount)), 'bytes are an array of integers or null')
}

/** Reasoning must be under both of its names. */
export function checkReasoning(value: JsonObject, streamed: boolean): string {
  const { reasoning, reasoning_content: content, reasoning_details: details } = value
  must(10, reasoning === content, 'reasoning and reasoning_content are equal')
  must(10, reasoning === undefined || typeof reasoning === 'string', 'reasoning is a string')
  must(10, details === undefined || Array.isArray(details), 'reasoning_details are an array')
  for (const detail of details ?? []) {
    must(10, isObject(detail) && (!streamed || isCount(detail.index)), 'streamed reasoning_details carry an index')
  }
  return reasoning ?? ''
}

export const FINISH_REASONS: readonly unknown[] = ['stop', 'length', 'tool_calls', 'content_filter', 'function_call']

/** Calls have their own finish reason, unless the answer was truncated on purpose. */
export function checkFinish(finish: Json | undefined, report: { toolCalls: unknown[]; functionCall: unknown }): string {
  must(
    4,
    typeof finish === 'string' && FINISH_REASONS.includes(finish),
    `${JSON.stringify(finish)} is no finish_reason`,
  )
  if (finish === 'length' || finish === 'content_filter') return finish
  must(
    3,
    report.toolCalls.length === 0 || finish === 'tool_calls',
    `tool calls end in "tool_calls", not in "${finish}"`,
  )
  must(
    3,
    report.functionCall === null || finish === 'function_call',
    `a function call ends in its own name, not in "${finish}"`,
  )
  return finish
}

export const SAID_KEYS = [
  'role',
  'content',
  'refusal',
  'tool_calls',
  'function_call',
  'reasoning',
  'reasoning_content',
  'reasoning_details',
  'annotations',
  'audio',
  'images',
]
