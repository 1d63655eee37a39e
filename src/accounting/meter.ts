/**
 * Watches one call: what its upstream reported to have used, and what it sent, for a bill where it reports nothing.
 * `dispatch` puts it over every answer, whatever reads that answer later, so that no paid call goes unmetered.
 */

import type { AnswerEvent, BackendAnswer } from '../domain/answer.ts'
import { UpstreamError } from '../domain/error.ts'
import { asList, asObject, asText, type JsonObject } from '../domain/json.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import type { Heard } from '../tokens/count.ts'
import { toTexts } from '../upstreams/dialects/openai/texts.ts'

/** Of one choice; what is beyond it is counted by the ratio of what came before. */
const MAX_HEARD_CHARS = 64 * 1024
/** The most that a request may ask for. */
const MAX_CHOICES = 128

/** What is known of a call. Plain data, because a closure a call costs more than its bookkeeping. */
export interface Meter {
  readonly startedAt: number
  /** Called once, when the call has ended; whoever waits for it sets it. */
  onEnd: ((meter: Meter) => void) | null
  /** What the upstream reported; null where it did not. */
  usage: Usage | null
  /** By choice: what was said, and what was thought. */
  readonly answer: Kept[]
  readonly reasoning: Kept[]
  /** How the call ended: `failed` delivered nothing, `cut` something. Null while it is under way. */
  end: 'ok' | 'failed' | 'cut' | null
  /** Why it did not end well. */
  error: unknown
  upstreamRequestId: string | null
  firstTokenMs: number | null
  durationMs: number | null
}

/** A text as far as it is kept, in the pieces in which it came, and the bytes beyond. */
interface Kept {
  pieces: string[]
  chars: number
  more: number
}

export const createMeter = (): Meter => ({
  startedAt: performance.now(),
  onEnd: null,
  usage: null,
  answer: [],
  reasoning: [],
  end: null,
  error: null,
  upstreamRequestId: null,
  firstTokenMs: null,
  durationMs: null,
})

/** What was heard so far, for a count. */
export const heardOf = ({ answer, reasoning }: Meter): Heard => ({
  answer: answer.map(({ pieces }) => pieces.join('')),
  reasoning: reasoning.map(({ pieces }) => pieces.join('')),
  moreAnswer: answer.reduce((sum, { more }) => sum + more, 0),
  moreReasoning: reasoning.reduce((sum, { more }) => sum + more, 0),
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
  meter.onEnd?.(meter)
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
  else end(meter, meter.firstTokenMs === null ? failureOf(event.failure) : 'cut', event.failure)
}

/** Hears a delta or a message. Upstreams send what they like: nothing here trusts a type. */
function hear(meter: Meter, place: unknown, message: unknown): void {
  const said = asObject(message)
  if (!said) return
  const index = Number.isInteger(place) && Number(place) >= 0 && Number(place) < MAX_CHOICES ? Number(place) : 0
  // Nearly every delta is a piece of content and nothing else.
  if (typeof (said.content ?? '') === 'string' && !saysMore(said)) {
    keep(meter, meter.answer, index, asText(said.content))
    return
  }
  const { content, reasoning, refusal } = toTexts(said)
  keep(meter, meter.answer, index, content)
  keep(meter, meter.reasoning, index, reasoning)
  keep(meter, meter.answer, index, refusal)
  for (const call of asList(said.tool_calls)) {
    const { function: called, custom } = asObject(call) ?? {}
    keep(meter, meter.answer, index, wordsOf(called) + wordsOf(custom))
  }
  keep(meter, meter.answer, index, wordsOf(said.function_call))
}

function keep(meter: Meter, texts: Kept[], index: number, text: string): void {
  if (text === '') return
  meter.firstTokenMs ??= elapsedMs(meter)
  while (texts.length <= index) texts.push({ pieces: [], chars: 0, more: 0 })
  const kept = texts[index] as Kept
  const room = MAX_HEARD_CHARS - kept.chars
  kept.chars += text.length
  if (text.length <= room) {
    kept.pieces.push(text)
    return
  }
  if (room > 0) kept.pieces.push(text.slice(0, room))
  kept.more += Buffer.byteLength(text.slice(Math.max(0, room)))
}

const failureOf = (error: unknown) => (error instanceof UpstreamError && error.kind === 'aborted' ? 'cut' : 'failed')

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
