/** Translates `/v1/messages` requests to the chat messages, tools and settings that upstreams get. */
import { describe, expect, test } from 'bun:test'
import { UNREQUESTED_REASONING } from '../../../src/domain/task.ts'
import { messages as format } from '../../../src/formats/messages/messages.ts'
import { encodeState } from '../../../src/upstreams/dialects/reasoning-state.ts'

const PLAIN = { model: 'm', max_tokens: 10, messages: [{ role: 'user', content: 'Hi' }] }
const mark = { cache_control: { type: 'ephemeral' } }
const png = (data: string) => ({ type: 'image', source: { type: 'base64', media_type: 'image/png', data } })

const read = (changes: object) => format.toTask({ ...PLAIN, ...changes }, { text: '', headers: {} })

/** The canonical request. Fails if it is refused. */
function toBody(changes: object) {
  const task = read(changes)
  if (task instanceof Error) throw task
  return task.body
}

const said = (...messages: object[]) => toBody({ messages }).messages

describe('instructions', () => {
  test.each([
    ['a text', 'Be brief.', [{ role: 'system', content: 'Be brief.' }]],
    ['one plain block', [{ type: 'text', text: 'Be brief.' }], [{ role: 'system', content: 'Be brief.' }]],
    ['an empty text', '', []],
    [
      'blocks with marks, of which the bill is left out',
      [
        { type: 'text', text: 'x-anthropic-billing-header: cc_version=2.1;' },
        { type: 'text', text: 'You are.', ...mark },
        { type: 'text', text: 'Be brief.', cache_control: null },
      ],
      [
        {
          role: 'system',
          content: [
            { type: 'text', text: 'You are.', ...mark },
            { type: 'text', text: 'Be brief.' },
          ],
        },
      ],
    ],
  ])('of %s come first', (_, system, expected) => {
    expect(toBody({ system }).messages.slice(0, -1)).toEqual(expected as never)
  })

  test('in the middle keep their position, but not between a call and its result', () => {
    const call = { type: 'tool_use', id: 'a', name: 'f', input: {} }
    const sent = said(
      { role: 'user', content: 'One' },
      { role: 'system', content: 'Hurry.' },
      { role: 'assistant', content: [call] },
      { role: 'system', content: [{ type: 'text', text: 'Still.' }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: 'x' }] },
    )
    expect(sent.map(({ role }) => role)).toEqual(['user', 'system', 'assistant', 'tool', 'system'])
  })
})

describe('a turn', () => {
  test("with an unknown role counts as the user's", () => {
    expect(said({ role: 'ctx', content: 'A' }, { role: 'user', content: [{ type: 'text', text: 'B' }] })).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'A' },
          { type: 'text', text: 'B' },
        ],
      },
    ])
  })

  test('may have images, documents and search results; unknown blocks are dropped', () => {
    const [user] = said({
      role: 'user',
      content: [
        png('QUJD'),
        { type: 'image', source: { type: 'url', url: 'https://x/y.png' }, ...mark },
        { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'UERG' }, title: 'p.pdf' },
        {
          type: 'document',
          source: { type: 'text', media_type: 'text/plain', data: 'Words' },
          title: 'T',
          context: 'C',
        },
        { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'In it' }, png('REVG')] } },
        { type: 'search_result', source: 'https://x', title: 'X', content: [{ type: 'text', text: 'Found' }] },
        { type: 'hologram', anything: { at: ['all'] } },
        { type: 'text', text: '' },
      ],
    })
    expect(user?.content).toEqual([
      { type: 'image_url', image_url: { url: 'data:image/png;base64,QUJD' } },
      { type: 'image_url', image_url: { url: 'https://x/y.png' }, ...mark },
      { type: 'file', file: { filename: 'p.pdf', file_data: 'data:application/pdf;base64,UERG' } },
      { type: 'text', text: '<document title="T" context="C">\nWords\n</document>' },
      { type: 'text', text: 'In it' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,REVG' } },
      { type: 'text', text: '<search_result title="X" source="https://x">\nFound\n</search_result>' },
    ] as never)
  })

  test('of an assistant keeps its text, thinking and calls; server-side tool calls are dropped', () => {
    const details = [{ type: 'reasoning.text', text: 'Hm', signature: 's', format: 'f', signer: 'u', index: 0 }]
    const sent = said(
      { role: 'user', content: 'A' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Hm', signature: encodeState(details, 'Hm') },
          { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} },
          { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] },
          { type: 'text', text: 'Let me see.' },
          { type: 'tool_use', id: 'a', name: 'f', input: { x: [1] } },
          { type: 'tool_use', id: 'b', name: 'g', input: {}, ...mark },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'And?' },
          {
            type: 'tool_result',
            tool_use_id: 'b',
            content: [{ type: 'text', text: 'yes' }, png('QUJD')],
            is_error: true,
          },
          { type: 'tool_result', tool_use_id: 'a', ...mark },
        ],
      },
    )
    expect(sent.slice(1)).toEqual([
      {
        role: 'assistant',
        content: 'Let me see.',
        reasoning: 'Hm',
        reasoning_content: 'Hm',
        reasoning_details: details,
        tool_calls: [
          { id: 'a', type: 'function', function: { name: 'f', arguments: '{"x":[1]}' } },
          { id: 'b', type: 'function', function: { name: 'g', arguments: '{}' } },
        ],
        ...mark,
      },
      {
        role: 'tool',
        tool_call_id: 'b',
        content: [
          { type: 'text', text: 'yes' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,QUJD' } },
        ],
        is_error: true,
      },
      { role: 'tool', tool_call_id: 'a', content: '', ...mark },
      { role: 'user', content: 'And?' },
    ] as never)
  })

  test('has documents of tool results after the results', () => {
    const pdf = { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'UERG' } }
    const sent = said(
      { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: {} }] },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'It:' }, pdf] }],
      },
    )
    expect(sent.slice(1)).toMatchObject([
      { role: 'tool', content: 'It:' },
      { role: 'user', content: [{ type: 'file' }] },
    ])
  })
})

