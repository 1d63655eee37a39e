import { describe, expect, test } from 'bun:test'
import { countTokens } from '../../src/demo/reply.ts'
import type { CanonicalRequest } from '../../src/domain/request.ts'
import { type Asked, ask, askWhole, say } from './asking.ts'

const fn = (name: string, more: object = {}) => ({ type: 'function' as const, function: { name, ...more } })
const custom = (name: string, format?: object) => ({ type: 'custom' as const, custom: { name, ...format } })
const grammar = (syntax: 'lark' | 'regex', definition: string) => ({
  format: { type: 'grammar' as const, grammar: { syntax, definition } },
})
const allow = (mode: 'auto' | 'required', ...tools: Record<string, unknown>[]) => ({
  type: 'allowed_tools' as const,
  allowed_tools: { mode, tools },
})

const CITY = { type: 'object', properties: { city: { type: 'string' }, days: { type: 'integer' } }, required: ['city'] }
const WEATHER = fn('get_weather', { parameters: CITY })
const TIME = fn('get_time')
const SQL = custom('sql')
const TOOLS = [WEATHER, TIME, SQL]

/** A conversation with a call of `get_time` and its result. */
const answered = (...results: string[]): CanonicalRequest['messages'] => [
  { role: 'user', content: 'Call get_time.' },
  {
    role: 'assistant',
    tool_calls: results.map((_, i) => ({
      id: `c${i}`,
      type: 'function',
      function: { name: 'get_time', arguments: '{}' },
    })),
  },
  ...results.map((content, i) => ({ role: 'tool' as const, content, tool_call_id: `c${i}` })),
]

async function callsOf(body: Asked) {
  const { message, finish_reason } = await ask(body)
  const calls = (message.tool_calls ?? []).map((call) =>
    call.type === 'function'
      ? `${call.function.name}(${call.function.arguments})`
      : `${call.custom.name}<${call.custom.input}>`,
  )
  expect(finish_reason).toBe(calls.length > 0 ? 'tool_calls' : 'stop')
  return calls
}

describe('the demo model', () => {
  test('names itself and echoes the prompt, the same each time', async () => {
    const [once, again] = [await ask({}), await ask({ temperature: 2, seed: 7 })]
    expect(once).toEqual(again)
    expect(once.message.content).toContain("This is Tollgate's demo model.")
    expect(once.message.content).toEndWith('You wrote: Say hello, please.')
    expect(once.usage).toMatchObject({ prompt: 5 })
  })

  test('has another text for each choice', async () => {
    const { choices, usage } = await askWhole({ n: 3 })
    const texts = choices.map(({ message }) => message.content)
    expect(texts[1]).toContain('This is response 2 of 3.')
    expect(new Set(texts).size).toBe(3)
    expect(usage[0]?.prompt).toBe(5)
  })

  test.each<[string, Asked, string, number]>([
    ['max_completion_tokens', { max_completion_tokens: 2 }, 'length', 2],
    ['max_tokens', { max_tokens: 1 }, 'length', 1],
    ['a stop sequence', { stop: ' demo' }, 'stop', 5],
    ['the larger cap', { stop: ' demo', max_tokens: 5 }, 'stop', 5],
    ['the cap inside its reasoning', { reasoning_effort: 'low', max_tokens: 4 }, 'length', 4],
    ['the cap inside a call', { tools: TOOLS, tool_choice: 'required', max_tokens: 3 }, 'length', 3],
    ['the cap between two calls', { messages: say('get_time get_weather'), tools: TOOLS, max_tokens: 1 }, 'length', 1],
    ['the cap inside JSON', { response_format: { type: 'json_object' }, max_tokens: 3 }, 'length', 3],
  ])('ends at %s', async (_, body, finish, written) => {
    const { finish_reason, usage } = await ask(body)
    expect(finish_reason).toBe(finish as 'stop')
    expect(usage?.completion).toBe(written)
  })

  test('counts prompt content other than text', async () => {
    const image = { type: 'image_url' as const, image_url: { url: 'https://example.com/a.png' } }
    const file = { type: 'file' as const, file: { file_id: 'f' } }
    const text = { type: 'text' as const, text: 'Look.' }
    const { message, usage } = await ask({ messages: [{ role: 'user', content: [text, image, file, image] }] })
    expect(message.content).toEndWith('You also sent 3 attachments. You wrote: Look.')
    expect(usage?.prompt).toBe(2 + 3 * 256)
  })

  test('counts unknown parts, with any content', async () => {
    const part = { type: 'constructor', text: { toString: 1 }, refusal: 7 } as never
    const text = { type: 'text' as const, text: 'Look.' }
    const { message, usage } = await ask({ messages: [{ role: 'user', content: [text, part] }] })
    expect(message.content).toEndWith('You wrote: Look.')
    expect(usage?.prompt).toBe(2 + 256)
  })

  test('counts tools and the schema', async () => {
    const counts = [{}, { tools: [TIME] }, { tools: TOOLS }].map(async (body) => (await ask(body)).usage?.prompt ?? 0)
    const [none = 0, one = 0, three = 0] = await Promise.all(counts)
    expect(none).toBeLessThan(one)
    expect(one).toBeLessThan(three)
  })
})

