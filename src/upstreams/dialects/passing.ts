/**
 * Has an upstream's own words go before the events that are read of them, for answers that pass as they are. Nothing passes of an
 * event that tells of a failure: what a client is told of that is its format's to say. Pure.
 */
import type { AnswerEvent, RawEvent } from '../../domain/events.ts'
import { findMembers } from '../../domain/splice.ts'
import type { Decoder } from '../backend.ts'
import type { SseEvent } from '../sse.ts'
import type { PlainDeltas } from './plain-deltas.ts'

/** What there is to know of an event that passes. */
export type Told = Partial<Pick<RawEvent, 'origin' | 'isContent' | 'isTail'>>

export const toRaw = (name: string | null, data: string, told: Told): RawEvent => ({
  kind: 'raw',
  name,
  data,
  origin: told.origin ?? null,
  isContent: told.isContent ?? false,
  isTail: told.isTail ?? false,
})

/** The event that stands from one place of a text up to another: a line with its name, a line of data, and an empty one. */
function toPlainRaw(text: string, from: number, to: number): RawEvent {
  const data = text.indexOf(DATA, from)
  return toRaw(text.slice(from + NAME.length, data - 1), text.slice(data + DATA.length, to - 2), {})
}
const NAME = 'event: '
const DATA = 'data: '

/** An escape of half a character: who reads it may wait for the other half. */
const HALF = /\\u[dD][89abAB]/

export class PassingDecoder implements Decoder {
  readonly #inner: Pick<Decoder, 'event' | 'end'>
  readonly #tell: (event: SseEvent, read: readonly AnswerEvent[]) => Told | null
  readonly #deltas: PlainDeltas | null
  /** Whether the event before was a piece of text: only then the next one is likely to be one. */
  #isText = false
  #isOver = false

  /**
   * @param tell says what there is to know of an event that was read; null where it does not pass.
   * @param deltas a quick way for what nearly all events are.
   */
  constructor(
    inner: Pick<Decoder, 'event' | 'end'>,
    tell: (event: SseEvent, read: readonly AnswerEvent[]) => Told | null,
    deltas: PlainDeltas | null = null,
  ) {
    this.#inner = inner
    this.#tell = tell
    this.#deltas = deltas
  }

  get plain(): PlainDeltas | null {
    return this.#isText && !this.#isOver ? this.#deltas : null
  }

  take(text: string, out: AnswerEvent[]): number {
    const deltas = this.plain
    if (deltas === null) return 0
    let at = 0
    for (let said = deltas.readAt(text, at); said !== null; said = deltas.readAt(text, at)) {
      const { end } = deltas
      out.push(toPlainRaw(text, at, end), { kind: 'text', choice: 0, text: said })
      at = end
    }
    return at
  }

  event(event: SseEvent, out: AnswerEvent[]): void {
    if (this.#isOver) return
    const read: AnswerEvent[] = []
    this.#inner.event(event, read)
    const last = read.at(-1)?.kind
    this.#isText = last === 'text' && read.length === 1 && !HALF.test(event.data)
    this.#isOver = last === 'done' || last === 'failure'
    const told = last === 'failure' ? null : this.#tell(event, read)
    if (told) out.push(toRaw(event.name, event.data, told))
    for (const one of read) out.push(one)
  }

  end(out: AnswerEvent[]): void {
    if (!this.#isOver) this.#inner.end(out)
  }
}

/** The type of an event: its name, or else what its data say, wherever they say it. */
export function typeOf({ name, data }: SseEvent): string {
  if (name !== null) return name
  const type = findMembers(data)?.findLast((member) => member.name === 'type')
  return type ? data.slice(type.from + 1, type.to - 1) : ''
}
