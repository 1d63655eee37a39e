import { describe, expect, test } from 'bun:test'
import { toEvents } from '../../src/demo/events.ts'
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
  test('are one token a batch in a stream, and its end in the last', () => {
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

  test('are one a part in a whole answer', () => {
    const [said, end] = batchesOf({ max_tokens: 30, reasoning_effort: 'low' })
    expect(said?.map((event) => event.kind)).toEqual(['reasoning', 'text'])
    expect(end?.map((event) => event.kind)).toEqual(['finish', 'usage', 'done'])
  })

  test('begin each call with its id and name, numbered from 0', () => {
    const calls = [
      { kind: 'tool', choice: 0, index: 0, id: 'id-0-0', name: 'weather', type: 'function' },
      { kind: 'arguments', choice: 0, index: 0, text: '{}' },
      { kind: 'tool', choice: 0, index: 1, id: 'id-0-1', name: 'code', type: 'custom' },
      { kind: 'arguments', choice: 0, index: 1, text: 'demo' },
    ]
    expect(batchesOf(CALLS)[0]).toEqual(calls as AnswerEvent[])
    expect(
      batchesOf({ ...CALLS, stream: true })
        .slice(0, -1)
        .flat(),
    ).toEqual(calls as AnswerEvent[])
  })

  test('of the legacy functions are calls of their own type', () => {
    const [said, end] = batchesOf({ functions: [WEATHER.function], function_call: { name: 'weather' } })
    expect(said?.[0]).toMatchObject({ kind: 'tool', type: 'function_call', name: 'weather' })
    expect(end?.[0]).toEqual({ kind: 'finish', choice: 0, reason: 'function_call' })
  })

  test('say an empty text as one', () => {
    const empty = [{ kind: 'text', choice: 0, text: '' }]
    for (const stream of [false, true]) expect(batchesOf({ stop: 'This', stream })[0]).toEqual(empty as AnswerEvent[])
  })

  test('let the choices advance side by side, each with its own finish', () => {
    const batches = batchesOf({ n: 2, max_tokens: 2, stream: true })
    expect(batches.map((batch) => batch.map((event) => ('choice' in event ? event.choice : event.kind)))).toEqual([
      [0, 1],
      [0, 1],
      [0, 1, 'usage', 'done'],
    ])
  })

  test('leave out reasoning that is hidden, and count it', () => {
    const hidden = batchesOf({ reasoning: { enabled: true, exclude: true } })
    expect(hidden[0]?.map((event) => event.kind)).toEqual(['text'])
    expect(hidden[1]?.[1]).toMatchObject({ usage: { reasoning: expect.any(Number) } })
  })

  test.each([false, true])('have figures for each token of what is read (stream: %p)', (stream) => {
    const events = batchesOf({ logprobs: true, top_logprobs: 2, max_tokens: 3, stream }).flat()
    const rated = events.flatMap((event) => ('logprobs' in event ? (event.logprobs?.content ?? []) : []))
    expect(rated.map(({ token, top_logprobs }) => [token, top_logprobs.length])).toEqual([
      ['This', 2],
      [' is', 2],
      [' Tollgate', 2],
    ])
  })
})