describe('thinking', () => {
  const thought = (block: object) => said({ role: 'user', content: 'A' }, { role: 'assistant', content: [block] })[1]

  test.each([
    ['without a signature is its text', { type: 'thinking', thinking: 'Hm', signature: '' }, undefined],
    [
      "that Claude has signed elsewhere is Claude's",
      { type: 'thinking', thinking: 'Hm', signature: 'EqQB' },
      [{ type: 'reasoning.text', text: 'Hm', signature: 'EqQB', format: 'anthropic-claude-v1', index: 0 }],
    ],
    [
      "that was redacted elsewhere is Claude's, too",
      { type: 'redacted_thinking', data: 'EqQB' },
      [{ type: 'reasoning.encrypted', data: 'EqQB', format: 'anthropic-claude-v1', index: 0 }],
    ],
    [
      'that was sealed here is whose it was',
      { type: 'redacted_thinking', data: encodeState([{ type: 'reasoning.encrypted', data: 'x', id: 'call_1' }]) },
      [{ type: 'reasoning.encrypted', data: 'x', id: 'call_1' }],
    ],
  ])('%s', (_, block, details) => {
    expect(thought(block)).toMatchObject({ role: 'assistant', ...(details ? { reasoning_details: details } : {}) })
    if (!details) expect(thought(block)).toMatchObject({ reasoning: 'Hm', content: '' })
  })

  test.each([
    { type: 'thinking', thinking: 'Hm', signature: 'tg1.broken' },
    { type: 'redacted_thinking', data: 'tg1.' },
  ])('that only looks like our encoding is dropped: %j', (block) => {
    expect(thought(block)).toBeUndefined()
  })
})

describe('settings', () => {
  test.each([
    [
      { temperature: 0.5, top_p: 0.9, top_k: 5 },
      { temperature: 0.5, top_p: 0.9, top_k: 5 },
    ],
    [{ temperature: null, stop_sequences: [], metadata: null, stream: false }, {}],
    [{ stop_sequences: ['a', 'b', 'c', 'd', 'e'] }, { stop: ['a', 'b', 'c', 'd', 'e'] }],
    [{ metadata: { user_id: 'x'.repeat(300) } }, { user: 'x'.repeat(256) }],
    [{ inference_geo: 'global' }, {}],
    [{ inference_geo: 'us' }, { inference_geo: 'us' }],
    [{ service_tier: 'standard_only' }, { service_tier: 'default' }],
    [{ cache_control: { type: 'ephemeral' } }, { cache_control: { type: 'ephemeral' } }],
    [{ thinking: { type: 'disabled' }, output_config: { effort: 'high' } }, { thinking: { type: 'disabled' } }],
    [{ thinking: { type: 'adaptive' } }, { reasoning_effort: 'high' }],
    [{ thinking: { type: 'adaptive' }, output_config: { effort: 'low' } }, { reasoning_effort: 'low' }],
    [
      { thinking: { type: 'enabled', budget_tokens: 5_000 } },
      { thinking: { type: 'enabled', budget_tokens: 5_000 }, reasoning_effort: 'medium' },
    ],
    [{ output_config: { effort: 'max' } }, { reasoning_effort: 'max' }],
    [
      {
        context_management: { edits: [] },
        container: 'c',
        mcp_servers: [{}],
        speed: 'fast',
        betas: ['x'],
        tomorrow: 1,
      },
      {},
    ],
  ])('%j become %j', (changes, expected) => {
    const { model, messages, max_tokens, [UNREQUESTED_REASONING]: isUnasked, ...rest } = toBody(changes)
    expect({ model, max_tokens }).toEqual({ model: 'm', max_tokens: 10 })
    expect(rest as object).toEqual(expected)
    const isAsked = 'thinking' in changes && changes.thinking?.type !== 'disabled'
    expect(isUnasked === true).toBe(!isAsked)
  })

  test('include a response schema, strict if OpenAI would accept it as strict', () => {
    const schema = {
      type: 'object',
      properties: { a: { type: 'string' } },
      required: ['a'],
      additionalProperties: false,
    }
    const loose = { ...schema, required: [] }
    const format = { type: 'json_schema', schema }
    const sealed = { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } }
    expect(toBody({ output_config: { format } }).response_format).toEqual(sealed as never)
    expect(toBody({ output_format: format }).response_format).toEqual(sealed as never)
    expect(toBody({ output_config: { format: { ...format, schema: loose } } }).response_format).toEqual({
      type: 'json_schema',
      json_schema: { name: 'answer', schema: loose },
    })
  })
})

