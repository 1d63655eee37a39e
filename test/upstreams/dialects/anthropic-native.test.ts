/** What is read beside an answer of the Messages API that passes as it is: the same as of one that is written anew. */
import { expect, test } from 'bun:test'
import type { AnswerEvent } from '../../../src/domain/events.ts'
import type { Decoder } from '../../../src/upstreams/backend.ts'
import { anthropic } from '../../../src/upstreams/dialects/anthropic/anthropic.ts'
import { SseReader } from '../../../src/upstreams/sse.ts'
import { toSteps } from '../../support/anthropic-answers.ts'
import { createPicker } from '../../support/random.ts'
import { toTarget } from '../../support/snapshot.ts'

const expected = {
  target: toTarget({ dialect: 'anthropic' }),
  ...{ choices: 1, logprobs: false, callId: 'x-1', body: {} },
}

/** Reads a stream in pieces, as its stream does. */
function read(decoder: Decoder | undefined, text: string, cut: (left: number) => number): AnswerEvent[] {
  const out: AnswerEvent[] = []
  const sse = new SseReader(1_000_000)
  for (let at = 0; at < text.length; ) {
    const piece = text.slice(at, at + cut(text.length - at))
    at += piece.length
    const taken = decoder && sse.isBetweenEvents() ? decoder.take(piece, out) : 0
    for (const event of sse.feed(piece.slice(taken))) decoder?.event(event, out)
  }
  return out
}

const WORDS = [
  'Hello',
  ' "quoted"',
  '\n\n',
  '\\',
  ' \u2028 ',
  '😀',
  '\u0000',
  '"}}\n\n',
  'event: x',
  ' ',
  'a\\"',
  'é\r',
]

test('whatever is said, and however it comes in pieces', () => {
  const below = createPicker(7)
  for (let round = 0; round < 300; round++) {
    const texts = Array.from({ length: 1 + below(3) }, () =>
      Array.from({ length: 1 + below(12) }, () => WORDS[below(WORDS.length)]).join(''),
    )
    const text = toSteps({ blocks: [{ thought: 'Hm' }, ...texts.map((text) => ({ text }))] }).join('')
    const cut = below(3) === 0 ? () => text.length : (left: number) => 1 + below(Math.min(left, 400))
    const passed = read(anthropic.native?.messages?.decoder(expected), text, cut)
    const anew = read(anthropic.decoder(expected), text, (left) => left)
    const raws = passed.filter((event) => event.kind === 'raw')
    expect(raws.map(({ name, data }) => `event: ${name}\ndata: ${data}\n\n`).join('')).toBe(text)
    expect(join(passed.filter(({ kind }) => kind !== 'raw'))).toEqual(join(anew))
    expect(raws.filter(({ isTail }) => isTail).map(({ name }) => name)).toEqual(['message_stop'])
  }
})

/** Pieces of text as one: where they are parted is no matter. */
function join(events: readonly AnswerEvent[]): AnswerEvent[] {
  const joined: AnswerEvent[] = []
  for (const event of events) {
    const last = joined.at(-1)
    if (event.kind === 'text' && last?.kind === 'text')
      joined[joined.length - 1] = { ...last, text: last.text + event.text }
    else joined.push(event.kind === 'text' ? { kind: 'text', choice: event.choice, text: event.text } : event)
  }
  return joined
}

test('events without a name are known by their data, wherever those say their type', () => {
  const message = '"message":{"type":"message","id":"msg_up","usage":{"input_tokens":1}}'
  const delta = '"delta":{"type":"text_delta","text":"Hi"}'
  const datas = [
    `{${message},"type":"message_start"}`,
    '{"index":0,"content_block":{"type":"text","text":""},"type":"content_block_start"}',
    `{"index":0,${delta},"type":"content_block_delta"}`,
    '{"type":"message_stop"}',
  ]
  const text = datas.map((data) => `data: ${data}\n\n`).join('')
  const events = read(anthropic.native?.messages?.decoder(expected), text, (left) => left)
  const raws = events.filter((event) => event.kind === 'raw')
  expect(raws.map(({ origin, isTail }) => [origin, isTail])).toEqual([
    ['message', false],
    [null, false],
    [null, false],
    [null, true],
  ])
})

test('the end is held back whatever its event is called', () => {
  const text =
    'event: message_start\ndata: {"type":"message_start","message":{}}\n\nevent: end\ndata: {"type":"message_stop"}\n\n'
  const events = read(anthropic.native?.messages?.decoder(expected), text, (left) => left)
  expect(events.findLast((event) => event.kind === 'raw')).toMatchObject({ name: 'end', isTail: true })
})
