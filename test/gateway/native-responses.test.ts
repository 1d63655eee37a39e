/** Clients of OpenAI's Responses API on an upstream that offers it: passthrough both ways. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { encodeState } from '../../src/upstreams/dialects/reasoning-state.ts'
import { startApp, type TestApp } from '../support/app.ts'
import { hasRecordings, readRecording } from '../support/recordings.ts'
import { type Script, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { idOf, toFrames, toStream } from './native-messages.ts'

const FACTS =
  'context_length: 200000, max_output_length: 64000, input_modalities: [text, image], output_modalities: [text], supported_features: [tools, structured_outputs, json_mode, reasoning]'
const PRICING = 'pricing: [{ prompt: "0.000001", completion: "0.000002", input_cache_read: "0.0000001" }]'

let upstream: ScriptedUpstream
let other: ScriptedUpstream
let app: TestApp
let key: string
beforeAll(async () => {
  ;[upstream, other] = await Promise.all([startUpstream(), startUpstream()])
  app = await startApp({
    catalog: `
version: 1
upstreams:
  openai: { dialect: openai, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY}, passthrough: [responses], query: { api-version: v1 } }
  keeping: { dialect: openai, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY}, passthrough: [responses], pass: [previous_response_id, file_id] }
  chats: { dialect: openai, base_url: "${other.url}", api_key: \${UPSTREAM_KEY} }
models:
  openai/gpt: { name: G, ${FACTS}, ${PRICING}, routes: [{ upstream: openai, model: gpt-up }] }
  openai/kept: { name: K, ${FACTS}, ${PRICING}, routes: [{ upstream: keeping, model: gpt-up }] }
  openai/chat: { name: T, ${FACTS}, ${PRICING}, routes: [{ upstream: chats, model: gpt-up }] }
  openai/backed: { name: B, ${FACTS}, ${PRICING}, routes: [{ upstream: openai, model: gpt-up }, { upstream: chats, model: gpt, priority: 1 }] }
  openai/searching: { name: S, ${FACTS.replace('reasoning]', 'reasoning, web_search]')}, pricing: [{ prompt: "0.000001", completion: "0.000002", web_search: "0.01" }], routes: [{ upstream: openai, model: gpt-up }] }
`,
  })
  key = app.key()
})
afterAll(async () => {
  await Promise.all([upstream.stop(), other.stop()])
  await app.stop()
})
beforeEach(() => {
  app.pass(24 * 60 * 60_000)
  upstream.script(toStream(toAnswer('Hello')))
})

const post = (body: string, headers: Record<string, string> = {}, bearer = key) =>
  fetch(`${app.baseUrl}/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json', ...headers },
    body,
  })
const lastSent = () => upstream.requests.at(-1)
const lastRow = async () => {
  await app.flushed()
  return app.rows().at(-1)
}

const USAGE =
  '"usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":20},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":37}'
const toResponse = (status: string, rest = '') =>
  `{"id":"resp_up","object":"response","model":"gpt-up","status":"${status}","output":[],"n":1e400${rest}}`
const toEvent = (type: string, rest: string, number: number) =>
  `{"type":"${type}","sequence_number":${number},${rest} }`

const toAnswer = (...texts: string[]): string[] => {
  const all = [
    ['response.created', `"response":${toResponse('in_progress')}`],
    ['response.in_progress', `"response":${toResponse('in_progress')}`],
    ['response.output_item.added', '"output_index":0,"item":{"id":"msg_x","type":"message","content":[]}'],
    ...texts.map((text) => [
      'response.output_text.delta',
      `"item_id":"msg_x","output_index":0,"content_index":0,"delta":${JSON.stringify(text)},"obfuscation":"xYz"`,
    ]),
    ['response.unheard_of', '"response_id":"resp_up"'],
    ['response.completed', `"response":${toResponse('completed', `,${USAGE}`)}`],
  ]
  return all.map(([type = '', rest = ''], number) => toEvent(type, rest, number))
}

const ours = (text: string, id: string, model = 'openai/gpt') =>
  text.replaceAll('"id":"resp_up"', `"id":"resp_${id}"`).replaceAll('"model":"gpt-up"', `"model":"${model}"`)

const HELLO = '{"model":"openai/gpt","stream":true,"input":"Hi"}'

test("a stream returns event by event, with the catalog's model name and our own ID", async () => {
  const answer = toAnswer('He', 'llo \u2028"gpt-up')
  upstream.script(toStream(answer))
  const response = await post(HELLO, { 'openai-beta': 'x=1' })
  expect(await response.text()).toBe(ours(toFrames(answer).join(''), idOf(response)))
  expect(response.headers.get('x-tollgate-passthrough')).toBe('true')
  expect(lastSent()).toMatchObject({
    ...{ path: '/v1/responses?api-version=v1', headers: { 'openai-beta': 'x=1' } },
    body: '{"model":"gpt-up","stream":true,"input":"Hi","store":false}',
  })
  expect(await lastRow()).toMatchObject({
    ...{
      endpoint: 'responses',
      lane: 'native',
      status: 'ok',
      prompt_tokens: 30,
      cached_tokens: 20,
      completion_tokens: 7,
    },
    ...{ reasoning_tokens: 3, estimated: 0, cost_nano_usd: 10_000 + 2_000 + 14_000 },
  })
})

test('a whole response returns unchanged', async () => {
  const text = toResponse('completed', `,\n"new":[12345678901234567890],${USAGE}`).replace(
    '"output":[]',
    '"output":[{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"x"},{"type":"message","content":[{"type":"output_text","text":"H\\u0069"}]}]',
  )
  upstream.script({ kind: 'whole', headers: { 'content-type': 'application/json' }, body: text })
  const response = await post('{"model":"openai/gpt","input":"Hi","store":true,"reasoning":{"effort":"low"}}')
  expect(await response.text()).toBe(ours(text, idOf(response)))
  expect(lastSent()?.body).toBe('{"model":"gpt-up","input":"Hi","store":false,"reasoning":{"effort":"low"}}')
  expect(await lastRow()).toMatchObject({ lane: 'native', stream: 0, status: 'ok', completion_tokens: 7 })
})

test('a response that is truncated by its cap, or filtered, is complete', async () => {
  const details = ',"incomplete_details":{"reason":"max_output_tokens"},'
  const end = toEvent('response.incomplete', `"response":${toResponse('incomplete', details + USAGE)}`, 9)
  const answer = [...toAnswer('Hello').slice(0, -1), end]
  upstream.script(toStream(answer))
  const response = await post(HELLO)
  expect(await response.text()).toBe(ours(toFrames(answer).join(''), idOf(response)))
  expect(await lastRow()).toMatchObject({ status: 'ok' })
})

describe('if it fails', () => {
  const failed = toEvent(
    'response.failed',
    `"response":${toResponse('failed', ',"error":{"code":"server_error","message":"Sorry"}')}`,
    2,
  )

  test('before the first token, the next upstream responds, translated', async () => {
    upstream.script(toStream([...toAnswer('x').slice(0, 2), failed]))
    const response = await post(HELLO.replace('gpt', 'backed'))
    const text = await response.text()
    expect(response.headers.get('x-tollgate-passthrough')).toBe('false')
    expect(text).toContain('"delta":"tok0')
    expect(text).not.toContain('resp_up')
    expect(await lastRow()).toMatchObject({ lane: 'translated', upstream: 'chats', attempts: 2, status: 'ok' })
  })

  test.each<[string, Script]>([
    ['by a broken connection', { kind: 'stream', steps: toFrames(toAnswer('Hello').slice(0, 4)), end: 'cut' }],
    ['by an end without a word', toStream(toAnswer('Hello').slice(0, 4))],
    ['by its own word', toStream([...toAnswer('Hello').slice(0, 4), failed])],
    [
      'by an error',
      toStream([...toAnswer('Hello').slice(0, 4), '{"type":"error","code":"server_error","message":"x"}']),
    ],
  ])("in the middle %s, it ends as failed, and doesn't look complete", async (_, script) => {
    upstream.script(script)
    const response = await post(HELLO)
    const text = await response.text()
    const begun = ours(toFrames(toAnswer('Hello').slice(0, 4)).join(''), idOf(response))
    expect(text).toStartWith(begun)
    const [, data = ''] = /^event: response\.failed\ndata: (.+)\n\n$/.exec(text.slice(begun.length)) ?? []
    expect(JSON.parse(data)).toMatchObject({
      ...{ type: 'response.failed', sequence_number: 4 },
      response: {
        id: `resp_${idOf(response)}`,
        model: 'openai/gpt',
        status: 'failed',
        error: { code: expect.any(String) },
      },
    })
    expect(await lastRow()).toMatchObject({ lane: 'native', status: 'cut' })
  })

  test("because of the request, the upstream's error is reported", async () => {
    const error = { message: 'Nope', type: 'invalid_request_error', param: 'truncation', code: 'unsupported_value' }
    upstream.script({ kind: 'whole', status: 400, body: { error } })
    const response = await post(HELLO)
    expect([response.status, await response.json()]).toEqual([400, { error }])
  })
})

test('tool calls, and work at the provider, begin a response', async () => {
  const items = [
    '"output_index":0,"item":{"type":"function_call","call_id":"c1","name":"f","arguments":""}',
    '"output_index":0,"delta":"{\\"a\\":1}"',
    '"output_index":1,"item":{"type":"new_call","id":"n_1"}',
  ]
  const types = ['response.output_item.added', 'response.function_call_arguments.delta', 'response.output_item.added']
  const answer = [
    ...toAnswer().slice(0, 2),
    ...items.map((item, at) => toEvent(types[at] ?? '', item, at)),
    ...toAnswer().slice(-1),
  ]
  upstream.script(toStream(answer))
  const response = await post(HELLO)
  expect(await response.text()).toBe(ours(toFrames(answer).join(''), idOf(response)))
})

test('a budget that covers a request leaves it unchanged', async () => {
  const budgeted = app.key({ budget: { nanoUsd: 1e9, period: 'day' } })
  await (await post(HELLO, {}, budgeted)).text()
  expect(lastSent()?.body).toBe('{"model":"gpt-up","stream":true,"input":"Hi","store":false}')
})

describe("a search without a price isn't offered to the model", () => {
  const TOOL =
    '{"type":"function","name":"f","strict":false,"parameters":{"type":"object","properties":{"container":{}}}}'
  const SEARCH = '{"type":"web_search","external_web_access":false}'
  const toBody = (model: string, tools: string) =>
    `{"model":"openai/${model}","stream":true,"tools":[${tools}],"tool_choice":"auto","input":"Hi"}`

  test.each([
    ['gpt', `${SEARCH}, ${TOOL}`, ` ${TOOL}`],
    ['searching', `${SEARCH}, ${TOOL}`, `${SEARCH}, ${TOOL}`],
  ])('%s: %s', async (model, tools, sent) => {
    const response = await post(toBody(model, tools))
    expect(await response.text()).toContain('response.completed')
    expect(response.headers.get('x-tollgate-passthrough')).toBe('true')
    expect(lastSent()?.body).toBe(
      toBody(model, sent).replace(`openai/${model}`, 'gpt-up').replace(/}$/, ',"store":false}'),
    )
  })
})

test("web searches are charged, and opened or searched pages aren't, whole and streamed", async () => {
  const toItem = (id: string, action: string) =>
    `{"type":"web_search_call","id":"${id}","status":"completed","action":{"type":"${action}"}}`
  const items = ['search', 'open_page', 'find_in_page', 'search'].map((action, at) => toItem(`ws_${at}`, action))
  const events = items.flatMap((item, at) => [
    toEvent('response.output_item.added', `"output_index":${at},"item":{"type":"web_search_call","id":"ws_${at}"}`, 0),
    toEvent('response.output_item.done', `"output_index":${at},"item":${item}`, 0),
  ])
  const [created = ''] = toAnswer()
  const ask = async (stream: boolean) => {
    await (
      await post(`{"model":"openai/searching","input":"Hi","stream":${stream},"tools":[{"type":"web_search"}]}`)
    ).text()
    return (await lastRow())?.cost_nano_usd
  }
  upstream.script(toStream([created, ...events, ...toAnswer('Hi').slice(-2)]))
  const cost = 30_000 + 14_000 + 2 * 10_000_000
  expect(await ask(true)).toBe(cost)
  const body = toResponse('completed', `,${USAGE}`).replace('"output":[]', `"output":[${items.join()}]`)
  upstream.script({ kind: 'whole', headers: { 'content-type': 'application/json' }, body })
  expect(await ask(false)).toBe(cost)
})

test("reasoning sealed here isn't passed on", async () => {
  const sealed = encodeState([{ type: 'reasoning.text', text: 'Hm', format: 'anthropic-claude-v1', index: 0 }])
  const thought = (content: string) => `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"${content}"}`
  const said = '{"role":"user","content":"tg1."}'
  await (
    await post(`{"model":"openai/gpt","stream":true,"input":[${said},${thought(sealed)}, ${thought('gAAA')},${said}]}`)
  ).text()
  expect(lastSent()?.body).toBe(
    `{"model":"gpt-up","stream":true,"input":[${said}, ${thought('gAAA')},${said}],"store":false}`,
  )
})

test("reasoning with only an ID isn't passed on, since nothing is stored that it could refer to", async () => {
  const thought = (rest: string) => `{"type":"reasoning","id":"rs_1","summary":[]${rest}}`
  const call = '{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{}"}'
  const result = '{"type":"function_call_output","call_id":"c","output":"7"}'
  const spoken = thought(',"content":[{"type":"reasoning_text","text":"Hm"}]')
  const items = [
    thought(''),
    thought(',"encrypted_content":null'),
    spoken,
    thought(',"encrypted_content":"g"'),
    call,
    result,
  ]
  await (await post(`{"model":"openai/gpt","stream":true,"input":[${items.join()}]}`)).text()
  expect(lastSent()?.body).toBe(`{"model":"gpt-up","stream":true,"input":[${items.slice(2).join()}],"store":false}`)
})

test("a search without a price doesn't pass within an item with more tools, nor next to allowed ones", async () => {
  const search = '{"type":"web_search"}'
  for (const [model, fields] of [
    [
      'gpt',
      `"input":[{"role":"user","content":"x"},{"type":"additional_tools","role":"developer","tools":[${search}]}]`,
    ],
    [
      'kept',
      `"input":[{"role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_file","file_id":"f"}]}],"tools":[${search}]`,
    ],
  ]) {
    const before = upstream.requests.length
    await (await post(`{"model":"openai/${model}","stream":true,${fields}}`)).text()
    for (const { body } of upstream.requests.slice(before)) expect(body).not.toContain('web_search')
  }
})

test("a chat's fields for cap and choices don't pass next to a reserved cap", async () => {
  const body = '{"model":"openai/gpt","stream":true,"input":"Hi","max_output_tokens":5'
  await (await post(`${body},"n":100,"max_tokens":60000,"max_completion_tokens":60000,"seed":7}`)).text()
  expect(lastSent()?.body).toBe(`${body.replace('openai/gpt', 'gpt-up')},"seed":7,"store":false}`)
})

describe("an unlisted field isn't passed on", () => {
  const asked = (fields: string) =>
    `{"model":"openai/backed","stream":true${fields.includes('"input"') ? '' : ',"input":"Hi"'}${fields}}`

  test.each([
    ...[',"thread":null,"session":"sess_1"', ',"session":{"id":"sess_1"}', ',"reasoning":{"unheard_of":"sess_1"}'],
    ',"text":{"unheard_of":{"id":"sess_1"}}',
    ',"input":[{"role":"user","content":"Hi","session":"sess_1"}]',
    ',"input":[{"role":"user","content":"Hi"},{"type":"unheard_of","about":"sess_1"}]',
    ',"prompt_cache_options":{"comparison_response_id":null,"unheard_of":"sess_1"}',
  ])('%s', async (fields) => {
    const before = upstream.requests.length
    const response = await post(asked(fields))
    await response.text()
    expect([response.status, response.headers.get('x-tollgate-passthrough')]).toEqual([200, 'false'])
    expect(
      upstream.requests
        .slice(before)
        .map(({ body }) => body)
        .join(),
    ).not.toContain('sess_1')
  })

  test.each([
    ',"seed":7,"unheard_of":true',
    ',"input":[{"role":"assistant","content":"Hi","unheard_of":"final_answer"},{"role":"user","content":"Hi"}]',
  ])("unless it can't cost, store, or reach anything: %s", async (fields) => {
    const response = await post(asked(fields))
    await response.text()
    expect(response.headers.get('x-tollgate-passthrough')).toBe('true')
    expect(lastSent()?.body).toBe(asked(fields).replace('openai/backed', 'gpt-up').replace(/}$/, ',"store":false}'))
  })

  test('but a request for a compaction is, and it is rejected by name without such an upstream', async () => {
    const said = '{"role":"user","content":"Hi"}'
    const body = `{"model":"openai/gpt","stream":true,"input":[${said},{"type":"compaction_trigger"}]}`
    await (await post(body)).text()
    expect(lastSent()?.body).toBe(body.replace('openai/gpt', 'gpt-up').replace(/}$/, ',"store":false}'))
    const refused = await post(body.replace('gpt', 'chat'))
    expect([refused.status, await refused.json()]).toMatchObject([400, { error: { param: 'input[1]' } }])
  })

  test("and a tool of unknown type isn't offered, nor one that runs at the provider", async () => {
    const tool = '{"type":"function","name":"f","parameters":{}}'
    for (const type of ['unheard_of', 'programmatic_tool_calling', 'shell', 'image_generation']) {
      await (
        await post(`{"model":"openai/gpt","stream":true,"tools":[${tool},{"type":"${type}"}],"input":"Hi"}`)
      ).text()
      expect(lastSent()?.body).toBe(`{"model":"gpt-up","stream":true,"tools":[${tool}],"input":"Hi","store":false}`)
    }
  })

  test("and the choice of an account's access program is rejected by name", async () => {
    const response = await post('{"model":"openai/gpt","input":"Hi","access_programs":{"cyber":"daybreak_red"}}')
    expect([response.status, await response.json()]).toMatchObject([400, { error: { param: 'access_programs' } }])
  })
})

describe("another key's data at the provider isn't passed on", () => {
  const withTool = (tool: string) =>
    `,"input":[{"role":"user","content":"x"},{"type":"tool_search_output","execution":"client","tools":[${tool}]}]`

  test.each([
    [',"previous_response_id":"resp_1"', 'previous_response_id'],
    [',"conversation":{"id":"c"}', 'conversation'],
    [',"background":true', 'background'],
    [',"prompt":{"id":"p"}', 'prompt'],
    [',"Conversation":{"id":"c"}', 'Conversation'],
    [',"prompt_cache_options":{"comparison_response_id":"resp_1"}', 'prompt_cache_options.comparison_response_id'],
    [',"input":[{"type":"item_reference","id":"msg_1"},{"role":"user","content":"x"}]', 'input[0]'],
    [withTool('{"type":"code_interpreter","container":"cntr_1"}'), 'input[1].tools[0].container'],
    [withTool('{"type":"mcp","connector_id":"connector_gmail"}'), 'input[1].tools[0].type'],
    [',"input":[{"role":"user","content":"Bluer"},{"type":"image_generation_call","id":"ig_1"}]', 'input[1]'],
    [
      ',"input":[{"role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_image","file_id":"f"}]}]',
      'input[0].content[1].file_id',
    ],
  ])('%s', async (fields, param) => {
    const before = upstream.requests.length
    const response = await post(`{"model":"openai/gpt"${fields.includes('"input"') ? '' : ',"input":"Hi"'}${fields}}`)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { code: 'unsupported_parameter', param } })
    expect(upstream.requests.length).toBe(before)
  })

  test('unless its upstream is configured for one key only', async () => {
    const body = '{"model":"openai/kept","stream":true,"input":"Hi","store":true,"previous_response_id":"resp_1"}'
    await (await post(body)).text()
    expect(lastSent()?.body).toBe(body.replace('openai/kept', 'gpt-up').replace('true,"prev', 'false,"prev'))
    const refused = await post(body.replace('kept', 'chat'))
    expect(await refused.json()).toMatchObject({ error: { param: 'previous_response_id' } })
  })
})

const AGENTS = join(import.meta.dir, '../../../shared/data/agents')

describe.skipIf(!hasRecordings)("Codex's recorded requests pass byte for byte", () => {
  const files = hasRecordings
    ? readdirSync(AGENTS, { recursive: true, encoding: 'utf8' })
        .filter((file) => /codex.*\.json$/.test(file))
        .sort()
    : []
  const requests = files.flatMap((file): [string, string][] => {
    const { request } = JSON.parse(readFileSync(join(AGENTS, file), 'utf8'))
    if (request.method !== 'POST' || !/\/responses(\?|$)/.test(request.url) || !request.body?.input) return []
    return [[file, JSON.stringify({ ...request.body, model: 'openai/searching' })]]
  })

  test.each(requests)('%s', async (_, body) => {
    const response = await post(body)
    expect([response.status, response.headers.get('x-tollgate-passthrough')]).toEqual([200, 'true'])
    await response.text()
    expect(lastSent()?.body).toBe(body.replace('"model":"openai/searching"', '"model":"gpt-up"'))
  })
})

describe.skipIf(!hasRecordings)("OpenAI's recorded responses return byte for byte", () => {
  test.each([
    'responses/openai-apply-patch-tool.1.chunks.jsonl',
    'responses/openai-client-tool-search.2.chunks.jsonl',
    'azure/azure-reasoning-encrypted-content.1.chunks.jsonl',
  ])('%s', async (file) => {
    const all = readRecording(file).split('\n')
    const datas = all.slice(0, all.findIndex((data) => data.includes('"type":"response.completed"')) + 1)
    upstream.script({ kind: 'stream', steps: toFrames(datas), end: 'eof', bytesPerWrite: 1009 })
    const response = await post(HELLO)
    const text = await response.text()
    const id = /"response":\{"id":"(resp_[^"]+)"/.exec(datas[0] ?? '')?.[1] ?? ''
    const model = /"model":"([^"]+)"/.exec(datas[0] ?? '')?.[1] ?? ''
    const expected = toFrames(datas)
      .join('')
      .replaceAll(`"response":{"id":"${id}"`, `"response":{"id":"resp_${idOf(response)}"`)
    expect(text).toBe(expected.replaceAll(`"model":"${model}"`, '"model":"openai/gpt"'))
    expect(await lastRow()).toMatchObject({ lane: 'native', status: 'ok', estimated: 0 })
  })
})

test.each([
  ['{"age":3}', null],
  ['{"age":"three"}', 'schema_not_met'],
])(
  'a stream that says %s passes as it came, and the ledger says whether it meets a strict schema',
  async (text, code) => {
    const answer = toAnswer(text.slice(0, 4), text.slice(4))
    upstream.script(toStream(answer))
    const schema = {
      type: 'object',
      properties: { age: { type: 'integer' } },
      required: ['age'],
      additionalProperties: false,
    }
    const format = { type: 'json_schema', name: 'person', strict: true, schema }
    const response = await post(JSON.stringify({ ...JSON.parse(HELLO), text: { format } }))
    expect(await response.text()).toBe(ours(toFrames(answer).join(''), idOf(response)))
    expect(await lastRow()).toMatchObject({ lane: 'native', status: 'ok', error_code: code })
  },
)