describe('tools', () => {
  const input_schema = { $schema: 'x', type: 'object', properties: { a: { type: 'string', minLength: 1 } } }
  const tool = { name: `mcp__${'x'.repeat(80)}.y`, description: 'Does', input_schema, ...mark }

  test('become functions; server-side and unknown tools are dropped', () => {
    const tools = [
      tool,
      { type: 'bash_20250124', name: 'bash' },
      { type: 'mcp_toolset', mcp_server_name: 'x' },
      { type: 'x' },
    ]
    const { name, description } = tool
    expect(toBody({ tools })).toMatchObject({
      tools: [{ type: 'function', function: { name, description, parameters: input_schema }, ...mark }],
    })
    expect(toBody({ tools: tools.slice(1), tool_choice: { type: 'any' } })).not.toHaveProperty('tools')
    expect(toBody({ tools: tools.slice(1), tool_choice: { type: 'any' } })).not.toHaveProperty('tool_choice')
  })

  test.each([
    [{ type: 'auto' }, { tool_choice: 'auto' }],
    [{ type: 'none' }, { tool_choice: 'none' }],
    [
      { type: 'any', disable_parallel_tool_use: true },
      { tool_choice: 'required', parallel_tool_calls: false },
    ],
    [{ type: 'tool', name: 'f' }, { tool_choice: { type: 'function', function: { name: 'f' } } }],
    [{ type: 'tool', name: 'web_search' }, {}],
    [{ type: 'tomorrow' }, {}],
  ])('are chosen by tool_choice: %j', (tool_choice, expected) => {
    const {
      tools,
      model,
      messages,
      max_tokens,
      [UNREQUESTED_REASONING]: _,
      ...rest
    } = toBody({
      tools: [{ name: 'f', input_schema }],
      tool_choice,
    })
    expect(tools).toHaveLength(1)
    expect(rest as object).toEqual(expected)
  })

  test('for web search become a search', () => {
    const user_location = { type: 'approximate', city: 'Oslo', country: 'NO' }
    expect(
      toBody({ tools: [{ type: 'web_search_20250305', name: 'web_search', max_uses: 5, user_location }] }),
    ).toMatchObject({
      web_search_options: { user_location: { type: 'approximate', approximate: { city: 'Oslo', country: 'NO' } } },
    })
  })
})

test.each([
  [{ messages: [{ role: 'user' }] }, 'messages.0.content'],
  [{ messages: [{ role: 'user', content: [{ text: 'no type' }] }] }, 'messages.0.content.0.type'],
  [{ messages: [{ role: 'user', content: [{ type: 'image', source: 'x' }] }] }, 'messages.0.content.0.source'],
  [{ messages: [{ role: 'user', content: '' }] }, 'messages'],
  [{ max_tokens: 0 }, 'max_tokens'],
  [{ max_tokens: '10' }, 'max_tokens'],
  [{ temperature: 2 }, 'temperature'],
  [{ system: 7 }, 'system'],
  [{ tools: [{ description: 'nameless' }] }, 'tools.0.name'],
  [{ tools: [{ name: 'f', input_schema: 'x' }] }, 'tools.0.input_schema'],
  [{ thinking: { budget_tokens: 1 } }, 'thinking.type'],
  [{ output_config: { format: { type: 'json_schema' } } }, 'output_config.format.schema'],
])('%j is refused with the name of its field', (changes, param) => {
  expect(read(changes)).toMatchObject({ kind: 'invalid_request', param, message: expect.stringContaining(param) })
})