describe('tools of the demo model', () => {
  test.each<[string, Asked, string[]]>([
    ['nothing that was not named', { tools: TOOLS }, []],
    ['nothing of which it reads a part', { messages: say('get_times forget_weather'), tools: TOOLS }, []],
    ['a named tool', { messages: say('Please get_weather.'), tools: TOOLS }, ['get_weather({"city":"demo","days":1})']],
    [
      'all named tools, in the order of the message',
      { messages: say('`sql`, get_time and get_weather; get_time'), tools: TOOLS, tool_choice: 'auto' },
      ['sql<demo>', 'get_time({})', 'get_weather({"city":"demo","days":1})'],
    ],
    [
      'only the first one without parallel calls',
      { messages: say('sql, get_time'), tools: TOOLS, parallel_tool_calls: false },
      ['sql<demo>'],
    ],
    ['none where none may be', { messages: say('get_time'), tools: TOOLS, tool_choice: 'none' }, []],
    [
      'the first where one must be',
      { tools: TOOLS, tool_choice: 'required' },
      ['get_weather({"city":"demo","days":1})'],
    ],
    ['the named one where one must be', { messages: say('sql'), tools: TOOLS, tool_choice: 'required' }, ['sql<demo>']],
    [
      'a forced function',
      { tools: TOOLS, tool_choice: { type: 'function', function: { name: 'get_time' } } },
      ['get_time({})'],
    ],
    ['a forced custom tool', { tools: TOOLS, tool_choice: { type: 'custom', custom: { name: 'sql' } } }, ['sql<demo>']],
    [
      'one of those allowed',
      { messages: say('get_weather'), tools: TOOLS, tool_choice: allow('required', fn('get_time'), custom('sql')) },
      ['get_time({})'],
    ],
    [
      'only what is allowed',
      { messages: say('get_weather and sql'), tools: TOOLS, tool_choice: allow('auto', custom('sql')) },
      ['sql<demo>'],
    ],
    [
      'one that was not called yet, if it must',
      { messages: answered('12:00'), tools: TOOLS, tool_choice: 'required' },
      ['get_weather({"city":"demo","days":1})'],
    ],
    ['none again, even if it must', { messages: answered('12:00'), tools: [TIME], tool_choice: 'required' }, []],
    [
      'a tool again for the next message, if it must',
      { messages: [...answered('12:00'), ...say('Again.')], tools: [TIME], tool_choice: 'required' },
      ['get_time({})'],
    ],
  ])('calls %s', async (_, body, calls) => {
    expect(await callsOf(body)).toEqual(calls)
  })

  test('quotes tool results, so that a loop ends', async () => {
    const { message, finish_reason } = await ask({ messages: answered('12:00', '13:00'), tools: TOOLS })
    expect(finish_reason).toBe('stop')
    expect(message.content).toEndWith('The tools answered: 12:00; 13:00')
  })

  const one = { type: 'function' as const, function: { name: 'get_time' } }
  test.each<[string, Asked, string[][]]>([
    ['one tool', { tools: [TIME], tool_choice: 'required' }, [['get_time']]],
    ['three tools', { tools: TOOLS, tool_choice: 'required' }, [['get_weather'], ['get_time'], ['sql']]],
    [
      'three tools, two of them named',
      { messages: say('sql and get_time'), tools: TOOLS, tool_choice: 'required' },
      [['sql', 'get_time'], ['get_weather']],
    ],
    [
      'two named tools, one at a time',
      { messages: say('sql and get_time'), tools: [TIME, SQL], tool_choice: 'required', parallel_tool_calls: false },
      [['sql'], ['get_time']],
    ],
    ['one of three tools', { tools: TOOLS, tool_choice: one }, [['get_time']]],
    ['allowed tools', { tools: TOOLS, tool_choice: allow('required', TIME, SQL) }, [['get_time'], ['sql']]],
    ['a legacy function', { functions: [TIME.function], function_call: { name: 'get_time' } }, [['get_time']]],
  ])('ends a loop in which every round forces %s', async (_, body, rounds) => {
    const messages = [...(body.messages ?? say('Go on.'))]
    const called: string[][] = []
    for (let round = 0; round < 10; round += 1) {
      const { message, finish_reason } = await ask({ ...body, messages })
      const calls = (message.tool_calls ?? []).map((call) => ({
        id: call.id,
        name: call.type === 'function' ? call.function.name : call.custom.name,
      }))
      const legacy = message.function_call
      if (calls.length === 0 && !legacy) {
        expect(finish_reason).toBe('stop')
        expect(message.content).toContain('The tools answered: done')
        break
      }
      called.push(legacy ? [legacy.name] : calls.map(({ name }) => name))
      const { tool_calls = null, function_call = null } = message
      messages.push({ role: 'assistant', tool_calls, function_call })
      for (const { id } of calls) messages.push({ role: 'tool', tool_call_id: id, content: 'done' })
      if (legacy) messages.push({ role: 'function', name: legacy.name, content: 'done' })
    }
    expect(called).toEqual(rounds)
  })

  test('calls a legacy function, one at a time, and quotes its result', async () => {
    const functions = [WEATHER.function, TIME.function]
    const messages = say('get_time and get_weather')
    const { message, finish_reason } = await ask({ messages, functions })
    expect(finish_reason).toBe('function_call')
    expect(message).toEqual({
      role: 'assistant',
      content: null,
      refusal: null,
      annotations: [],
      function_call: { name: 'get_time', arguments: '{}' },
    })
    expect((await ask({ messages, functions, function_call: 'none' })).message.function_call).toBeUndefined()
    const forced = await ask({ functions, function_call: { name: 'get_weather' } })
    expect(forced.message.function_call?.name).toBe('get_weather')
    const after = await ask({
      messages: [...messages, { role: 'function', name: 'get_time', content: '12:00' }],
      functions,
    })
    expect(after.message.content).toEndWith('The tools answered: 12:00')
  })

  test.each<[string, Asked]>([
    ['a missing tool', { tools: TOOLS, tool_choice: { type: 'function', function: { name: 'other' } } }],
    ['a missing function', { functions: [TIME.function], function_call: { name: 'other' } }],
    ['allowed tools that are not there', { tools: TOOLS, tool_choice: allow('required', fn('other')) }],
    [
      'a custom tool whose grammar it cannot follow',
      { messages: say('calc'), tools: [custom('calc', grammar('lark', 'start: /a/'))] },
    ],
    [
      'strict arguments that it cannot write',
      {
        messages: say('x'),
        tools: [
          fn('x', {
            strict: true,
            parameters: { type: 'object', properties: { a: { type: 'string', pattern: 'b' } }, required: ['a'] },
          }),
        ],
      },
    ],
  ])('refuses %s with an upstream error', async (_, body) => {
    await expect(askWhole(body)).rejects.toMatchObject({ kind: 'status', status: 400, retryable: false })
  })
})

