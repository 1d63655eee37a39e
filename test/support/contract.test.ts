/** Each rule has a stream that breaks it. */
import { describe, expect, test } from 'bun:test'
import { checkStream } from './contract.ts'

type Chunk = Record<string, unknown>

const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_700_000_000, model: 'acme/large' }
const frame = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`
const chunk = (delta: unknown, finish: unknown = null, more: Chunk = {}) =>
  frame({ ...head, choices: [{ index: 0, delta, finish_reason: finish, ...more }] })
const at = (index: unknown, delta: unknown, finish: unknown = null) => chunk(delta, finish, { index })
const DONE = 'data: [DONE]\n\n'
const FIRST = { role: 'assistant', content: '', refusal: null }
const role = chunk(FIRST)
const hello = chunk({ content: 'Hello' })
const stop = chunk({}, 'stop')
const failure = { message: 'It broke.', type: 'server_error', param: null, code: 'upstream_failed' }
const usage = {
  prompt_tokens: 3,
  completion_tokens: 2,
  total_tokens: 5,
  prompt_tokens_details: { cached_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0 },
}
const counted = (...frames: string[]) => frames.join('').replaceAll('}\n\n', ',"usage":null}\n\n')
const usageFrame = (changed: Chunk = {}) => frame({ ...head, choices: [], usage: { ...usage, ...changed } })

const call = (more: Chunk = {}) => ({
  index: 0,
  id: 'c0',
  type: 'function',
  function: { name: 'f', arguments: '' },
  ...more,
})
const tools = (...deltas: unknown[]) => deltas.map((delta) => chunk({ tool_calls: [delta] })).join('')
const called = chunk({}, 'tool_calls')
const token = { token: 'a', logprob: -0.5, bytes: [97], top_logprobs: [] }
const probable = (value: unknown) => role + chunk({ content: 'a' }, null, { logprobs: value }) + stop + DONE

test('a response that follows every rule is read as its client reads it', () => {
  const text = counted(
    chunk({ ...FIRST, content: null }),
    chunk({ reasoning: 'hm', reasoning_content: 'hm' }),
    chunk({ content: 'a' }, null, { logprobs: { content: [token], refusal: null } }),
    tools(call(), { index: 0, function: { arguments: '{}' } }, call({ index: 1, id: 'c1' })),
    chunk({}, 'tool_calls'),
  )
  const report = checkStream(`: keep-alive\n\n${text}${usageFrame()}${DONE}`, {
    includeUsage: true,
    model: 'acme/large',
  })
  expect(report).toEqual({
    identity: { id: 'chatcmpl-1', created: 1_700_000_000, model: 'acme/large' },
    choices: [
      {
        index: 0,
        content: 'a',
        reasoning: 'hm',
        refusal: '',
        toolCalls: [
          { id: 'c0', type: 'function', function: { name: 'f', arguments: '{}' } },
          { id: 'c1', type: 'function', function: { name: 'f', arguments: '' } },
        ],
        functionCall: null,
        finish: 'tool_calls',
        logprobs: { content: [token], refusal: null },
      },
    ],
    usage: { prompt: 3, completion: 2, cached: 0, reasoning: 0 },
    error: null,
    frames: 8,
    heartbeats: 1,
  })
  expect(checkStream(role + hello + frame({ error: failure })).error).toEqual(failure)
})

const good = role + hello + stop + DONE
const STREAMS: [check: number | string, what: string, text: string][] = [
  [1, 'usage that nobody asked for', counted(role, hello, stop) + DONE],
  [1, 'a chunk without choices', role + hello + stop + frame({ ...head, choices: [] }) + DONE],
  [2, 'a call without index', role + tools(call({ index: undefined })) + called + DONE],
  [2, 'an index with a gap', role + tools(call({ index: 1 })) + called + DONE],
  [2, 'a call without id', role + tools(call({ id: undefined })) + called + DONE],
  [2, 'an id that is null', role + tools(call({ id: '' })) + called + DONE],
  [2, 'two calls with one id', role + tools(call(), call({ index: 1 })) + called + DONE],
  [2, 'an id that is repeated', role + tools(call(), { ...call(), type: undefined }) + called + DONE],
  [
    2,
    'a name that is repeated',
    role + tools(call(), { index: 0, function: { name: 'f', arguments: '' } }) + called + DONE,
  ],
  [2, 'a type that is repeated', role + tools(call(), { index: 0, type: 'function', function: {} }) + called + DONE],
  [2, 'a call without type', role + tools(call({ type: undefined })) + called + DONE],
  [2, 'a call without name', role + tools(call({ function: { arguments: '' } })) + called + DONE],
  [2, 'a call without arguments', role + tools(call({ function: { name: 'f' } })) + called + DONE],
  [2, 'arguments that are an object', role + tools(call({ function: { name: 'f', arguments: {} } })) + called + DONE],
  [2, 'a fragment without function', role + tools(call(), { index: 0 }) + called + DONE],
  [2, 'tool_calls that are empty', role + chunk({ tool_calls: [] }) + called + DONE],
  [2, 'a function call named twice', role + chunk({ function_call: { name: 'f', arguments: '' } }).repeat(2) + DONE],
  [3, 'calls that end in stop', role + tools(call()) + stop + DONE],
  [3, 'a function call that ends in stop', role + chunk({ function_call: { name: 'f', arguments: '' } }) + stop + DONE],
  [4, 'no finish', role + hello + DONE],
  [4, 'a choice without finish_reason', role + hello.replace(',"finish_reason":null', '') + stop + DONE],
  [4, 'two finishes', role + stop + stop + DONE],
  [4, 'words after the finish', role + stop + hello + DONE],
  [4, 'a finish with content', role + chunk({ content: 'a' }, 'stop') + DONE],
  [4, 'a finish of its own invention', role + chunk({}, 'eos') + DONE],
  [4, 'a finish that is empty', role + chunk({}, '') + DONE],
  [4, 'no choice at all', DONE],
  [5, 'two ends', good + DONE],
  [5, 'a chunk after the end', good + hello],
  [5, 'half a frame at the end', `${good}data: {"id`],
  [6, 'nothing', ''],
  [6, 'an end in silence', role + hello],
  [6, 'an end after an error', role + frame({ error: failure }) + DONE],
  [6, 'an error that is null', role + chunk({ content: 'a' }).replace('{"id"', '{"error":null,"id"') + stop + DONE],
  [6, 'an error in a chunk', role + frame({ ...head, choices: [], error: failure })],
  [6, 'an error in a choice', role + chunk({}, null, { error: failure }) + stop + DONE],
  [6, 'an error with more beside it', role + frame({ error: failure, id: 'x' })],
  [7, 'a role that comes twice', role + chunk({ role: 'assistant', content: 'a' }) + stop + DONE],
  [7, 'no role', hello + stop + DONE],
  [7, 'a role that is not its own', chunk({ ...FIRST, role: 'user' }) + stop + DONE],
  [7, 'a finish without a role', stop + DONE],
  [7, 'content that is null later', role + chunk({ content: null }) + stop + DONE],
  [7, 'tool_calls that are null', role + chunk({ tool_calls: null }) + stop + DONE],
  [
    7,
    'a tool type that is null',
    role + tools(call(), { index: 0, type: null, function: { arguments: '' } }) + called + DONE,
  ],
  [7, 'an id that is null', good.replaceAll('"chatcmpl-1"', 'null')],
  [7, 'a model that is null', good.replaceAll('"acme/large"', 'null')],
  [8, 'CRLF', good.replaceAll('\n', '\r\n')],
  [8, 'an id line', `id: 1\n${good}`],
  [8, 'an event line', `event: message\n${good}`],
  [8, 'a retry line', `retry: 1\n\n${good}`],
  [8, 'no space after the colon', good.replace('data: ', 'data:')],
  [8, 'two spaces after the colon', good.replace('data: ', 'data:  ')],
  [8, 'an event of two lines', good.replace('{"id"', '{\ndata: "id"')],
  [8, 'a blank line too many', `${role}${hello}\n${stop}${DONE}`],
  [8, 'data that is no object', `data: []\n\n${good}`],
  [8, 'a heartbeat as data', `data: : keep-alive\n\n${good}`],
  [9, 'another comment', `: ping\n\n${good}`],
  [10, 'reasoning under one name', role + chunk({ reasoning: 'hm' }) + stop + DONE],
  [10, 'reasoning that differs', role + chunk({ reasoning: 'hm', reasoning_content: 'so' }) + stop + DONE],
  [10, 'details without index', role + chunk({ reasoning_details: [{ type: 'reasoning.text' }] }) + stop + DONE],
  [11, 'an error code that is a number', role + frame({ error: { ...failure, code: 502 } })],
  [11, 'an error without param', role + frame({ error: { ...failure, param: undefined } })],
  [11, 'an error without a message', role + frame({ error: { ...failure, message: '' } })],
  [17, 'a time in milliseconds', good.replaceAll('1700000000', '1700000000000')],
  [17, 'a time with a fraction', good.replaceAll('1700000000', '1700000000.5')],
  [21, 'a choice that was not asked for', role + at(1, FIRST) + stop + at(1, {}, 'stop') + DONE],
  [21, 'a choice without index', at(undefined, FIRST) + DONE],
  [22, 'logprobs without refusal', probable({ content: [token] })],
  [22, 'a logprob that is null', probable({ content: [{ ...token, logprob: null }], refusal: null })],
  [22, 'a token without bytes', probable({ content: [{ ...token, bytes: undefined }], refusal: null })],
  [22, 'a token without top_logprobs', probable({ content: [{ ...token, top_logprobs: undefined }], refusal: null })],
  [
    22,
    'likely tokens without logprob',
    probable({ content: [{ ...token, top_logprobs: [{ token: 'b' }] }], refusal: null }),
  ],
  [25, 'U+2028 as it is', good.replace('Hello', 'Hel\u2028lo')],
  [25, 'U+0085 as it is', good.replace('Hello', 'Hel\u0085lo')],
  [25, 'half of a character', good.replace('Hello', 'Hello\\ud83d')],
  [25, 'NaN', good.replace('1700000000', 'NaN')],
  [25, 'an id that changes', role + hello.replace('chatcmpl-1', 'chatcmpl-2') + stop + DONE],
  [25, 'a time that changes', role + hello.replace('1700000000', '1700000001') + stop + DONE],
  [25, 'another model', good.replaceAll('acme/large', 'large-v1')],
  ['an object', 'another object', good.replaceAll('.chunk', '')],
  ['a chunk', 'a key that is the upstream’s', good.replace('"choices"', '"x_groq":{},"choices"')],
  ['a chunk', 'a role beside its first words', chunk({ ...FIRST, content: 'a' }) + stop + DONE],
  ['a chunk', 'content in parts', role + chunk({ content: [{ type: 'text', text: 'a' }] }) + stop + DONE],
  [7, 'a delta that is null', role + chunk(null) + stop + DONE],
  ['a chunk', 'a delta that is a text', role + chunk('a') + stop + DONE],
]

