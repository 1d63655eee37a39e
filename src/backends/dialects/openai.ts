/**
 * The OpenAI dialect: the public chat-completions format itself, so near the identity. Pure. Whatever servers that
 * claim to speak it get wrong is put right later, once for all dialects, in `answer/normalise.ts`.
 */
import { UpstreamError } from '../../error.ts'
import type { Target } from '../../store/snapshot.ts'
import type { AnswerEvent, ChunkChoice, Completion } from '../../wire/chat.ts'
import type { ChatRequest } from '../../wire/request.ts'
import type { Usage } from '../../wire/usage.ts'
import type { Dialect } from '../backend.ts'

export const openai: Dialect = {
  name: 'openai',

  request(body, target) {
    const { stream_options: _, ...rest } = body
    const sent: ChatRequest & Record<string, unknown> = { ...rest, model: target.upstreamModel }
    // Usage is always asked for: a stream without it could only be billed by an estimate.
    if (body.stream) sent.stream_options = { ...body.stream_options, include_usage: true }
    return {
      path: '/chat/completions',
      headers: target.upstream.credential === null ? {} : { authorization: `Bearer ${target.upstream.credential}` },
      body: JSON.stringify(sent),
    }
  },

  completion(json, target) {
    const answer = asObject(json)
    if (!answer) throw notCompletion()
    if (answer.error) throw toUpstreamError(null, answer.error, target)
    if (!Array.isArray(answer.choices) || answer.choices.length === 0) throw notCompletion()
    const completion: Completion = { choices: answer.choices }
    const usage = toUsage(answer.usage)
    return usage ? { completion, usage } : { completion }
  },

  decoder(target) {
    let terminal = false
    /** By choice: whether it has a finish reason. */
    const finished = new Map<number, boolean>()
    const event = (data: string): AnswerEvent[] => {
      if (data === '[DONE]') {
        terminal = true
        return [{ done: true }]
      }
      const chunk = parseObject(data)
      if (!chunk) {
        terminal = true
        return [{ failure: new UpstreamError('broken', 'sent a stream event that is not JSON') }]
      }
      if (chunk.error) {
        terminal = true
        return [{ failure: toUpstreamError(null, chunk.error, target) }]
      }
      const events: AnswerEvent[] = []
      const choices: ChunkChoice[] = Array.isArray(chunk.choices) ? chunk.choices : []
      if (choices.length > 0) events.push({ chunk: { choices } })
      for (const choice of choices) {
        const index = choice?.index ?? 0
        finished.set(index, Boolean(choice?.finish_reason) || finished.get(index) === true)
      }
      if (chunk.usage) {
        const usage = toUsage(chunk.usage)
        if (usage) events.push({ usage })
      }
      return events
    }
    return {
      event: ({ data }) => (terminal ? [] : event(data)),
      end() {
        if (terminal) return []
        // A finish reason without [DONE] is a finished answer; an end without either is a cut (design 9).
        if (finished.size > 0 && [...finished.values()].every(Boolean)) return [{ done: true }]
        return [{ failure: new UpstreamError('broken', 'ended its stream in the middle of the answer') }]
      },
    }
  },

  failure(status, body, headers, target) {
    const parsed = parseObject(body)
    const retryAfterMs = toRetryAfterMs(headers)
    return toUpstreamError(status, parsed?.error ?? parsed, target, retryAfterMs)
  },
}

/** Reads the contract's `usage` object; null where it has no numbers. */
export function toUsage(value: unknown): Usage | null {
  const usage = asObject(value)
  if (!usage) return null
  const prompt = asCount(usage.prompt_tokens)
  const completion = asCount(usage.completion_tokens)
  if (prompt === null || completion === null) return null
  const read = asObject(usage.prompt_tokens_details)
  const written = asObject(usage.completion_tokens_details)
  // A part is never larger than what contains it, whatever an upstream says.
  const cacheRead = Math.min(asCount(read?.cached_tokens) ?? 0, prompt)
  return {
    prompt,
    cacheRead,
    cacheWrite: Math.min(asCount(read?.cache_write_tokens) ?? 0, prompt - cacheRead),
    cacheWrite1h: 0,
    completion,
    reasoning: Math.min(asCount(written?.reasoning_tokens) ?? 0, completion),
    raw: value,
  }
}

const RETRYABLE = new Set([408, 409, 429])

function toUpstreamError(status: number | null, value: unknown, target: Target, retryAfterMs?: number): UpstreamError {
  const error = asObject(value)
  const code = error?.code
  const stated = typeof code === 'number' ? code : null
  const effective = status ?? stated ?? 500
  const message = firstText(error?.message, error?.detail, value) ?? 'gave no reason'
  return new UpstreamError('status', toPublic(message, target), {
    status: effective,
    code: code === null || code === undefined ? null : toPublic(String(code), target),
    param: typeof error?.param === 'string' ? toPublic(error.param, target) : null,
    retryable: effective >= 500 || RETRYABLE.has(effective),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })
}

function firstText(...candidates: unknown[]): string | null {
  const text = candidates.find((candidate) => typeof candidate === 'string' && candidate !== '')
  return typeof text === 'string' ? text : null
}

const MAX_PUBLIC_CHARS = 1_000

/** Takes our credential out of an upstream's words, then cuts them: the other way round could leave half of it. */
function toPublic(text: string, { upstream }: Target): string {
  const hidden = upstream.credential ? text.replaceAll(upstream.credential, '…') : text
  return hidden.slice(0, MAX_PUBLIC_CHARS)
}

function toRetryAfterMs(headers: Headers): number | undefined {
  const ms = Number(headers.get('retry-after-ms') ?? Number.NaN)
  if (Number.isFinite(ms) && ms >= 0) return ms
  const header = headers.get('retry-after')
  if (header === null) return undefined
  const seconds = Number(header)
  if (Number.isFinite(seconds) && seconds >= 0) return seconds * 1000
  return undefined
}

const notCompletion = () => new UpstreamError('broken', 'answered 200 with something that is no completion')

function parseObject(text: string): Record<string, unknown> | null {
  try {
    return asObject(JSON.parse(text))
  } catch {
    return null
  }
}

function asObject(value: unknown): Record<string, unknown> | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null
}

/** No call reads or writes more; beyond it a number is nonsense, and sums of money would stop being exact. */
const MAX_TOKENS = 1e9

function asCount(value: unknown): number | null {
  return typeof value === 'number' && value >= 0 && value <= MAX_TOKENS ? Math.round(value) : null
}
