/** Assigns pieces to calls, and checks the calls that a client reads. */
import { describe, expect, test } from 'bun:test'
import type { AnswerEvent } from '../../../src/domain/events.ts'
import type { ToolCallDelta } from '../../../src/formats/chat/answer.ts'
import { ToolCalls } from '../../../src/upstreams/dialects/openai/tool-calls.ts'
import { CallIds } from '../../../src/upstreams/dialects/tool-calls.ts'
import { toFrames } from '../../support/frames.ts'
import { createWriter } from '../../support/transcript.ts'

/** The deltas that a client receives. */
const toDeltas = (events: readonly AnswerEvent[]) =>
  toFrames(createWriter().take(events))
    .frames.flatMap(({ choices }) => choices)
    .flatMap(({ delta }) => (delta.tool_calls ?? []) as ToolCallDelta[])

/** Placeholder for a missing ID. */
const minted = (index: number) => new CallIds('call', 'answer').of('', index)

/** Plays lists of `tool_calls`; returns each call as a client joins it, and all deltas. */
function play(lists: unknown[], complete = true) {
  const calls = new ToolCalls(0, new CallIds('call', 'answer'))
  const events: AnswerEvent[] = []
  for (const list of lists) calls.take(list, events)
  calls.end(complete, events)
  const deltas = toDeltas(events)
  const joined: { id: string; type: string; name: string; text: string }[] = []
  for (const { index, id, type, function: called, custom } of deltas) {
    const call = joined[index] ?? { id: '', type: '', name: '', text: '' }
    joined[index] = {
      id: call.id + (id ?? ''),
      type: call.type + (type ?? ''),
      name: call.name + (called?.name ?? custom?.name ?? ''),
      text: call.text + (called?.arguments ?? custom?.input ?? ''),
    }
  }
  return { calls: joined.map(({ id, name, text }) => [id, name, text]), deltas, types: joined.map(({ type }) => type) }
}

const entry = (fields: object, name?: unknown, text?: unknown) => ({ ...fields, function: { name, arguments: text } })

describe('pieces', () => {
  test.each([
    ['as the contract has them', [[entry({ index: 0, id: 'a' }, 'f', '')], [entry({ index: 0 }, undefined, '{}')]]],
    ['with everything repeated', [[entry({ index: 0, id: 'a' }, 'f', '{')], [entry({ index: 0, id: 'a' }, 'f', '}')]]],
    ['with an index that drifts', [[entry({ index: 0, id: 'a' }, 'f', '{')], [entry({ index: 3 }, undefined, '}')]]],
    ['without an index', [[entry({ id: 'a' }, 'f', '{')], [entry({}, null, '}')]]],
    [
      'whose name comes late',
      [[entry({ index: 0, id: 'a' }, '', '{')], [entry({ index: 0 }, 'f')], [entry({}, '', '}')]],
    ],
    ['whose name comes after all else', [[entry({ index: 0, id: 'a' }, null, '{}')], [entry({ index: 0 }, 'f')]]],
    ['with a new id each', [[entry({ index: 0, id: 'a' }, 'f', '{')], [entry({ index: 0, id: 'b' }, '', '}')]]],
    ['with arguments as an object', [[entry({ index: 0, id: 'a' }, 'f', {})]]],
    ['with null for arguments', [[entry({ index: 0, id: 'a' }, 'f', null)]]],
    ['without arguments', [[{ index: 0, id: 'a', function: { name: 'f' } }]]],
    ['said all over again at the end', [[entry({ index: 0, id: 'a' }, 'f', '{}')], [entry({ id: 'a' }, 'f', '{}')]]],
    ['not in a list', [{ id: 'a', name: 'f', arguments: '{}' }]],
    ['among other things', [null, 'x', [null, 7, entry({ id: 'a' }, 'f', '{}')], []]],
  ])('%s are one call', (_, lists) => {
    const { calls, deltas, types } = play(lists)
    expect(calls).toEqual([['a', 'f', '{}']])
    expect(types).toEqual(['function'])
    expect(deltas[0]).toEqual({ index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '' } })
  })

  test.each([
    ['with indexes', [[entry({ index: 0, id: 'a' }, 'f', '{}')], [entry({ index: 1, id: 'b' }, 'g', '{}')]]],
    ['all at index 0', [[entry({ index: 0, id: 'a' }, 'f', '{}')], [entry({ index: 0, id: 'b' }, 'g', '{}')]]],
    ['at odd indexes', [[entry({ index: 7, id: 'a' }, 'f', '{}')], [entry({ index: 3, id: 'b' }, 'g', '{}')]]],
    ['in one list', [[entry({ id: 'a' }, 'f', '{}'), entry({ id: 'b' }, 'g', '{}')]]],
    [
      'side by side',
      [
        [entry({ index: 0, id: 'a' }, 'f', '{'), entry({ index: 1, id: 'b' }, 'g', '{')],
        [entry({ index: 1 }, '', '}'), entry({ index: 0 }, '', '}')],
      ],
    ],
  ])('of two calls %s are two', (_, lists) => {
    expect(play(lists).calls).toEqual([
      ['a', 'f', '{}'],
      ['b', 'g', '{}'],
    ])
  })

  test.each([
    ['without ids', [[entry({ index: 0 }, 'f', '{}'), entry({ index: 1 }, 'f', '{}')]], [minted(0), minted(1)]],
    ['without ids and indexes', [[entry({}, 'f', '{}'), entry({}, 'f', '{}')]], [minted(0), minted(1)]],
    ['without ids, one after another', [[entry({}, 'f', '{}')], [entry({}, 'f', '{}')]], [minted(0), minted(1)]],
    ['with one id in one list', [[entry({ id: 'a' }, 'f', '{}'), entry({ id: 'a' }, 'f', '{}')]], ['a', minted(1)]],
    ['whose id is a number', [[entry({ id: 7 }, 'f', '{}'), entry({ id: '' }, 'f', '{}')]], ['7', minted(1)]],
  ])('of two equal calls %s are two', (_, lists, ids) => {
    expect(play(lists).calls).toEqual(ids.map((id) => [id, 'f', '{}']))
  })
})