describe('reasoning of the demo model', () => {
  const THOUGHT = /^Tokens in the last user message: 5\..* it will answer\.$/
  test.each<[string, Asked, RegExp | null]>([
    ['unasked', {}, null],
    ['no effort', { reasoning_effort: 'none' }, null],
    ['an effort', { reasoning_effort: 'minimal' }, THOUGHT],
  ])('follows the request: %s', async (_, body, said) => {
    const { message, usage } = await ask(body)
    const reasoning = message.reasoning ?? null
    if (said === null) expect(reasoning).toBeNull()
    else expect(reasoning).toMatch(said)
    expect(usage?.reasoning).toBe(countTokens(reasoning ?? ''))
    expect(message.content).toContain('You wrote')
  })

  test('comes before a call, too', async () => {
    const { message } = await ask({ messages: say('get_time'), tools: TOOLS, reasoning_effort: 'low' })
    expect(message.reasoning).toEndWith('it will call get_time.')
    expect(message.tool_calls).toHaveLength(1)
  })
})

describe('other endings of the demo model', () => {
  test.each<[string, Asked]>([
    ['text', {}],
    ['a forced tool', { tools: TOOLS, tool_choice: 'required' }],
    ['JSON', { response_format: { type: 'json_object' } }],
  ])('include a refusal on request, instead of %s', async (_, body) => {
    const { message, finish_reason } = await ask({ ...body, messages: say('Please [refuse] this.') })
    expect(finish_reason).toBe('stop')
    expect(message).toEqual({
      role: 'assistant',
      content: null,
      refusal: expect.stringContaining('It refuses'),
      annotations: [],
    })
  })

  test('include a filter on request', async () => {
    const { message, finish_reason } = await ask({ messages: say('[filter]') })
    expect(finish_reason).toBe('content_filter')
    expect(message.content).toBe("This is Tollgate's demo model.")
  })

  const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
  test.each<[string, Asked, string]>([
    ['JSON mode', { response_format: { type: 'json_object' } }, '{"model":"Tollgate\'s demo'],
    ['a schema', { response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } }, '{"city'],
  ])('include a filter within %s', async (_, body, content) => {
    const { message, finish_reason, usage } = await ask({ ...body, messages: say('[filter]') })
    expect(finish_reason).toBe('content_filter')
    expect(message.content).toBe(content)
    expect(usage?.completion).toBe(countTokens(content))
  })
})

