/** Parsing a response whose JSON the gateway enforces, and replacing its content. */
import { expect, test } from 'bun:test'
import type { AnswerEvent, Logprobs } from '../../src/domain/events.ts'
import { isFinal, splitThinking, withJson } from '../../src/gateway/structured-plan.ts'
import { openai } from '../../src/upstreams/dialects/openai/openai.ts'
import { DONE, stop, text } from '../support/answers.ts'
import { toExpected } from '../support/transcript.ts'

const thoughts: [string, string, string, string][] = [
  ['a block at its beginning', '\n<think>\nhm {"a":0}\n</think>\n{"a":1}', 'hm {"a":0}', '\n{"a":1}'],
  ['a block whose beginning the template wrote', 'hm\n</think>{"a":1}', 'hm', '{"a":1}'],
  ['a block without an end', '<think>hm {"a":1}', 'hm {"a":1}', ''],
  ['no block', '{"a":"</think>"}', '', '{"a":"</think>"}'],
  ['none at all', 'hm', '', 'hm'],
]
test.each(thoughts)('reasoning is removed: %s', (_, content, thinking, answer) => {
  expect(splitThinking(content)).toEqual({ thinking, answer })
})

const toChoice = (message: object = {}, finish: unknown = 'stop'): Record<string, unknown> => ({
  index: 0,
  message: { role: 'assistant', content: 'x', refusal: null, ...message },
  finish_reason: finish,
})
const read = (choice: unknown) => openai.whole({ choices: [choice] }, toExpected())

const ends: [string, Record<string, unknown>, boolean][] = [
  ['a stop', toChoice(), false],
  ['no reason', toChoice({}, null), false],
  ['an empty list of calls', toChoice({ tool_calls: [] }), false],
  ['a message that is missing', { ...toChoice(), message: null }, false],
  ['a length', toChoice({}, 'length'), true],
  ['a filter', toChoice({}, 'content_filter'), true],
  ['a refusal', toChoice({ refusal: 'No.' }), true],
  [
    'calls that say stop',
    toChoice({ tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] }),
    true,
  ],
  ['a legacy call', toChoice({ function_call: { name: 'f', arguments: '{}' } }), true],
]
test.each(ends)('%s ends it or not', (_, choice, yes) => {
  expect(isFinal(read(choice))).toBe(yes)
})

const logprobs: Logprobs = { content: [{ token: 'x', logprob: -1, bytes: null, top_logprobs: [] }], refusal: null }
const thought = (said: string): AnswerEvent => ({ kind: 'reasoning', choice: 0, text: said })

test('reasoning and its tokens stay with the response', () => {
  const written: AnswerEvent = { kind: 'text', choice: 0, text: 'x', logprobs }
  expect(withJson([written, stop(), DONE], '{}', 'hm')).toEqual([thought('hm'), text('{}'), stop(), DONE])
  const asItIs = [thought('own'), { ...written, text: '{}' }, stop(), DONE]
  expect(withJson(asItIs, '{}', 'hm')).toEqual(asItIs)
})

test('reasoning that is known already is not repeated', () => {
  expect(withJson([thought('own'), text('<think>hm</think>'), text('{}'), stop(), DONE], '{}', 'hm')).toEqual([
    thought('own'),
    text('{}'),
    stop(),
    DONE,
  ])
})
