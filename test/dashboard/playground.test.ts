/** The playground: conversion of input to requests, and of streams to answers. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { readRefusal, toFieldMessage } from '../../src/dashboard/api/refusal.ts'
import {
  EXAMPLE_SCHEMA,
  EXAMPLE_TOOLS,
  NO_SETTINGS,
  readSettings,
  readTools,
  type Settings,
  toParametersText,
} from '../../src/dashboard/playground/settings.ts'
import {
  breakOff,
  createEventReader,
  estimatePrompt,
  isRecorded,
  stop,
  takeData,
  toEnding,
  toFigures,
  toSpoken,
} from '../../src/dashboard/playground/stream.ts'
import * as threads from '../../src/dashboard/playground/thread.ts'
import {
  checkPicture,
  chooseModels,
  chooseSecond,
  toBody,
  toCodeBody,
  toMessages,
  toOfferText,
  toTooLong,
} from '../../src/dashboard/playground/thread.ts'
import { validate } from '../../src/formats/chat/request.ts'

const { addAnswer, beginSecond, changeAnswer, dropSide, isDue, newAnswer, newRound, openCalls, replaceAnswer } = threads

const PIXEL = { name: 'a.png', url: 'data:image/png;base64,AAAA' }

/** A complete answer. */
const answer = (id: number, changes: Partial<threads.Answer> = {}): threads.Answer => ({
  ...newAnswer(id, 'a/b', 0),
  ...{ state: 'done', text: `answer ${id}`, ...changes },
})

const call = (changes: Partial<threads.Call> = {}): threads.Call => ({
  ...{ id: 'c1', kind: 'function', name: 'f', input: '{}', result: null, ...changes },
})

describe('settings', () => {
  const read = (changes: Partial<Settings>) => readSettings({ ...NO_SETTINGS, ...changes })

  test('are request fields that the gateway accepts', () => {
    const { fields, problems } = read({
      ...{ temperature: '0,2', top_p: '1', max_completion_tokens: '50', seed: '-7', frequency_penalty: '-2' },
      ...{ stop: 'END\n\\n', reasoning_effort: 'low', verbosity: 'high', others: '{"top_k": 40}' },
      ...{ tools: EXAMPLE_TOOLS, tool_choice: 'tool get_weather', parallel_tool_calls: 'no' },
      ...{ format: 'json_schema', schema: EXAMPLE_SCHEMA },
    })
    expect(problems).toEqual({})
    expect(fields).toMatchObject({
      ...{ temperature: 0.2, seed: -7, stop: ['END', '\n'], top_k: 40, parallel_tool_calls: false },
      tool_choice: { type: 'function', function: { name: 'get_weather' } },
      response_format: { json_schema: { name: 'answer', strict: true } },
    })
    const body = toBody('a/b', toMessages('Be short.', [newRound(1, 'Hi', [PIXEL])], 0), fields)
    expect(validate(structuredClone(body))).toEqual(body as never)
  })

  test('that are empty add nothing', () => {
    expect(read({})).toEqual({ fields: {}, problems: {} })
    expect(read({ tools: '[]', tool_choice: 'required' }).fields).toEqual({})
    expect(read({ tools: EXAMPLE_TOOLS, tool_choice: 'tool gone' }).fields.tool_choice).toBeUndefined()
  })

  const wrong: [changes: Partial<Settings>, problem: string][] = [
    [{ temperature: '3' }, 'Temperature must be from 0 to 2.'],
    [{ temperature: 'hot' }, 'Temperature must be a number.'],
    [{ max_completion_tokens: '0' }, 'Max tokens must be 1 or more.'],
    [{ max_completion_tokens: '1.5' }, 'Max tokens must be a whole number.'],
    [{ max_completion_tokens: '1,000' }, 'Max tokens must be a whole number.'],
    [{ seed: '1.000' }, 'Seed must be a whole number.'],
    [{ stop: 'a\nb\nc\nd\ne' }, 'At most 4 stop sequences, one per line.'],
    [{ tools: '[{]' }, 'Invalid JSON: '],
    [{ tools: '[1]' }, 'The tool must be an object.'],
    [{ tools: '[{"name":"f"},{"name":"f"}]' }, 'Two tools have the name f.'],
    [
      { tools: '[{"name":"f"},{"type":"function","function":{"name":"a b"}}]' },
      'Tool 2 has an invalid name: use at most 64 letters',
    ],
    [{ format: 'json_schema', schema: '[]' }, 'A schema must be an object'],
    [{ format: 'json_schema', schema: '{' }, 'Invalid JSON: '],
    [{ schema: ' ', format: 'json_schema' }, 'Enter a JSON schema.'],
    [{ others: '{"model":"x"}' }, 'model is already set on this page.'],
    [{ others: '[]' }, 'Other fields must be an object'],
  ]
  test.each(wrong)('%j shows an error', (changes, problem) => {
    const [said, ...more] = Object.entries(read(changes).problems)
    expect(more).toEqual([])
    expect(Object.keys(changes)).toContain(String(said?.[0]))
    expect(said?.[1]).toStartWith(problem)
  })

  test('a schema may include its wrapper in requests, and its name is used', () => {
    const schema = { type: 'object', title: 'Weather' }
    const formatOf = (json: object) =>
      read({ format: 'json_schema', schema: JSON.stringify(json), strict: 'no' }).fields
    const named = { type: 'json_schema', json_schema: { name: 'Weather', schema, strict: false } }
    expect(formatOf(schema)).toEqual({ response_format: named })
    expect(formatOf(named)).toEqual({ response_format: named })
    expect(formatOf(named.json_schema)).toEqual({ response_format: named })
  })

  test('a bare function works, too', () => {
    expect(readTools('{"name":"f"}')).toEqual({
      tools: [{ type: 'function', name: 'f', json: { type: 'function', function: { name: 'f' } } }],
    })
  })

  test('are summarized when collapsed', () => {
    expect(toParametersText({ ...NO_SETTINGS, temperature: '0.2', stop: 'END' })).toBe(
      'temperature 0.2, stop sequences',
    )
  })
})

