/**
 * Checks what clients receive: the 25 rules of test/README.md. Throws an Error that begins with the rule (`check 2:
 * …`); returns the same shape for whole and streamed answers.
 */
import { type ChoiceReport, emptyChoice, takeChoice } from './contract-choice.ts'
import { checkErrorFields, type ErrorFields, readFrames } from './contract-frames.ts'
import {
  checkIdentity,
  checkKeys,
  checkText,
  checkUsage,
  type Identity,
  isCount,
  isObject,
  type Json,
  type JsonObject,
  must,
  type UsageReport,
} from './contract-parts.ts'
import { toWholeChoice } from './contract-whole.ts'

/** The request, which decides the required content of the response. */
export interface Asked {
  /** The client's `stream_options.include_usage`. */
  includeUsage?: boolean
  /** The client's `n`; default 1. */
  choices?: number
  /** The required model ID; any if omitted. */
  model?: string
  /** False: logprobs are forbidden; omitted: they are optional. */
  logprobs?: boolean
}

export interface Report {
  identity: Identity | null
  choices: ChoiceReport[]
  usage: UsageReport | null
}

export interface StreamReport extends Report {
  error: ErrorFields | null
  frames: number
  heartbeats: number
}

const ANSWER_KEYS = ['id', 'object', 'created', 'model', 'choices', 'usage', 'service_tier', 'system_fingerprint']

/** Checks a stream that ended with `[DONE]` or an error frame. */
export function checkStream(text: string, asked: Asked = {}): StreamReport {
  const { chunks, done, error, heartbeats } = readFrames(text)
  const report: StreamReport = { identity: null, choices: [], usage: null, error, frames: chunks.length, heartbeats }
  chunks.forEach((chunk, position) => {
    checkText(chunk)
    checkKeys(chunk, 'a chunk', [...ANSWER_KEYS, 'obfuscation'], ['usage'])
    const identity = checkIdentity(chunk, 'chat.completion.chunk', asked.model)
    report.identity ??= identity
    must(25, Bun.deepEquals(identity, report.identity), 'all chunks share id, created and model')
    takeUsage(report, chunk, asked, done && position === chunks.length - 1)
    takeChoices(report, chunk, asked)
  })
  if (!done) return report
  must(4, report.choices.length > 0, 'a complete stream has a choice')
  for (const { index, finish } of report.choices) must(4, finish !== null, `choice ${index} has a finish_reason`)
  return report
}

function takeUsage(report: StreamReport, chunk: JsonObject, asked: Asked, last: boolean): void {
  if (!asked.includeUsage) {
    must(1, !('usage' in chunk), 'without include_usage no chunk has usage')
    must(1, isFilled(chunk.choices), 'without include_usage no chunk is without choices')
    return
  }
  if (!last) {
    must(1, chunk.usage === null, 'usage is null in every chunk but the last')
    must(1, isFilled(chunk.choices), 'only the chunk of usage is without choices')
    return
  }
  must(1, isObject(chunk.usage), 'usage was asked for and comes last')
  report.usage = checkUsage(chunk.usage)
  must(1, Array.isArray(chunk.choices) && chunk.choices.length === 0, 'the chunk of usage has no choices')
}

const isFilled = (choices: Json | undefined) => Array.isArray(choices) && choices.length > 0

function takeChoices(report: StreamReport, chunk: JsonObject, asked: Asked): void {
  for (const choice of Array.isArray(chunk.choices) ? chunk.choices : []) {
    must('a chunk', isObject(choice), 'a choice is an object')
    const { index } = choice
    must(21, isCount(index), `a choice has an integer index, not ${JSON.stringify(index)}`)
    must(21, index < (asked.choices ?? 1), `choice ${index} was not asked for`)
    const known = report.choices[index]
    must(21, known !== undefined || index === report.choices.length, 'choices first appear in the order of their index')
    const state = known ?? emptyChoice(index)
    if (!known) report.choices.push(state)
    takeChoice(state, choice, known === undefined)
    must(22, asked.logprobs !== false || state.logprobs === null, 'logprobs were not asked for')
  }
}

