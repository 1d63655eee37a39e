/** The event parser, compared with WHATWG's rules, however a network splits the text. */
import { describe, expect, test } from 'bun:test'
import { type SseEvent, SseReader } from '../../src/upstreams/framing.ts'

function read(pieces: Iterable<string>, limit = 1_000): SseEvent[] {
  const reader = new SseReader(limit)
  return [...[...pieces].flatMap((piece) => reader.feed(piece)), ...reader.end()]
}

const event = (data: string, name: string | null = null): SseEvent => ({ name, data })

const TABLE: { name: string; text: string; events: SseEvent[] }[] = [
  { name: 'LF', text: 'data: a\n\ndata: b\n\n', events: [event('a'), event('b')] },
  { name: 'CRLF', text: 'data: a\r\n\r\ndata: b\r\n\r\n', events: [event('a'), event('b')] },
  { name: 'CR', text: 'data: a\r\rdata: b\r\r', events: [event('a'), event('b')] },
  {
    name: 'all three mixed',
    text: 'data: a\r\n\ndata: b\n\r\ndata: c\r\r',
    events: [event('a'), event('b'), event('c')],
  },
  { name: 'one space after the colon, or none', text: 'data:a\n\ndata:  b\n\n', events: [event('a'), event(' b')] },
  { name: 'several data lines', text: 'data: a\ndata:\ndata: b\n\n', events: [event('a\n\nb')] },
  { name: 'a field without a colon', text: 'data\n\n', events: [event('')] },
  { name: 'comments', text: ': ping\n\n:\ndata: a\n: b\n\n', events: [event('a')] },
  {
    name: 'a name, for one event only',
    text: 'event: error\ndata: a\n\ndata: b\n\n',
    events: [event('a', 'error'), event('b')],
  },
  { name: 'a name without data', text: 'event: ping\n\ndata: a\n\n', events: [event('a')] },
  {
    name: 'an error as a field',
    text: 'data: a\n\nerror: b\n\ndata: c\n\n',
    events: [event('a'), event('b', 'error'), event('c')],
  },
  { name: 'fields that are not ours', text: 'id: 7\nretry: 10\ndatum: x\ndata: a\n\n', events: [event('a')] },
  { name: 'a byte order mark, at the start only', text: '\uFEFFdata: \uFEFFa\n\n', events: [event('\uFEFFa')] },
  { name: 'no last blank line', text: 'data: a\n\ndata: b\n', events: [event('a'), event('b')] },
  { name: 'no last line end', text: 'data: a\n\ndata: b', events: [event('a'), event('b')] },
  { name: 'a CR as its very end', text: 'data: a\r', events: [event('a')] },
  { name: 'blank lines alone', text: '\n\r\n\r\n\n', events: [] },
  { name: 'nothing', text: '', events: [] },
]

describe('a stream with', () => {
  test.each(TABLE)('$name gives the same events however it is split', ({ text, events }) => {
    expect(read([text])).toEqual(events)
    expect(read(text)).toEqual(events)
    for (let at = 1; at < text.length; at++) {
      expect(read([text.slice(0, at), text.slice(at)])).toEqual(events)
      expect(read([text.slice(0, at), '', text.slice(at, at + 2), text.slice(at + 2)])).toEqual(events)
    }
  })
})

test('an event is emitted as soon as its blank line has arrived', () => {
  const reader = new SseReader(1_000)
  expect(reader.feed('data: a\n')).toEqual([])
  expect(reader.feed('\ndata')).toEqual([event('a')])
  expect(reader.end()).toEqual([event('')])
})

describe('the limit', () => {
  test.each([
    ['one long line', [`data: ${'x'.repeat(2_000)}`]],
    ['one line in many pieces', Array.from({ length: 200 }, () => 'x'.repeat(10))],
    ['many short lines of one event', Array.from({ length: 200 }, () => 'data: 12345\n')],
  ])('ends %s', (_, pieces) => {
    const reader = new SseReader(1_000)
    expect(reader.feed('data: whole\n\n')).toEqual([event('whole')])
    expect(pieces.flatMap((piece) => reader.feed(piece))).toEqual([])
    expect(reader.isTooLarge).toBe(true)
  })

  test('emits complete events before it', () => {
    const reader = new SseReader(1_000)
    expect(reader.feed(`data: a\n\ndata: ${'x'.repeat(2_000)}\n\ndata: b\n\n`)).toEqual([event('a')])
    expect(reader.isTooLarge).toBe(true)
  })

  test('applies to one event, not to all of them', () => {
    expect(read(Array.from({ length: 200 }, () => 'data: 12345\n\n'))).toHaveLength(200)
  })
})

test('a large event in tiny pieces takes no more work than in large ones', () => {
  const text = 'x'.repeat(500_000)
  expect(read(`data: ${text}\n\n`, 1_000_000)).toEqual([event(text)])
})