describe('a thread', () => {
  const two = addAnswer(addAnswer([newRound(1, 'One', []), newRound(2, 'Two', [])], 1, 0, answer(3)), 2, 0, answer(4))

  test('is sent up to an answer, system message first, without failed answers', () => {
    const failed = addAnswer(two, 1, 0, answer(5, { state: 'failed', text: '' }))
    expect(toMessages('Be short.', failed, 0, 4)).toEqual([
      { role: 'system', content: 'Be short.' },
      { role: 'user', content: 'One' },
      { role: 'assistant', content: 'answer 3' },
      { role: 'user', content: 'Two' },
    ])
  })

  test('a failed answer is replaced by the next one, and a retried one by its replacement', () => {
    const failed = addAnswer([newRound(1, 'One', [])], 1, 0, answer(2, { state: 'failed', text: '' }))
    expect(threads.answersOf(addAnswer(failed, 1, 0, answer(3))).map(({ id }) => id)).toEqual([3])
    expect(threads.answersOf(replaceAnswer(addAnswer(two, 1, 0, answer(5)), 3, answer(6))).map(({ id }) => id)).toEqual(
      [6, 4],
    )
  })

  test('a second model has the same history, and only answers the last message', () => {
    let id = 10
    const both = beginSecond(two, () => ++id)
    expect(both.map(({ answers }) => answers[1].map(({ text }) => text))).toEqual([['answer 3'], []])
    expect([isDue(both, 0), isDue(both, 1)]).toEqual([false, true])
    expect(new Set(threads.answersOf(both).map((one) => one.id)).size).toBe(3)
    expect(dropSide(both, 0).map(({ answers }) => answers.map(({ length }) => length))).toEqual([
      [1, 0],
      [0, 0],
    ])
  })

  test("a second model's answers stay when it is shown next to the first again", () => {
    const both = addAnswer(
      beginSecond(two, () => 11),
      2,
      1,
      answer(12),
    )
    const again = beginSecond(addAnswer([...both, newRound(20, 'Three', [])], 20, 0, answer(21)), () => 22)
    expect(again.map(({ answers }) => answers[1].map(({ id }) => id))).toEqual([[11], [12], []])
  })

  test('tool calls wait for their results, which are sent back with them', () => {
    const calling = { text: '', reasoning: 'Hm.', calls: [call(), call({ id: 'c2', kind: 'custom', input: 'x' })] }
    let thread = addAnswer([newRound(1, 'One', [])], 1, 0, answer(2, calling))
    expect([isDue(thread, 0), openCalls(threads.lastAnswer(thread, 0)).length]).toEqual([false, 2])
    thread = changeAnswer(thread, 2, (one) => ({ ...one, calls: one.calls.map((each) => ({ ...each, result: '4' })) }))
    expect(isDue(thread, 0)).toBe(true)
    const [, message, ...results] = toMessages('', thread, 0)
    expect(message).toEqual({
      ...{ role: 'assistant', content: null, reasoning_content: 'Hm.' },
      tool_calls: [
        { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } },
        { id: 'c2', type: 'custom', custom: { name: 'f', input: 'x' } },
      ],
    })
    expect(results.map(({ tool_call_id: id, content }) => [id, content])).toEqual([
      ['c1', '4'],
      ['c2', '4'],
    ])
    const body = toBody('a/b', toMessages('', thread, 0), {})
    expect(validate(structuredClone(body))).toEqual(body as never)
  })

  test('calls of an interrupted answer are not sent: they may be incomplete', () => {
    const thread = addAnswer([newRound(1, 'One', [])], 1, 0, answer(2, { state: 'cut', calls: [call()] }))
    expect(toMessages('', thread, 0).at(-1)).toEqual({ role: 'assistant', content: 'answer 2' })
    expect(openCalls(threads.lastAnswer(thread, 0))).toEqual([])
  })

  test('as code it is the last request, or the one being typed', () => {
    const lastOf = (text: string, thread: threads.Thread = two) =>
      (toCodeBody('a/b', { system: '', thread, side: 0 }, { text, pictures: [] }, {}).messages as unknown[]).at(-1)
    expect(lastOf('')).toEqual({ role: 'user', content: 'Two' })
    expect(lastOf('Three')).toEqual({ role: 'user', content: 'Three' })
    expect(lastOf('', [])).toEqual({ role: 'user', content: 'Hello' })
  })

  test("beyond the gateway's limits it is not sent", () => {
    expect(toTooLong('é'.repeat(16 * 1024 ** 2))).toBeNull()
    expect(toTooLong(`${'é'.repeat(16 * 1024 ** 2)}x`)).toContain('the limit is 32 MB')
  })
})