describe('logprobs of the demo model', () => {
  test.each([
    ['content', say('Grüße')],
    ['refusal', say('[refuse] Grüße')],
  ] as const)('are given for each token of the %s', async (key, messages) => {
    const { message, logprobs, usage } = await ask({ messages, logprobs: true, top_logprobs: 20 })
    const rated = logprobs?.[key] ?? []
    expect(Object.keys(logprobs ?? {})).toEqual(['content', 'refusal'])
    expect(rated).toHaveLength(usage?.completion ?? 0)
    expect(rated.map(({ token }) => token).join('')).toBe(message[key] ?? '')
    expect(Buffer.from(rated.flatMap(({ bytes }) => bytes ?? [])).toString()).toBe(message[key] ?? '')
    for (const { token, logprob, top_logprobs } of rated) {
      expect(top_logprobs[0]).toMatchObject({ token, logprob })
      expect(new Set(top_logprobs.map((top) => top.token)).size).toBe(20)
      const chances = top_logprobs.map((top) => Math.exp(top.logprob))
      expect(chances.reduce((sum, chance) => sum + chance, 0)).toBeLessThanOrEqual(1)
    }
  })

  test('are null if not requested, or for only a call', async () => {
    expect((await ask({})).logprobs).toBeNull()
    expect((await ask({ logprobs: true, tools: TOOLS, tool_choice: 'required' })).logprobs).toBeNull()
  })

  test('have alternatives only on request', async () => {
    const { logprobs } = await ask({ logprobs: true })
    expect(logprobs?.content?.[0]?.top_logprobs).toEqual([])
  })
})
