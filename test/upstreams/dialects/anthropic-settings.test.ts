/** Settings for Anthropic's models: reasoning, prompt cache, and tools. */
import { describe, expect, test } from 'bun:test'
import type { RouteSettings } from '../../../src/domain/models.ts'
import { call, type Fields, on, send, text } from './anthropic-sending.ts'

describe('thinking', () => {
  const tools = [{ type: 'function', function: { name: 'f' } }]
  const adaptive = (effort?: string) => ({
    thinking: { type: 'adaptive', display: 'summarized' },
    ...(effort ? { output_config: { effort } } : {}),
  })
  const off = { thinking: { type: 'disabled' } }
  const budget = (tokens: number) => ({ thinking: { type: 'enabled', budget_tokens: tokens } })

  const rows: [string, RouteSettings, Fields, object][] = [
    ['nothing where nothing is asked', {}, {}, {}],
    ['an effort', {}, { reasoning_effort: 'medium' }, adaptive('medium')],
    ['the nearest effort', {}, { reasoning_effort: 'minimal' }, adaptive('low')],
    ['the higher of two that are as near', {}, { reasoning_effort: 'xhigh' }, adaptive('max')],
    ['an effort that the route has', { efforts: ['xhigh', 'low'] }, { reasoning_effort: 'xhigh' }, adaptive('xhigh')],
    ["OpenRouter's words", {}, { reasoning: { effort: 'high' } }, adaptive('high')],
    ["OpenRouter's words without an effort", {}, { reasoning: { enabled: true } }, adaptive()],
    ["Anthropic's own words", {}, { thinking: { type: 'adaptive' } }, adaptive()],
    ['an effort for a number of tokens', {}, { reasoning: { max_tokens: 8_000 } }, adaptive('medium')],
    ['nothing where only the thoughts are not to be shown', {}, { reasoning: { exclude: true } }, {}],
    ['no', {}, { reasoning_effort: 'none' }, off],
    ['no, in other words', {}, { reasoning: { enabled: false } }, off],
    [
      'as little as can be where it cannot be off',
      { thinking_off: false },
      { reasoning_effort: 'none' },
      { ...adaptive('low'), thinking: { type: 'adaptive', display: 'omitted' } },
    ],
    ['nothing of a model that cannot', { thinking: 'none' }, { reasoning_effort: 'high' }, {}],
    [
      'a budget, a share of the cap',
      { thinking: 'budget' },
      { reasoning_effort: 'high', max_tokens: 10_000 },
      budget(6_000),
    ],
    ['the least budget', { thinking: 'budget' }, { reasoning_effort: 'low', max_tokens: 4_096 }, budget(1_024)],
    [
      'a budget below the cap',
      { thinking: 'budget' },
      { thinking: { budget_tokens: 9_000 }, max_tokens: 2_000 },
      budget(1_999),
    ],
    [
      'no budget where the cap has no room',
      { thinking: 'budget' },
      { reasoning_effort: 'high', max_tokens: 1_024 },
      {},
    ],
    ['off where a tool is forced', {}, { reasoning_effort: 'high', tools, tool_choice: 'required' }, off],
    [
      'off where a tool is forced, if it is known to be possible',
      { thinking_off: true },
      { tools, tool_choice: 'required' },
      off,
    ],
    [
      'nothing where a tool is forced on a model that thinks only where it is asked to',
      { thinking_off: false, thinking_unasked: false },
      { reasoning_effort: 'high', tools, tool_choice: 'required' },
      {},
    ],
    [
      'nothing where such a model is told no',
      { thinking_off: false, thinking_unasked: false },
      { reasoning_effort: 'none' },
      {},
    ],
    ['nothing where a tool is forced otherwise', {}, { tools, tool_choice: 'required' }, {}],
  ]
  test.each(rows)('is %s', (_, route, fields, expected) => {
    const { thinking, output_config } = send(fields, on({}, route))
    const found = { ...(thinking ? { thinking } : {}), ...(output_config ? { output_config } : {}) }
    expect(found).toEqual(expected)
  })

  test('is always on despite a forced tool: the model gets the instruction as text, and the requested effort', () => {
    const tool_choice = { type: 'function', function: { name: 'f' } }
    const sent = send({ tools, tool_choice, reasoning_effort: 'high' }, on({}, { thinking_off: false }))
    expect(sent).toMatchObject({ tool_choice: { type: 'auto' }, system: [text('You must call the tool f.')] })
    expect(sent).toMatchObject(adaptive('high'))
    const asked = send({ tools, tool_choice }, on({}, { thinking_off: false, thinking_unasked: false }))
    expect(asked).toMatchObject({ tool_choice: { type: 'tool', name: 'f' } })
    expect(asked).not.toHaveProperty('system')
  })

  test('with a budget is left out if the client has not sent the reasoning back', () => {
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: null, tool_calls: [call('a', 'f', '{}')] },
      { role: 'tool', tool_call_id: 'a', content: 'x' },
    ]
    expect(send({ messages, tools, reasoning_effort: 'low' }, on({}, { thinking: 'budget' })).thinking).toBeUndefined()
  })

  test("excludes temperature; some models and versions also don't support it", () => {
    const sampled = { temperature: 0.2, top_p: 0.9, top_k: 5 }
    expect(send(sampled)).toMatchObject({ temperature: 0.2, top_k: 5 })
    expect(send(sampled)).not.toHaveProperty('top_p')
    expect(send({ top_p: 0.9 })).toMatchObject({ top_p: 0.9 })
    for (const sent of [
      send({ ...sampled, reasoning_effort: 'low' }),
      send(sampled, on({}, { sampling: false })),
      send(sampled, on({ api_version: '2026-10-21' })),
    ])
      for (const name of Object.keys(sampled)) expect(sent).not.toHaveProperty(name)
  })
})

