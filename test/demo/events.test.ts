import { describe, expect, test } from 'bun:test'
import { createPacedStream, toEvents } from '../../src/demo/demo.ts'
import { toReply } from '../../src/demo/reply.ts'
import type { AnswerEvent } from '../../src/domain/events.ts'
import { type Asked, say, toCall } from './asking.ts'

const WEATHER = { type: 'function' as const, function: { name: 'weather' } }
const CODE = { type: 'custom' as const, custom: { name: 'code' } }
const CALLS: Asked = { messages: say('weather, then code'), tools: [WEATHER, CODE] }

const toId = (choice: number, index: number) => `id-${choice}-${index}`

function batchesOf(asked: Asked): AnswerEvent[][] {
  const { body } = toCall(asked)
  return toEvents(toReply(body, body.max_tokens ?? 100), body, toId)
}

describe('events of the demo model', () => {
  test('are one token per batch in a stream, with the end in the last one', () => {
    expect(batchesOf({ max_tokens: 2, stream: true })).toEqual([
      [{ kind: 'text', choice: 0, text: 'This' }],
      [{ kind: 'text', choice: 0, text: ' is' }],
      [
        { kind: 'finish', choice: 0, reason: 'length' },
        { kind: 'usage', usage: expect.objectContaining({ prompt: 5, completion: 2 }) },
        { kind: 'done' },
      ],
    ])
  })

  test('are one per part in a whole response', () => {
    const batches = batchesOf({ max_tokens: 30, reasoning_effort: 'low' })
    const kinds = batches.map((batch) => batch.map((event) => event.kind))
    expect(kinds).toEqual([['reasoning', 'text', 'finish', 'usage', 'done']])
  })

  test('begin each call with its ID and name, numbered from 0', () => {
    const calls = [
      { kind: 'tool', choice: 0, index: 0, id: 'id-0-0', name: 'weather', type: 'function' },
      { kind: 'arguments', choice: 0, index: 0, text: '{}' },
      { kind: 'tool', choice: 0, index: 1, id: 'id-0-1', name: 'code', type: 'custom' },
      { kind: 'arguments', choice: 0, index: 1, text: 'demo' },
    ]
    expect(batchesOf(CALLS)[0]?.slice(0, 4)).toEqual(calls as AnswerEvent[])
    expect(
      batchesOf({ ...CALLS, stream: true })
        .slice(0, -1)
        .flat(),
    ).toEqual(calls as AnswerEvent[])
  })

  test('of legacy functions are calls of their own type', () => {
    const events = batchesOf({ functions: [WEATHER.function], function_call: { name: 'weather' } }).flat()
    expect(events[0]).toMatchObject({ kind: 'tool', type: 'function_call', name: 'weather' })
    expect(events[2]).toEqual({ kind: 'finish', choice: 0, reason: 'function_call' })
  })

  test.each([false, true])('are none for an empty text (stream: %p)', (stream) => {
    expect(batchesOf({ stop: 'This', stream }).map((batch) => batch[0]?.kind)).toEqual(['finish'])
  })

  test.each([false, true])('contain no half characters (stream: %p)', (stream) => {
    const events = batchesOf({ messages: say('a \ud83d\ude00 \ud800'), stop: '\ude00', stream, logprobs: true }).flat()
    for (const event of events) {
      if (event.kind !== 'text') continue
      expect(event.text.isWellFormed()).toBe(true)
      expect(event.logprobs?.content?.map(({ token }) => token).join('')).toBe(event.text)
    }
  })

  test('alternate between choices, each with its own finish', () => {
    const batches = batchesOf({ n: 2, max_tokens: 2, stream: true })
    expect(batches.map((batch) => batch.map((event) => ('choice' in event ? event.choice : event.kind)))).toEqual([
      [0, 1],
      [0, 1],
      [0, 1, 'usage', 'done'],
    ])
  })

  test.each([false, true])('have logprobs for each token of the text (stream: %p)', (stream) => {
    const events = batchesOf({ logprobs: true, top_logprobs: 2, max_tokens: 3, stream }).flat()
    const rated = events.flatMap((event) => ('logprobs' in event ? (event.logprobs?.content ?? []) : []))
    expect(rated.map(({ token, top_logprobs }) => [token, top_logprobs.length])).toEqual([
      ['This', 2],
      [' is', 2],
      [' Tollgate', 2],
    ])
  })
})

describe('the paced stream of the demo model', () => {
  const BATCHES: AnswerEvent[][] = ['a', 'b', 'c'].map((text) => [{ kind: 'text', choice: 0, text }])
  const open = (paceMs: number, signal = new AbortController().signal) => {
    const taken: string[] = []
    const stream = createPacedStream(BATCHES, paceMs, signal)
    const pump = (most = 9) =>
      stream.pump((events) => {
        for (const event of events) taken.push(event.kind === 'text' ? event.text : event.kind)
        return taken.length < most
      })
    return { taken, stream, pump }
  }

  test('can be resumed, and waits for its reader', async () => {
    const { taken, pump } = open(0)
    await pump(1)
    expect(taken).toEqual(['a'])
    await pump()
    await pump()
    expect(taken).toEqual(['a', 'b', 'c'])
  })

  test('ends immediately, with a failure if aborted and silently if closed', async () => {
    const abort = new AbortController()
    const [left, closed] = [open(60_000, abort.signal), open(60_000)]
    const pending = [left.pump(), closed.pump()]
    abort.abort()
    closed.stream.close()
    await Promise.all(pending)
    await left.pump()
    expect(left.taken).toEqual(['a', 'failure'])
    expect(closed.taken).toEqual(['a'])
  })

  test('throws errors of its reader', async () => {
    const stream = createPacedStream(BATCHES, 0, new AbortController().signal)
    const refuse = () => {
      throw new Error('full')
    }
    await expect(stream.pump(refuse)).rejects.toThrow('full')
  })
})
