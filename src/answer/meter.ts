/**
 * Watches one call: what its upstream reported to have used, and what it sent, for a bill where it reports nothing.
 * `dispatch` puts it over every answer, whatever reads that answer later, so that no paid call goes unmetered.
 */
import { UpstreamError } from '../error.ts'
import type { AnswerEvent, BackendAnswer } from '../wire/chat.ts'
import { asList, asObject, type JsonObject } from '../wire/json.ts'
import { NO_USAGE, type Usage } from '../wire/usage.ts'
import type { Heard } from './count.ts'
import { toTexts } from './texts.ts'

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
  /** Keeps a text, and returns how many bytes of it there was no room for. */
  const keep = (texts: string[], index: number, text: string): number => {
    metered.firstTokenMs ??= elapsedMs()
    while (texts.length <= index) texts.push('')
    const kept = texts[index] ?? ''
    const room = MAX_HEARD_CHARS - kept.length
    if (text.length <= room) {
      texts[index] = kept + text
      return 0
    }
    texts[index] = kept + text.slice(0, room)
    return Buffer.byteLength(text.slice(room))
  }
  const hear = (index: number, text: string) => {
    if (text !== '') heard.moreAnswer += keep(heard.answer, index, text)
  }
  const hearMessage = (place: unknown, message: unknown) => {
    const said = asObject(message)
    if (!said) return
    const index = Number.isInteger(place) && Number(place) >= 0 && Number(place) < MAX_CHOICES ? Number(place) : 0
    // Nearly every delta is a piece of content and nothing else.
    if (typeof said.content === 'string' && !saysMore(said)) return hear(index, said.content)
    const { content, reasoning, refusal } = toTexts(said)
    hear(index, content)
    if (reasoning !== '') heard.moreReasoning += keep(heard.reasoning, index, reasoning)
    hear(index, refusal)
    for (const call of asList(said.tool_calls)) {
      const { function: called, custom } = asObject(call) ?? {}
      hear(index, wordsOf(called) + wordsOf(custom))
    }
    hear(index, wordsOf(said.function_call))
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

/** Whether a delta has anything beside its content. */
const saysMore = (said: JsonObject) =>
  said.reasoning_content ||
  said.reasoning ||
  said.reasoning_details ||
  said.refusal ||
  said.tool_calls ||
  said.function_call

/** The words of a call: its name, and its arguments or input, which some upstreams send as an object. */
function wordsOf(call: unknown): string {
  const { name, arguments: given, input } = asObject(call) ?? {}
  return [name, given, input]
    .map((part) => (typeof part === 'string' ? part : asObject(part) ? JSON.stringify(part) : ''))
    .join('')
}