describe('a stream', () => {
  test('has the same events however it is split, with any line ends', () => {
    const text = ': keep-alive\n\ndata: {"a":1}\r\n\r\ndata:b\rdata: c\r\revent: x\n\nid: 1\ndata: [DONE]\n\ndata: rest'
    fc.assert(
      fc.property(fc.array(fc.nat(text.length)), (cuts) => {
        const read = createEventReader()
        const ends = [...cuts, text.length].sort((a, b) => a - b)
        const events = ends.flatMap((end, at) => read(text.slice(ends[at - 1] ?? 0, end)))
        expect(events).toEqual(['{"a":1}', 'b\nc', '[DONE]'])
      }),
    )
  })

  const frame = (delta: object, finish: string | null = null) =>
    JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }], usage: null })
  const take = (...frames: string[]) =>
    frames.reduce((taken, data, at) => takeData(taken, data, 100 * (at + 1)), newAnswer(1, 'a/b', 0, 1_000))
  const USAGE = JSON.stringify({
    choices: [],
    usage: {
      ...{ prompt_tokens: 10, completion_tokens: 8, cost_nano_usd: 1_234 },
      completion_tokens_details: { reasoning_tokens: 4 },
    },
  })

  test('becomes an answer with its reasoning, its calls, and its cost', () => {
    const taken = take(
      frame({ role: 'assistant', content: '' }),
      frame({ reasoning: 'Hm', reasoning_content: 'Hm' }),
      frame({ content: 'Hé' }),
      frame({ tool_calls: [{ index: 1, id: 'c2', type: 'function', function: { name: 'g', arguments: '' } }] }),
      frame({ tool_calls: [{ index: 0, id: 'c1', type: 'custom', custom: { name: 'f', input: 'x' } }] }),
      frame({ tool_calls: [{ index: 1, function: { arguments: '{"a"' } }] }),
      frame({ tool_calls: [{ index: 1, function: { arguments: ':1}' } }] }),
      frame({}, 'tool_calls'),
      USAGE,
      '[DONE]',
    )
    expect(taken).toMatchObject({
      ...{ state: 'done', text: 'Hé', reasoning: 'Hm', finish: 'tool_calls', firstMs: 200, endedMs: 1_000, bytes: 15 },
      usage: { promptTokens: 10, completionTokens: 8, reasoningTokens: 4, costNanoUsd: 1_234 },
    })
    expect(taken.calls).toEqual([call({ kind: 'custom', input: 'x' }), call({ id: 'c2', name: 'g', input: '{"a":1}' })])
  })

  test('with a gap between its calls has the existing ones', () => {
    const tool = { index: 1, id: 'c2', type: 'function', function: { name: 'g', arguments: '{}' } }
    expect(take(frame({ tool_calls: [tool] }), '[DONE]').calls).toEqual([call({ id: 'c2', name: 'g' })])
  })

  test('that is interrupted never looks complete', () => {
    const error = JSON.stringify({ error: { message: 'The upstream stopped.', type: 'server_error' } })
    expect(take(error)).toMatchObject({ state: 'failed', problem: 'The upstream stopped.' })
    expect(take(frame({ content: 'x' }), error)).toMatchObject({
      ...{ state: 'cut', text: 'x', problem: 'Response interrupted. The upstream stopped.' },
    })
    expect(take(frame({ content: 'x' }), '{"choi')).toMatchObject({ state: 'cut' })
    expect(breakOff(take(frame({ content: 'x' })), 'the connection ended', 300)).toMatchObject({
      ...{ state: 'cut', endedMs: 300, problem: 'Response interrupted. The connection ended.' },
    })
  })

  test('notes an unusual finish reason', () => {
    expect(toEnding(take(frame({ content: 'x' }, 'stop'), '[DONE]'))).toBeNull()
    expect(toEnding(take(frame({ content: 'x' }, 'length'), '[DONE]'))).toBe('Stopped at the max tokens limit.')
    expect(toEnding(take(frame({ refusal: 'No.' }, 'stop'), '[DONE]'))).toBe('The model refused to answer.')
    expect(stop(take(frame({ content: 'x' })), 5)).toMatchObject({ state: 'stopped', endedMs: 5 })
    expect(stop(take(), 5).problem).toBe('Stopped before the first token.')
  })

  const PRICING = [{ prompt: '0.000001', completion: '0.00001' }]

  test('is measured while it streams, and has exact figures at its end', () => {
    const writing = take(frame({ role: 'assistant' }), frame({ content: 'x'.repeat(400) }))
    expect(toFigures(writing, PRICING, 1_200)).toEqual({
      ...{ firstMs: 200, tookMs: 1_200, tokens: 100, tokensPerSecond: 100, nanoUsd: 2_000_000, isEstimated: true },
    })
    expect(toFigures(writing, null, 1_200).nanoUsd).toBeNull()
    const timed = [{ prompt: '0', completion: '0', second: '0.0005' }]
    expect(toFigures(writing, timed, 1_200).nanoUsd).toBe(600_000)
    // Of eight tokens, four were reasoning before the first was shown.
    expect(toFigures(take(frame({ content: 'x' }), USAGE, '[DONE]'), PRICING, 9_999)).toEqual({
      ...{ firstMs: 100, tookMs: 300, tokens: 8, tokensPerSecond: 20, nanoUsd: 1_234, isEstimated: false },
    })
    expect(toFigures(take(), PRICING, 500)).toMatchObject({ firstMs: null, tokensPerSecond: null, nanoUsd: null })
    const failed = breakOff(take(), 'no', 5)
    expect(toFigures(failed, PRICING, 5).nanoUsd).toBe(0)
    expect(toFigures({ ...failed, requestId: 'a' }, PRICING, 5).nanoUsd).toBeNull()
  })

  test('is announced to screen readers', () => {
    const done = take(frame({ content: 'x' }), USAGE, '[DONE]')
    expect(toSpoken(done, toFigures(done, PRICING, 0))).toBe('a/b finished: 8 tokens in 300 ms, $0.000001234.')
    const failed = breakOff(take(), 'no', 5)
    expect(toSpoken(failed, toFigures(failed, PRICING, 0))).toBe('a/b failed. No.')
  })

  test('a prompt is estimated by its text, an image separately', () => {
    expect(estimatePrompt({ messages: [{ content: 'x'.repeat(4_000) }] })).toBeWithin(1_000, 1_020)
    const picture = { image_url: { url: `data:image/png;base64,${'A'.repeat(4_000_000)}` } }
    expect(estimatePrompt([picture])).toBeWithin(700, 900)
  })
})