const named = (check: number | string) => new RegExp(`^${typeof check === 'number' ? `check ${check}` : check}: `)

describe('a stream breaks the contract by', () => {
  test.each(STREAMS)('(%p) %s', (check, _, text) => {
    expect(() => checkStream(text, { model: 'acme/large' })).toThrow(named(check))
  })

  test.each<[check: number, what: string, text: string]>([
    [1, 'usage that never comes', counted(role, hello, stop) + DONE],
    [1, 'usage that is not last', counted(role, hello) + usageFrame() + counted(stop) + DONE],
    [
      1,
      'usage in every chunk',
      counted(role, hello, stop).replace('null}\n', `${JSON.stringify(usage)}}\n`) + usageFrame() + DONE,
    ],
    [1, 'a chunk without the key', role + counted(hello, stop) + usageFrame() + DONE],
    [
      1,
      'a choice beside its usage',
      counted(role, hello) + stop.replace('}\n', `,"usage":${JSON.stringify(usage)}}\n`) + DONE,
    ],
    [17, 'usage with texts', counted(role, hello, stop) + usageFrame({ prompt_tokens: '3' }) + DONE],
    [17, 'usage that adds up wrongly', counted(role, hello, stop) + usageFrame({ total_tokens: 6 }) + DONE],
    [17, 'details that are null', counted(role, hello, stop) + usageFrame({ prompt_tokens_details: {} }) + DONE],
    [
      17,
      'a part that is too large',
      counted(role, hello, stop) + usageFrame({ completion_tokens_details: { reasoning_tokens: 9 } }) + DONE,
    ],
  ])('(%p) %s, where it was asked for', (check, _, text) => {
    expect(() => checkStream(text, { includeUsage: true })).toThrow(named(check))
  })

  test('(21) a second choice before the first', () => {
    const text = at(1, FIRST) + at(0, FIRST) + at(1, {}, 'stop') + at(0, {}, 'stop') + DONE
    expect(() => checkStream(text, { choices: 2 })).toThrow(named(21))
  })

  test('(22) logprobs that were not requested', () => {
    expect(() => checkStream(probable({ content: [token], refusal: null }), { logprobs: false })).toThrow(named(22))
  })
})