/** Takes its text, or its parsed JSON. */
export function checkWhole(answer: unknown, asked: Asked = {}): Report {
  const whole = (typeof answer === 'string' ? JSON.parse(answer) : answer) as Json
  must(17, isObject(whole), 'an answer is an object')
  checkText(whole)
  checkKeys(whole, 'a whole answer', [...ANSWER_KEYS, 'metadata', 'moderation'], [])
  const identity = checkIdentity(whole, 'chat.completion', asked.model)
  const { choices: listed } = whole
  must(17, Array.isArray(listed) && listed.length > 0, 'an answer has choices')
  must(21, listed.length <= (asked.choices ?? 1), `there are ${listed.length} choices`)
  const choices = listed.map(toWholeChoice)
  must(22, asked.logprobs !== false || choices.every((choice) => !choice.logprobs), 'logprobs were not asked for')
  return { identity, choices, usage: checkUsage(whole.usage) }
}

/** Checks a non-2xx response. */
export function checkError(status: number, headers: Headers, body: string): ErrorFields {
  must(11, status >= 400 && status <= 599, `${status} is the status of an error`)
  checkHeaders('error', headers)
  let parsed: Json = null
  try {
    parsed = JSON.parse(body)
  } catch {
    must(11, false, `the body of an error is JSON, not ${JSON.stringify(body.slice(0, 80))}`)
  }
  must(11, isObject(parsed) && Object.keys(parsed).join() === 'error', 'an error is all that its body holds')
  const error = checkErrorFields(parsed.error)
  const isOurs = error.type !== 'invalid_request_error'
  if (status === 401) {
    must(11, headers.get('www-authenticate') === 'Bearer', 'a 401 says how to send a key')
    must(13, headers.get('x-should-retry') === 'false', 'a wrong key is not to be tried again')
  }
  if (status === 405) must(11, Boolean(headers.get('allow')), 'a 405 says what is allowed')
  if (status >= 500) must(15, isOurs, 'what a client did wrong is not its server error')
  if (status < 500 && status !== 429) must(15, !isOurs, 'a 4xx is an invalid_request_error')
  if (status === 429) checkLimit(headers, error)
  if (status === 503) must(13, headers.has('retry-after'), 'a 503 says when to try again')
  if (error.code === 'model_not_found') must(14, status === 404, 'an unknown model is a 404')
  if (error.code === 'context_length_exceeded')
    must(14, /maximum context length is \d+ tokens/.test(error.message), 'the classic sentence')
  if (error.code === 'schema_not_met')
    must(13, headers.get('x-should-retry') === 'false', 'trying again would not help')
  return error
}

function checkLimit(headers: Headers, { type, code }: ErrorFields): void {
  if (type === 'insufficient_quota') {
    must(13, code === 'insufficient_quota', 'a spent budget has its code')
    must(13, headers.get('x-should-retry') === 'false', 'a spent budget is not to be tried again')
    return
  }
  must(13, type === 'requests' || type === 'tokens', 'a limit says what it counts')
  must(13, code === 'rate_limit_exceeded' || code === 'upstream_rate_limited', 'a limit has its code')
  must(13, headers.has('retry-after'), 'a limit says when to try again')
}

/** Checks headers for the kind of answer. */
export function checkHeaders(kind: 'stream' | 'whole' | 'error', headers: Headers): void {
  must(19, /^req_[0-9a-f]{32}$/.test(headers.get('x-request-id') ?? ''), 'every answer has an x-request-id')
  const type = headers.get('content-type')
  const wait = headers.get('retry-after')
  must(
    13,
    wait === null || (/^[1-9]\d*$/.test(wait) && Number(wait) <= 60),
    `retry-after is 1 to 60 seconds, not ${wait}`,
  )
  if (kind !== 'stream') {
    must(11, /^application\/json(;|$)/.test(type ?? ''), `the content type is JSON, not ${type}`)
    return
  }
  must(16, type === 'text/event-stream; charset=utf-8', `the content type is of a stream, not ${type}`)
  must(16, headers.get('cache-control') === 'no-cache, no-transform', 'no proxy changes a stream')
  must(16, headers.get('x-accel-buffering') === 'no', 'no proxy holds a stream back')
  must(16, !headers.has('content-encoding'), 'a stream is not compressed')
  must(16, !headers.has('content-length'), 'a stream has no length')
}
