/**
 * Has an upstream's own words go before the events that are read of them, for answers that pass as they are. Nothing passes of an
 * event that tells of a failure: what a client is told of that is its format's to say. Pure.
 */
import type { AnswerEvent, RawEvent } from '../../domain/events.ts'
import { findMembers } from '../../domain/splice.ts'
import type { Decoder } from '../backend.ts'
import type { SseEvent } from '../sse.ts'

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

/** Reads the event that stands at a place of a text, where it is a piece of text and nothing else. */
export interface PlainReader {
  /** Returns that piece; null where it is anything else. */
  read(text: string, at: number): string | null
  /** Where what was read last ends. */
  readonly end: number
}

/** An escape of half a character: who reads it may wait for the other half. */
const HALF = /\\u[dD][89abAB]/

export class PassingDecoder implements Decoder {
  readonly #inner: Pick<Decoder, 'event' | 'end'>
  readonly #tell: (event: SseEvent, read: readonly AnswerEvent[]) => Told | null
  readonly #plain: PlainReader | null
  /** Whether the event before was a piece of text: only then the next one is likely to be one. */
  #isText = false
  #isOver = false

  /**
   * @param tell says what there is to know of an event that was read; null where it does not pass.
   * @param plain a quick way for what nearly all events are.
   */
  constructor(
    inner: Pick<Decoder, 'event' | 'end'>,
    tell: (event: SseEvent, read: readonly AnswerEvent[]) => Told | null,
    plain: PlainReader | null = null,
  ) {
    this.#inner = inner
    this.#tell = tell
    this.#plain = plain
  }

  take(text: string, out: AnswerEvent[]): number {
    if (this.#plain === null || !this.#isText || this.#isOver) return 0
    let at = 0
    let said = ''
    for (let piece = this.#plain.read(text, at); piece !== null; piece = this.#plain.read(text, at)) {
      said += piece
      at = this.#plain.end
    }
    if (at === 0) return 0
    const frames = at === text.length ? text : text.slice(0, at)
    out.push({ kind: 'frames', frames }, { kind: 'text', choice: 0, text: said })
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