test('an error in place of a stream has a message, and is recorded if an upstream was called', () => {
  const of = (status: number, error: object) => readRefusal({ error }, status)
  expect(of(401, { kind: 'signed_out', message: 'Sign in first.' })).toMatchObject({
    ...{ message: 'Sign in first.', kind: 'signed_out' },
  })
  const notFound = of(404, { message: 'There is no such model.', code: 'model_not_found' })
  expect([notFound.message, isRecorded(notFound)]).toEqual(['There is no such model.', false])
  expect(isRecorded(of(502, { message: 'It failed.', code: 'upstream_failed' }))).toBe(true)
  expect(readRefusal(null, 502).kind).toBe('unreachable')
  expect(toFieldMessage('Invalid rpm: must be a whole number.', 'rpm')).toBe('Must be a whole number.')
  expect(readRefusal(null, 413).message).toBe('A proxy in front of the server returned an error (413).')
  expect(readRefusal('too large', 413).message).toBe('A proxy in front of the server returned an error (413).')
})

test('models: the one in the URL is used, else a ready one', () => {
  const offer = (slug: string, is_ready: boolean | null = true) => ({ slug, is_ready, pricing: [] })
  const models = [offer('a/down', false), offer('tollgate/demo'), offer('b/up')]
  expect(chooseModels(models, null, null)).toEqual(['b/up'])
  expect(chooseModels(models.slice(0, 2), null, null)).toEqual(['tollgate/demo'])
  expect(chooseModels(models, 'gone', 'b/up')).toEqual(['gone', 'b/up'])
  expect(chooseModels([], null, null)).toEqual([])
  expect(models.map(({ slug }) => chooseSecond(models, slug))).toEqual([...['tollgate/demo', 'b/up', 'tollgate/demo']])
  expect(toOfferText(offer('a/down', false))).toBe('a/down · free · not ready')
})

test('images have types and sizes that models and the gateway accept', () => {
  const check = (type: string, mib: number) => checkPicture({ name: 'a', type, size: mib * 1024 ** 2 })
  expect(check('image/png', 2)).toBeNull()
  expect(check('image/heic', 2)).toContain('PNG, JPEG, WebP, or GIF')
  expect(check('image/png', 30)).toBe('a is 30 MB; a request can have at most 23 MB of images. Make it smaller.')
})
