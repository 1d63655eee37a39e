/** The Responses API over HTTP: answers, upstream requests, and ledger rows. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { costOf } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { obliging } from '../support/upstream.ts'
import { errorAnswer, type Stream, streamAnswer, toDelta, wholeAnswer } from '../support/upstream-answers.ts'
import { startResponses } from './responses.ts'

let rows = 0
const gateway = forAllTests(startResponses)
beforeEach(async () => {
  gateway.upstream.script(obliging)
  rows = await gateway.app.count()
})

const sent = () => gateway.upstream.requests.at(-1)?.json

const call = (index: number, name: string, args: string, id = `call_${index}`) => ({
  tool_calls: [{ index, id, type: 'function', function: { name, arguments: args } }],
})
const more = (index: number, args: string) => ({ tool_calls: [{ index, function: { arguments: args } }] })

const say = (deltas: readonly Record<string, unknown>[], finish = 'stop'): Stream => ({
  ...streamAnswer({ tokens: 0 }),
  steps: [
    ...deltas.map((delta) => toDelta(delta)),
    toDelta({}, finish),
    { choices: [], usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } },
  ],
})

const toFunctions = (tools: unknown) =>
  (tools as { function: { name: string; description: string } }[]).map((tool) => tool.function)

const typesOf = (items: unknown) => (items as { type: string }[]).map(({ type }) => type)

const TOOL = { type: 'function', name: 'look', parameters: { type: 'object', properties: {} } }

test("a whole response has every field that typed clients require, and costs its row's amount", async () => {
  const response = await gateway.ask({
    instructions: 'Be brief.',
    metadata: { a: 'b' },
    user: 'u-1',
    safety_identifier: 's',
    store: true,
    tools: [TOOL],
  })
  const row = (await gateway.app.settled(rows + 1)).at(-1)
  const created = gateway.app.clock.nowMs / 1000
  expect(response).toEqual({
    id: `resp_${row?.id}`,
    object: 'response',
    created_at: created,
    completed_at: created,
    status: 'completed',
    error: null,
    incomplete_details: null,
    model: 'acme/large',
    access_programs: null,
    background: false,
    frequency_penalty: 0,
    instructions: 'Be brief.',
    max_output_tokens: null,
    max_tool_calls: null,
    metadata: { a: 'b' },
    parallel_tool_calls: true,
    presence_penalty: 0,
    previous_response_id: null,
    prompt_cache_key: null,
    reasoning: { effort: null, summary: null },
    safety_identifier: 's',
    store: false,
    temperature: 1,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [{ ...TOOL, description: null, strict: null }],
    top_logprobs: 0,
    top_p: 1,
    truncation: 'disabled',
    user: 'u-1',
    service_tier: 'default',
    output: [
      {
        type: 'message',
        id: `msg_${row?.id}_0`,
        status: 'completed',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'tok0 tok1 tok2 tok3 tok4 ', annotations: [], logprobs: [] }],
      },
    ],
    usage: {
      input_tokens: 10,
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens: 5,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 15,
      cost_nano_usd: costOf(10, 5),
      cost: costOf(10, 5) / 1e9,
    },
  })
  expect(row).toMatchObject({ endpoint: 'responses', lane: 'translated', status: 'ok', cost_nano_usd: costOf(10, 5) })
  expect(sent()).toEqual({
    model: 'large-v1',
    messages: [
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: 'Hello there!' },
    ],
    tools: [{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }],
    user: 'u-1',
    safety_identifier: 's',
  })
})

test('a stream has the same in the order recorded at OpenAI, and ends without [DONE]', async () => {
  const { events, response } = await gateway.stream({})
  expect(typesOf(events)).toEqual([
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.content_part.added',
    ...Array.from({ length: 5 }, () => 'response.output_text.delta'),
    'response.output_text.done',
    'response.content_part.done',
    'response.output_item.done',
    'response.completed',
  ])
  const { id: _, output: __, ...whole } = await gateway.ask({})
  expect(response).toMatchObject(whole)
})

describe('calls', () => {
  test('that arrive interleaved become items one after the other', async () => {
    gateway.upstream.script(
      say([call(0, 'look', '{"at":'), call(1, 'look', '{"at"'), more(0, '"a"}'), more(1, ':"b"}')], 'tool_calls'),
    )
    const { events, response } = await gateway.stream({ tools: [TOOL] })
    expect(response.output).toMatchObject([
      { type: 'function_call', call_id: 'call_0', name: 'look', arguments: '{"at":"a"}', status: 'completed' },
      { type: 'function_call', call_id: 'call_1', name: 'look', arguments: '{"at":"b"}', status: 'completed' },
    ])
    expect(typesOf(events).filter((type) => type.endsWith('.delta'))).toHaveLength(4)
  })

  test('that arrive one after the other are streamed as they arrive', async () => {
    const script = say([call(0, 'look', '{}'), call(1, 'look', ''), more(1, '{"at":'), more(1, '"b"}')], 'tool_calls')
    gateway.upstream.script(script)
    const { events } = await gateway.stream({ tools: [TOOL] })
    expect(events.filter(({ type }) => type.endsWith('.delta')).map(({ delta }) => delta)).toEqual([
      '{}',
      '{"at":',
      '"b"}',
    ])
  })

  test("of the client's own tools keep their kind: namespace, text, or shell", async () => {
    const tools = [
      { type: 'namespace', name: 'files', description: 'About files.', tools: [TOOL, { type: 'later', name: 'x' }] },
      {
        type: 'custom',
        name: 'apply_patch',
        description: 'Patches.',
        format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' },
      },
      { type: 'local_shell' },
      { type: 'web_search', external_web_access: false },
      { type: 'image_generation' },
    ]
    const beyond = ['custom_tool_call', 'local_shell_call']
    const calls = [
      call(0, 'files__look', '{}'),
      call(1, 'apply_patch', '{"input":"*** Begin"}'),
      call(2, 'local_shell', '{"command":["ls","-l"],"timeout_ms":5}'),
    ]
    gateway.upstream.script(say(calls, 'tool_calls'))
    const { response } = await gateway.stream({ tools }, { beyond })
    expect(response.output).toMatchObject([
      { type: 'function_call', name: 'look', namespace: 'files', arguments: '{}' },
      { type: 'custom_tool_call', call_id: 'call_1', name: 'apply_patch', input: '*** Begin' },
      { type: 'local_shell_call', action: { type: 'exec', command: ['ls', '-l'], env: {}, timeout_ms: 5 } },
    ])
    expect(typesOf(response.tools)).toEqual(['namespace', 'custom', 'local_shell'])
    const named = toFunctions(sent()?.tools)
    expect(named.map(({ name }) => name)).toEqual(['files__look', 'apply_patch', 'local_shell'])
    expect(named.map(({ description }) => description).slice(0, 2)).toEqual([
      'About files.',
      'Patches.\n\nThe input must match this lark grammar:\nstart: "x"',
    ])
  })

  test('are sent back with their results after them, wherever those were', async () => {
    const input = [
      { role: 'user', content: [{ type: 'input_text', text: 'Look.' }] },
      {
        type: 'reasoning',
        id: 'rs_1',
        summary: [{ type: 'summary_text', text: 'Hm' }],
        encrypted_content: 'of another',
      },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I look.', annotations: [] }] },
      { type: 'function_call', call_id: 'a', name: 'look', arguments: '{}', namespace: 'files', status: 'completed' },
      { type: 'custom_tool_call', call_id: 'b', name: 'apply_patch', input: 'x' },
      { type: 'web_search_call', id: 'ws_1', status: 'completed' },
      { type: 'custom_tool_call_output', call_id: 'b', output: 'patched' },
      {
        type: 'function_call_output',
        call_id: 'a',
        output: [
          { type: 'input_text', text: 'see' },
          { type: 'input_image', image_url: 'data:image/png;base64,AA==' },
        ],
      },
      { type: 'compaction', encrypted_content: 'x' },
    ]
    await gateway.ask({ input })
    expect(sent()?.messages).toEqual([
      { role: 'user', content: 'Look.' },
      {
        role: 'assistant',
        content: 'I look.',
        reasoning: 'Hm',
        reasoning_content: 'Hm',
        tool_calls: [
          { id: 'a', type: 'function', function: { name: 'files__look', arguments: '{}' } },
          { id: 'b', type: 'function', function: { name: 'apply_patch', arguments: '{"input":"x"}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'a', content: [{ type: 'text', text: 'see' }] },
      { role: 'tool', tool_call_id: 'b', content: 'patched' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What the tools have shown:' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } },
        ],
      },
    ])
  })
})

describe('reasoning', () => {
  const thinking = say([{ reasoning: 'First ' }, { reasoning: 'this.' }, { content: 'Done.' }])

  test('is a summary if requested, and sealed if it must return', async () => {
    gateway.upstream.script(thinking)
    const include = ['reasoning.encrypted_content']
    const { response } = await gateway.stream({ reasoning: { summary: 'auto' }, include })
    const [thought] = response.output as { encrypted_content: string }[]
    expect(thought).toMatchObject({ type: 'reasoning', summary: [{ type: 'summary_text', text: 'First this.' }] })
    expect(thought?.encrypted_content).toStartWith('tg1.')
    gateway.upstream.script(obliging)
    await gateway.ask({ input: [{ role: 'user', content: 'Go.' }, ...(response.output as object[])] })
    expect(sent()?.messages).toEqual([
      { role: 'user', content: 'Go.' },
      { role: 'assistant', content: 'Done.', reasoning: 'First this.', reasoning_content: 'First this.' },
    ])
  })

  test('returns if it was only sealed', async () => {
    gateway.upstream.script(thinking)
    const { response } = await gateway.stream({ include: ['reasoning.encrypted_content'] })
    expect(response.output).toMatchObject([{ type: 'reasoning', summary: [] }, { type: 'message' }])
    gateway.upstream.script(obliging)
    await gateway.ask({ input: [{ role: 'user', content: 'Go.' }, ...(response.output as object[])] })
    expect(sent()?.messages).toMatchObject([{}, { reasoning: 'First this.' }])
  })

  test('is an empty item if neither is requested', async () => {
    gateway.upstream.script(thinking)
    const { response } = await gateway.stream({})
    expect(response.output).toMatchObject([{ type: 'reasoning', summary: [] }, { type: 'message' }])
    expect(JSON.stringify(response)).not.toContain('encrypted_content')
  })
})

test.each([
  ['length', 'max_output_tokens'],
  ['content_filter', 'content_filter'],
])('a response that ends by %s is incomplete', async (finish, reason) => {
  gateway.upstream.script(say([{ content: 'Half' }], finish))
  const { events, response } = await gateway.stream({})
  expect(events.at(-1)?.type).toBe('response.incomplete')
  const half = { status: 'incomplete', incomplete_details: { reason }, completed_at: null }
  expect(response).toMatchObject({ ...half, output: [{ status: 'incomplete' }] })
  gateway.upstream.script(wholeAnswer({ tokens: ['Half'], finish }))
  expect(await gateway.ask({})).toMatchObject({ ...half, output: [{ status: 'incomplete' }] })
})

describe('a failure', () => {
  test('in the middle of a stream is its last event, with a code', async () => {
    gateway.upstream.script({ ...streamAnswer({ tokens: 2, finish: null, usage: null }), end: 'cut' })
    const { events, response } = await gateway.stream({})
    expect(events.at(-1)?.type).toBe('response.failed')
    expect(response).toMatchObject({ status: 'failed', error: { code: 'upstream_failed' }, usage: null, output: [] })
    expect((await gateway.app.settled(rows + 1)).at(-1)).toMatchObject({ status: 'cut' })
  })

  test("before the first token has its own status, and OpenAI's format", async () => {
    gateway.upstream.script(errorAnswer(429, 'slow down', { 'retry-after': '7' }))
    const response = await gateway.post({ stream: true })
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '7'])
    expect(await response.json()).toMatchObject({ error: { code: 'upstream_rate_limited', param: null } })
  })
})

const REFUSED: [what: string, body: object, error: { code: string | null; param: string | null; message?: unknown }][] =
  [
    ...['previous_response_id', 'conversation', 'prompt'].map((param): (typeof REFUSED)[number] => [
      param,
      { [param]: 'x_1' },
      { code: 'unsupported_parameter', param, message: expect.stringMatching(/Tollgate does not store/) },
    ]),
    ['background', { background: true }, { code: 'unsupported_parameter', param: 'background' }],
    [
      'an item by its id',
      { input: [{ type: 'item_reference', id: 'msg_1' }] },
      { code: 'unsupported_parameter', param: 'input[0]', message: expect.stringMatching(/store: false/) },
    ],
    [
      'a file that a provider keeps',
      { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'file-1' }] }] },
      { code: 'unsupported_parameter', param: 'input[0].content[0].file_id' },
    ],
    ['no input', { input: undefined }, { code: 'missing_required_parameter', param: 'input' }],
    ['no model', { model: null }, { code: null, param: null }],
    ['an empty input', { input: [] }, { code: null, param: 'input' }],
    [
      'a content of a wrong type',
      { input: [{ role: 'user', content: 7 }] },
      { code: 'invalid_type', param: 'input[0].content' },
    ],
    [
      'a part of a wrong type',
      { input: [{ role: 'user', content: [{ type: 'input_text', text: 7 }] }] },
      { code: 'invalid_type', param: 'input[0].content[0].text' },
    ],
    [
      'a role that there is not',
      { input: [{ role: 'boss', content: '' }] },
      { code: 'invalid_value', param: 'input[0].role' },
    ],
    [
      'a tool without a name',
      { tools: [{ type: 'function' }] },
      { code: 'missing_required_parameter', param: 'tools[0].name' },
    ],
    ['a cap of a wrong type', { max_output_tokens: '5' }, { code: 'invalid_type', param: 'max_output_tokens' }],
    [
      'an effort that there is not',
      { reasoning: { effort: 'huge' } },
      { code: 'invalid_value', param: 'reasoning.effort' },
    ],
    [
      'a call without a result',
      { input: [{ type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }] },
      { code: null, param: 'input', message: 'No tool output found for function call c.' },
    ],
    [
      'a result without a call',
      { input: [{ type: 'function_call_output', call_id: 'c', output: '' }] },
      { code: null, param: 'input', message: 'No tool call found for function call output with call_id c.' },
    ],
    [
      'a choice of a tool that was left out',
      { tools: [TOOL, { type: 'web_search' }], tool_choice: { type: 'web_search' } },
      { code: 'invalid_value', param: 'tool_choice' },
    ],
    [
      'a schema that is none',
      { text: { format: { type: 'json_schema', name: 's', schema: { type: 'nonsense' } } } },
      { code: null, param: 'text.format' },
    ],
    [
      'a wrong schema of a tool in a namespace',
      { tools: [{ type: 'namespace', name: 'n', tools: [{ ...TOOL, parameters: { type: 'nonsense' } }] }] },
      { code: 'invalid_function_parameters', param: 'tools[0].tools[0].parameters' },
    ],
    [
      'tools for a model without any',
      { model: 'acme/small', tools: [TOOL] },
      { code: 'unsupported_parameter', param: 'tools' },
    ],
  ]

test.each(REFUSED)('%s is rejected with the path of the field, before any call', async (_, body, error) => {
  const before = gateway.upstream.requests.length
  const response = await gateway.post(body)
  expect(response.status).toBe(400)
  expect(await response.json()).toMatchObject({ error: { type: 'invalid_request_error', ...error } })
  expect(gateway.upstream.requests).toHaveLength(before)
})

test('unknown items, parts, and tools are dropped', async () => {
  await gateway.ask({
    input: [
      {
        type: 'message',
        id: 'mine',
        role: 'user',
        content: [{ type: 'input_hologram' }, { type: 'input_text', text: 'Hi' }],
      },
      { type: 'mcp_list_tools', id: 'x', tools: [] },
    ],
    tools: [{ type: 'mcp', server_label: 'x' }],
    tool_choice: 'auto',
    parallel_tool_calls: true,
    client_metadata: { a: 'b' },
    text: { verbosity: 'low' },
    reasoning: { effort: 'low', summary: 'auto' },
    max_output_tokens: 50,
    include: ['message.output_text.logprobs'],
    top_logprobs: 2,
  })
  expect(sent()).toEqual({
    model: 'large-v1',
    messages: [{ role: 'user', content: 'Hi' }],
    verbosity: 'low',
    max_tokens: 50,
    logprobs: true,
    top_logprobs: 2,
  })
})
