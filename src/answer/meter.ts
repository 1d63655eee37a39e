/**
 * Watches one call: what its upstream reported to have used, and what it sent, for a bill where it reports nothing.
 * `dispatch` puts it over every answer, whatever reads that answer later, so that no paid call goes unmetered.
 */
import { UpstreamError } from '../error.ts'
import type { AnswerEvent, BackendAnswer } from '../wire/chat.ts'
import { NO_USAGE, type Usage } from '../wire/usage.ts'
import type { Heard } from './count.ts'

/** Of one choice; what is beyond it is counted by the ratio of what came before. */
const MAX_HEARD_CHARS = 64 * 1024
/** The most that a request may ask for. */
const MAX_CHOICES = 128

export interface Metered {
  /** What the upstream reported; null where it did not. */
  usage: Usage | null
  heard: Heard
  /** How the call ended: `failed` delivered nothing, `cut` something. Null while it is under way. */
  end: 'ok' | 'failed' | 'cut' | null
  /** Why it did not end well. */
  error: unknown
  upstreamRequestId: string | null
  firstTokenMs: number | null
  durationMs: number | null
}

export interface Meter {
  readonly metered: Metered
  /** Returns the same answer, watched. */
  watch(answer: BackendAnswer): BackendAnswer
  /** Notes that there was no answer. */
  fail(error: unknown): void
  /** Notes that the call was not even made. */
  skip(error: unknown): void
}

export function createMeter(): Meter {
  const startedAt = performance.now()
  const elapsedMs = () => Math.round(performance.now() - startedAt)
  const metered: Metered = {
    usage: null,
    heard: { answer: [], reasoning: [], moreAnswer: 0, moreReasoning: 0 },
    end: null,
    error: null,
    upstreamRequestId: null,
    firstTokenMs: null,
    durationMs: null,
  }
  const { heard } = metered

  const end = (how: NonNullable<Metered['end']>, error: unknown = null) => {
    if (metered.end !== null) return
    metered.end = how
    metered.error = error
    metered.durationMs = elapsedMs()
  }
  const hear = (texts: string[], index: number, text: string): number => {
    if (text === '') return 0
    metered.firstTokenMs ??= elapsedMs()
    while (texts.length <= index) texts.push('')
    const kept = texts[index] ?? ''
    const room = MAX_HEARD_CHARS - kept.length
    if (room > 0) texts[index] = kept + (text.length > room ? text.slice(0, room) : text)
    return text.length > room ? Buffer.byteLength(text.slice(Math.max(0, room))) : 0
  }
  /** Upstreams send what they like: nothing here trusts a type. */
  const hearMessage = (place: unknown, message: Spoken | null | undefined) => {
    if (typeof message !== 'object' || message === null) return
    const index = Number.isInteger(place) && Number(place) >= 0 && Number(place) < MAX_CHOICES ? Number(place) : 0
    const { content, refusal, tool_calls: calls, function_call: call } = message
    const say = (text: string) => {
      heard.moreAnswer += hear(heard.answer, index, text)
    }
    if (typeof content === 'string') say(content)
    else if (Array.isArray(content)) say(content.map(textOf).join(''))
    const reasoning = message.reasoning_content || message.reasoning
    if (typeof reasoning === 'string') heard.moreReasoning += hear(heard.reasoning, index, reasoning)
    if (typeof refusal === 'string') say(refusal)
    if (Array.isArray(calls)) for (const item of calls) say(textOf(item?.function) + textOf(item?.custom))
    if (call) say(textOf(call))
  }
  const take = (events: readonly AnswerEvent[]) => {
    for (const event of events) {
      if ('chunk' in event) for (const choice of event.chunk.choices) hearMessage(choice?.index, choice?.delta)
      else if ('usage' in event) metered.usage = { ...NO_USAGE, ...metered.usage, ...event.usage }
      else if ('done' in event) end('ok')
      else end(isBlank(heard) ? failureOf(event.failure) : 'cut', event.failure)
    }
  }
  const watchStream = (events: AsyncIterable<AnswerEvent[]>): AsyncIterable<AnswerEvent[]> => ({
    [Symbol.asyncIterator]() {
      const inner = events[Symbol.asyncIterator]()
      const note = (result: IteratorResult<AnswerEvent[]>) => {
        if (result.done !== true) take(result.value)
        return result
      }
      return {
        next: () => inner.next().then(note),
        return() {
          end('cut')
          return inner.return?.() ?? Promise.resolve({ done: true, value: undefined })
        },
      }
    },
  })

  return {
    metered,
    watch(answer) {
      metered.upstreamRequestId = answer.upstreamRequestId ?? null
      if (answer.kind === 'stream') return { ...answer, events: watchStream(answer.events) }
      metered.usage = answer.usage ?? null
      if (!answer.usage) for (const choice of answer.completion.choices) hearMessage(choice?.index, choice?.message)
      end('ok')
      return answer
    },
    fail: (error) => end(failureOf(error), error),
    skip: (error) => end('failed', error),
  }
}

/** A call that we gave up was paid for as far as it had come. */
const failureOf = (error: unknown) => (error instanceof UpstreamError && error.kind === 'aborted' ? 'cut' : 'failed')

const isBlank = ({ answer, reasoning }: Heard) => answer.length === 0 && reasoning.length === 0

interface Spoken {
  content?: unknown
  refusal?: unknown
  reasoning?: unknown
  reasoning_content?: unknown
  tool_calls?: unknown
  function_call?: unknown
}

/** The words of a part of content, or of a call: its name and its arguments or input. */
function textOf(part: unknown): string {
  if (typeof part !== 'object' || part === null) return ''
  let text = ''
  for (const field of ['text', 'name', 'arguments', 'input'] as const) {
    const value = (part as Record<string, unknown>)[field]
    if (typeof value === 'string') text += value
    else if (value !== null && typeof value === 'object') text += JSON.stringify(value)
  }
  return text
}
