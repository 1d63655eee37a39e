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

/** What is known of a call. Plain data, because a closure a call costs more than its bookkeeping. */
export interface Meter {
  readonly startedAt: number
  /** What the upstream reported; null where it did not. */
  usage: Usage | null
  readonly heard: Heard
  /** How the call ended: `failed` delivered nothing, `cut` something. Null while it is under way. */
  end: 'ok' | 'failed' | 'cut' | null
  /** Why it did not end well. */
  error: unknown
  upstreamRequestId: string | null
  firstTokenMs: number | null
  durationMs: number | null
}

export const createMeter = (): Meter => ({
  startedAt: performance.now(),
  usage: null,
  heard: { answer: [], reasoning: [], moreAnswer: 0, moreReasoning: 0 },
  end: null,
  error: null,
  upstreamRequestId: null,
  firstTokenMs: null,
  durationMs: null,
})

/** Returns the same answer, watched. */
export function watch(meter: Meter, answer: BackendAnswer): BackendAnswer {
  meter.upstreamRequestId = answer.upstreamRequestId ?? null
  if (answer.kind === 'stream') return { ...answer, events: watchStream(meter, answer.events) }
  meter.usage = answer.usage ?? null
  if (!answer.usage) for (const choice of answer.completion.choices) hear(meter, choice?.index, choice?.message)
  end(meter, 'ok')
  return answer
}

/** Notes that there was no answer. A call that we gave up is paid for as far as it had come. */
export const fail = (meter: Meter, error: unknown) => end(meter, failureOf(error), error)

/** Notes that the call was not even made. */
export const skip = (meter: Meter, error: unknown) => end(meter, 'failed', error)

function end(meter: Meter, how: NonNullable<Meter['end']>, error: unknown = null): void {
  if (meter.end !== null) return
  meter.end = how
  meter.error = error
  meter.durationMs = elapsedMs(meter)
}

const elapsedMs = ({ startedAt }: Meter) => Math.round(performance.now() - startedAt)

function watchStream(meter: Meter, events: AsyncIterable<AnswerEvent[]>): AsyncIterable<AnswerEvent[]> {
  const note = (result: IteratorResult<AnswerEvent[]>) => {
    if (result.done !== true) for (const event of result.value) take(meter, event)
    return result
  }
  return {
    [Symbol.asyncIterator]() {
      const inner = events[Symbol.asyncIterator]()
      return {
        next: () => inner.next().then(note),
        return() {
          end(meter, 'cut')
          return inner.return?.() ?? Promise.resolve({ done: true, value: undefined })
        },
      }
    },
  }
}

function take(meter: Meter, event: AnswerEvent): void {
  if ('chunk' in event) for (const choice of event.chunk.choices) hear(meter, choice?.index, choice?.delta)
  else if ('usage' in event) meter.usage = { ...NO_USAGE, ...meter.usage, ...event.usage }
  else if ('done' in event) end(meter, 'ok')
  else end(meter, isBlank(meter.heard) ? failureOf(event.failure) : 'cut', event.failure)
}

/** Hears a delta or a message. Upstreams send what they like: nothing here trusts a type. */
function hear(meter: Meter, place: unknown, message: unknown): void {
  const said = asObject(message)
  if (!said) return
  const index = Number.isInteger(place) && Number(place) >= 0 && Number(place) < MAX_CHOICES ? Number(place) : 0
  // Nearly every delta is a piece of content and nothing else.
  if (typeof said.content === 'string' && !saysMore(said)) {
    keepAnswer(meter, index, said.content)
    return
  }
  const { content, reasoning, refusal } = toTexts(said)
  keepAnswer(meter, index, content)
  if (reasoning !== '') meter.heard.moreReasoning += keep(meter, meter.heard.reasoning, index, reasoning)
  keepAnswer(meter, index, refusal)
  for (const call of asList(said.tool_calls)) {
    const { function: called, custom } = asObject(call) ?? {}
    keepAnswer(meter, index, wordsOf(called) + wordsOf(custom))
  }
  keepAnswer(meter, index, wordsOf(said.function_call))
}

function keepAnswer(meter: Meter, index: number, text: string): void {
  if (text !== '') meter.heard.moreAnswer += keep(meter, meter.heard.answer, index, text)
}

/** Keeps a text, and returns how many bytes of it there was no room for. */
function keep(meter: Meter, texts: string[], index: number, text: string): number {
  meter.firstTokenMs ??= elapsedMs(meter)
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
