/** Reads passthrough streams in pieces, as `SseStream` does. */
import type { AnswerEvent } from '../../src/domain/events.ts'
import type { Decoder } from '../../src/upstreams/dialects/dialect.ts'
import { SseReader } from '../../src/upstreams/framing.ts'

/** An event, or whole passthrough frames. */
export type ReadEvent = AnswerEvent | { kind: 'frames'; frames: string; text: string }

/** Reads all at once, without the fast path. */
export function readWhole(decoder: Decoder, text: string): AnswerEvent[] {
  const out: AnswerEvent[] = []
  for (const event of new SseReader(1_000_000).feed(text)) decoder.event(event, out)
  return out
}

/** @param below picks the positions: mostly after one or a few events, otherwise anywhere. */
export function readPieces(decoder: Decoder, text: string, below: (n: number) => number): ReadEvent[] {
  const out: ReadEvent[] = []
  const sse = new SseReader(1_000_000)
  for (let at = 0; at < text.length; ) {
    let to = at
    for (let events = 1 + below(3); events > 0; events--) to = behind(text, to)
    if (below(4) === 0) to = at + 1 + below(to - at)
    const piece = text.slice(at, to)
    at = to
    const said = sse.isBetweenEvents() ? (decoder.plain?.read(piece) ?? null) : null
    if (said === null) readEvents(decoder, sse, piece, out)
    else out.push({ kind: 'frames', frames: piece, text: said })
  }
  return out
}

function readEvents(decoder: Decoder, sse: SseReader, piece: string, out: ReadEvent[]): void {
  const events: AnswerEvent[] = []
  const taken = sse.isBetweenEvents() ? decoder.take(piece, events) : 0
  for (const event of sse.feed(piece.slice(taken))) decoder.event(event, events)
  out.push(...events)
}

function behind(text: string, at: number): number {
  const end = text.indexOf('\n\n', at)
  return end === -1 ? text.length : end + 2
}

export const toPassed = (events: readonly ReadEvent[]): string =>
  events
    .map((event) => {
      if (event.kind === 'frames') return event.frames
      return event.kind === 'raw' ? `event: ${event.name}\ndata: ${event.data}\n\n` : ''
    })
    .join('')

/** The other events, with adjacent texts joined: where they were split doesn't matter. */
export function toRead(events: readonly ReadEvent[]): AnswerEvent[] {
  const joined: AnswerEvent[] = []
  for (const event of events) {
    const last = joined.at(-1)
    if (event.kind === 'raw') continue
    if (event.kind !== 'text' && event.kind !== 'frames') joined.push(event)
    else if (last?.kind === 'text') joined[joined.length - 1] = { ...last, text: last.text + event.text }
    else joined.push({ kind: 'text', choice: 0, text: event.text })
  }
  return joined
}

/** Texts that are hard to cut and quote. */
export const WORDS = [
  ...['Hello', ' "quoted"', '\n\n', '\\', ' \u2028 ', '😀', '\u0000', '"}}\n\n', 'event: x', ' ', 'a\\"', 'é\r'],
  ...['data: ', '","delta":"', '\\u0041', '\ufeff', '\ud83e', '/'],
]