describe('the prompt cache', () => {
  const mark = { cache_control: { type: 'ephemeral' } }
  const hour = { cache_control: { type: 'ephemeral', ttl: '1h' } }

  test("has breakpoints where the client sets them: in a message, a part, or a tool, in either vendor's form", () => {
    const sent = send({
      messages: [
        { role: 'system', content: 'One', ...hour },
        { role: 'user', content: [text('Two', { prompt_cache_breakpoint: { mode: 'explicit' } }), text('Three')] },
        { role: 'assistant', content: 'Four', ...mark },
        { role: 'user', content: 'Five' },
      ],
      tools: [{ type: 'function', function: { name: 'f' }, ...hour }],
    })
    expect(sent).toMatchObject({
      system: [hour],
      tools: [hour],
      messages: [{ content: [mark, {}] }, { content: [mark] }, { content: [{}] }],
    })
  })

  test('has at most four breakpoints, the last ones, and none of an hour after a shorter one', () => {
    const marks = [mark, hour, mark, hour, hour].map((each, at) => ({ role: 'user', content: `${at}`, ...each }))
    const [turn] = send({ messages: marks, ...mark }).messages
    expect(turn?.content.map((block) => Reflect.get(block, 'cache_control'))).toEqual([
      undefined,
      undefined,
      { type: 'ephemeral' },
      { type: 'ephemeral' },
      { type: 'ephemeral' },
    ])
  })

  test('counts breakpoints within tool results and documents, each in its place', () => {
    const source = { type: 'content', content: [text('Three', mark)] }
    const results = ['a', 'b'].map((tool_call_id) => ({
      role: 'tool',
      tool_call_id,
      content: [text('One', mark), text('Two', hour), { type: 'document', source }],
      ...mark,
    }))
    const [, , turn] = send({
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: null, tool_calls: [call('a', 'f', '{}'), call('b', 'f', '{}')] },
        ...results,
      ],
    }).messages
    expect(turn?.content).toEqual([
      {
        type: 'tool_result',
        tool_use_id: 'a',
        content: [
          text('One'),
          text('Two'),
          { type: 'document', source: { type: 'content', content: [text('Three')] } },
        ],
      },
      {
        type: 'tool_result',
        tool_use_id: 'b',
        content: [text('One', mark), text('Two', mark), { type: 'document', source }],
        ...mark,
      },
    ] as never)
  })
})

describe('tools', () => {
  const tool = (parameters?: object, more: object = {}) => ({
    type: 'function',
    function: { name: 'f', ...(parameters ? { parameters } : {}), ...more },
  })

  test('are chosen as in chat', () => {
    const tools = [tool(), { type: 'function', function: { name: 'g' } }]
    const choose = (fields: Fields) => send({ tools, ...fields }).tool_choice
    expect(choose({})).toBeUndefined()
    expect(choose({ tool_choice: 'none' })).toEqual({ type: 'none' })
    expect(choose({ tool_choice: 'auto', parallel_tool_calls: false })).toEqual({
      type: 'auto',
      disable_parallel_tool_use: true,
    })
    expect(choose({ parallel_tool_calls: false })).toEqual({ type: 'auto', disable_parallel_tool_use: true })
    expect(choose({ tool_choice: 'required' })).toEqual({ type: 'any' })
    expect(choose({ tool_choice: { type: 'function', function: { name: 'g' } } })).toEqual({ type: 'tool', name: 'g' })
    const allowed_tools = { mode: 'required', tools: [{ type: 'function', function: { name: 'g' } }] }
    const sent = send({ tools, tool_choice: { type: 'allowed_tools', allowed_tools } })
    expect([sent.tool_choice, sent.tools?.map((each) => Reflect.get(each, 'name'))]).toEqual([{ type: 'any' }, ['g']])
  })

  test('are strict if their schema is supported, otherwise unchanged', () => {
    const bounded = {
      type: 'object' as const,
      properties: { age: { type: 'integer', minimum: 1 } },
      required: ['age'],
    }
    const [strict] = send({ tools: [tool({ ...bounded, additionalProperties: false }, { strict: true })] }).tools ?? []
    expect(strict).toMatchObject({
      strict: true,
      input_schema: { additionalProperties: false, properties: { age: { description: '{minimum: 1}' } } },
    })
    const [loose] = send({ tools: [tool(bounded)] }).tools ?? []
    expect(loose).toEqual({ name: 'f', input_schema: bounded })
  })
})