test('an ID that arrives after its call has begun with another changes nothing', () => {
  expect(play([[entry({ index: 0 }, 'f', '{')], [entry({ index: 0, id: 'late' }, '', '}')]]).calls).toEqual([
    [minted(0), 'f', '{}'],
  ])
})

test('a call without a name is not sent, and leaves no gap', () => {
  expect(play([[entry({ index: 0, id: 'a' }, '', '{}'), entry({ index: 1, id: 'b' }, 'g', '{}')]]).calls).toEqual([
    ['b', 'g', '{}'],
  ])
})

test('a call without arguments gets empty ones only if the response was not truncated', () => {
  const lists = [[entry({ id: 'a' }, 'f', '')]]
  expect(play(lists).calls).toEqual([['a', 'f', '{}']])
  expect(play(lists, false).calls).toEqual([['a', 'f', '']])
})

test('a custom tool’s input is streamed alike, and is not JSON', () => {
  const { calls, deltas } = play([
    [{ index: 0, id: 'a', type: 'custom', custom: { name: 'run', input: 'ls' } }],
    [{ index: 0, custom: { input: ' -l' } }],
  ])
  expect(calls).toEqual([['a', 'run', 'ls -l']])
  expect(deltas.slice(0, 2)).toEqual([
    { index: 0, id: 'a', type: 'custom', custom: { name: 'run', input: '' } },
    { index: 0, custom: { input: 'ls' } },
  ])
  expect(play([[{ id: 'a', type: 'custom', custom: { name: 'run' } }]]).calls).toEqual([['a', 'run', '']])
})

test('arguments are never split within a character', () => {
  const { calls, deltas } = play([[entry({ id: 'a' }, 'f', '{"a":"\ud83e')], [entry({}, '', '\udd8a"}')]])
  expect(calls).toEqual([['a', 'f', '{"a":"🦊"}']])
  for (const delta of deltas) expect(delta.function?.arguments?.isWellFormed()).toBe(true)
})

test('a hundred and fifty thousand calls in one list delay no one', () => {
  const list = Array.from({ length: 150_000 }, (_, i) => entry({ index: 1e9 + i, id: `call ${i}` }, 'f', '{}'))
  const events: AnswerEvent[] = []
  new ToolCalls(0, new CallIds('call', 'answer')).take(list, events)
  expect(events.at(-2)).toMatchObject({ kind: 'tool', index: 149_999, id: 'call 149999' })
})
