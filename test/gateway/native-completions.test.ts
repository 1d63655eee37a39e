/** Legacy completions: passed through, or refused. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { startApp, type TestApp } from '../support/app.ts'
import { type Script, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import type { Whole } from '../support/upstream-answers.ts'

const FACTS =
  'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text], supported_features: []'
const PRICING = 'pricing: [{ prompt: "0.000001", completion: "0.000002" }]'

let upstream: ScriptedUpstream
let app: TestApp
let key: string
beforeEach(async () => {
  upstream = await startUpstream()
  app = await startApp({
    catalog: `
version: 1
upstreams:
  coder: { dialect: openai, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY}, passthrough: [completions] }
  second: { dialect: openai, base_url: "${upstream.url}/second", api_key: \${UPSTREAM_KEY}, passthrough: [completions] }
  router: { dialect: openai, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY}, passthrough: [completions], cost: { path: usage.cost, unit: usd } }
  talker: { dialect: openai, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY} }
models:
  acme/coder: { name: Coder, ${FACTS}, ${PRICING}, routes: [{ upstream: coder, model: coder-v1 }, { upstream: second, model: coder-v2, priority: 1 }] }
  acme/routed: { name: Routed, ${FACTS}, ${PRICING}, routes: [{ upstream: router, model: coder-v1 }] }
  acme/talker: { name: Talker, ${FACTS}, ${PRICING}, routes: [{ upstream: talker, model: talker-v1 }] }
`,
  })
  key = app.key()
})
afterEach(async () => {
  await upstream.stop()
  await app.stop()
})

const post = (body: string, headers: Record<string, string> = {}, bearer = key) =>
  fetch(`${app.baseUrl}/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json', ...headers },
    body,
  })

const ended = async (count = 1) => (await app.settled(count)).at(-1)

const WHOLE =
  '{ "id":"cmpl-1","object":"text_completion", "created":17e8,"model":"coder-v1","choices":[{"text":"\\u0078 = 1","index":0,"logprobs":null,"finish_reason":"stop"}],\n "usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}, "timings":{"ms":1.10} }'

const whole: Whole = { kind: 'whole', headers: { 'content-type': 'application/json' }, body: WHOLE }

test('a whole response passes unchanged except for its ID and model', async () => {
  upstream.script(whole)
  const response = await post(
    '{"prompt":"def f(", "model" : "acme/coder","n_probs":2,\n"seed":12345678901234567890 }',
    { 'openai-beta': 'x=v1' },
  )
  const id = String(response.headers.get('x-request-id')).slice(4)
  expect(await response.text()).toBe(WHOLE.replace('cmpl-1', `cmpl-${id}`).replace('coder-v1', 'acme/coder'))
  expect(response.headers.get('x-tollgate-passthrough')).toBe('true')
  const [seen] = upstream.requests
  expect(seen?.body).toBe('{"prompt":"def f(", "model" : "coder-v1","n_probs":2,\n"seed":12345678901234567890 }')
  expect(seen?.path).toBe('/v1/completions')
  expect(seen?.headers['openai-beta']).toBe('x=v1')
  expect(await ended()).toMatchObject({
    ...{ endpoint: 'completions', lane: 'native', status: 'ok', prompt_tokens: 9, completion_tokens: 4, estimated: 0 },
    cost_nano_usd: 9_000 + 8_000,
  })
})

const chunk = (text: string, finish: string | null = null) =>
  `{"id":"cmpl-up","object":"text_completion","created":1,"model":"coder-v1","choices":[{"index":0,"text":${JSON.stringify(text)},"logprobs":null,"finish_reason":${JSON.stringify(finish)}}]}`
const USAGE =
  '{"id":"cmpl-up","model":"coder-v1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}'
const toStream = (...datas: string[]): Script => ({
  kind: 'stream',
  steps: datas.map((data) => `data: ${data}\n\n`),
  end: 'eof',
})

const ours = (text: string, id: string) => text.replaceAll('cmpl-up', `cmpl-${id}`).replaceAll('coder-v1', 'acme/coder')
const idOf = (response: Response) => String(response.headers.get('x-request-id')).slice(4)
const STREAM = '{"model":"acme/coder","prompt":["a"],"stream":true}'

test.each([
  ['costs what its upstream says', '"cost":0.5', { cost_nano_usd: 500_000_000, reported_nano_usd: 500_000_000 }],
  ['costs by its price where that leaves out a key of its own', '"cost":0.5,"is_byok":true', { cost_nano_usd: 17_000 }],
])('a whole response %s', async (_, said, row) => {
  upstream.script({ ...whole, body: WHOLE.replace('"total_tokens":13', `"total_tokens":13,${said}`) })
  await (await post('{"prompt":"def f(","model":"acme/routed"}')).text()
  expect(await ended()).toMatchObject(row)
})

test("a stream passes frame by frame, and requests usage that its client doesn't get", async () => {
  upstream.script(toStream(chunk('x = '), chunk('\u20281'), chunk('', 'stop'), USAGE, '[DONE]'))
  const response = await post(STREAM)
  const frames = [chunk('x = '), chunk('\u20281'), chunk('', 'stop'), '[DONE]'].map((data) => `data: ${data}\n\n`)
  expect(await response.text()).toBe(ours(frames.join(''), idOf(response)))
  expect(upstream.requests[0]?.body).toBe(
    '{"model":"coder-v1","prompt":["a"],"stream":true,"stream_options":{"include_usage":true}}',
  )
  expect(await ended()).toMatchObject({
    lane: 'native',
    status: 'ok',
    prompt_tokens: 9,
    completion_tokens: 2,
    estimated: 0,
  })
})

test('a client that requests usage gets it', async () => {
  upstream.script(toStream(chunk('x'), chunk('', 'stop'), USAGE, '[DONE]'))
  const response = await post(STREAM.replace('}', ',"stream_options":{"include_usage":true}}'))
  expect(await response.text()).toContain(ours(USAGE, idOf(response)))
})

test('an interrupted stream ends in an error, and costs its output so far', async () => {
  upstream.script({ kind: 'stream', steps: [`data: ${chunk('x = 1')}\n\n`], end: 'cut' })
  const response = await post(STREAM)
  const text = await response.text()
  expect(text).toStartWith(`data: ${ours(chunk('x = 1'), idOf(response))}\n\ndata: {"error":`)
  expect(text).not.toContain('[DONE]')
  expect(await ended()).toMatchObject({ lane: 'native', status: 'cut', estimated: 1 })
})

test('the end waits for all choices', async () => {
  const of = (index: number, text: string, finish: string | null) =>
    chunk(text, finish).replace('"index":0', `"index":${index}`)
  upstream.script(toStream(of(0, 'a', 'stop'), of(1, 'b', null), of(1, '', 'length'), USAGE, '[DONE]'))
  const response = await post('{"model":"acme/coder","prompt":["a","b"],"stream":true}')
  expect(await response.text()).toContain(`data: ${ours(of(1, 'b', null), idOf(response))}`)
  expect(await ended()).toMatchObject({ status: 'ok', completion_tokens: 2 })
})

test('the next upstream responds if the first fails before the first token', async () => {
  upstream.script(({ path }) =>
    path.includes('second')
      ? { kind: 'stream', steps: [`data: ${chunk('x', 'stop')}\n\n`, 'data: [DONE]\n\n'], end: 'eof' }
      : { kind: 'stream', steps: ['data: {"error":{"message":"busy","code":503}}\n\n'], end: 'eof' },
  )
  const response = await post(STREAM)
  expect(await response.text()).toEndWith('data: [DONE]\n\n')
  expect(response.headers.get('x-tollgate-attempts')).toBe('2')
  expect(upstream.requests.map(({ json }) => json?.model)).toEqual(['coder-v1', 'coder-v2'])
  expect(await ended()).toMatchObject({ lane: 'native', upstream: 'second', status: 'ok' })
})

test("the upstream's error about the request is reported in its words", async () => {
  const body = {
    error: { message: 'suffix is not supported', type: 'invalid_request_error', param: 'suffix', code: null },
  }
  upstream.script({ kind: 'whole', status: 400, body })
  const response = await post(STREAM)
  expect(response.status).toBe(400)
  expect(await response.json()).toEqual({ ...body, error: { ...body.error } })
})

test('a budget that covers a request leaves it unchanged', async () => {
  upstream.script(whole)
  const budgeted = app.key({ budget: { nanoUsd: 1e9, period: 'day' } })
  await (await post('{"model":"acme/coder","prompt":"a", "top_p":1.0 }', {}, budgeted)).text()
  await (await post('{"model":"acme/coder","prompt":"a","max_tokens":7}', {}, budgeted)).text()
  expect(upstream.requests.map(({ body }) => body)).toEqual([
    '{"model":"coder-v1","prompt":"a", "top_p":1.0 }',
    '{"model":"coder-v1","prompt":"a","max_tokens":7}',
  ])
})

test("fields that choose another model, price, or address aren't passed on", async () => {
  upstream.script(whole)
  await (
    await post(
      '{"model":"acme/coder","prompt":"a","models":["x"],"Model":"y","MAX_tokens":9e9,"api_base":"z","best_of":9,"n_probs":1}',
    )
  ).text()
  expect(upstream.requests[0]?.body).toBe('{"model":"coder-v1","prompt":"a","n_probs":1}')
})

test.each([
  ['a model whose upstream takes none', '{"model":"acme/talker","prompt":"a"}', 'unsupported_endpoint', 'model'],
  ['no prompt', '{"model":"acme/coder"}', 'missing_required_parameter', 'prompt'],
  ['a prompt of nothing', '{"model":"acme/coder","prompt":[]}', 'invalid_type', 'prompt'],
  ['tokens that are none', '{"model":"acme/coder","prompt":[[1,-1]]}', 'invalid_type', 'prompt'],
  ['more choices than there are', '{"model":"acme/coder","prompt":["a","b"],"n":65}', null, 'prompt'],
  ['a cap that is none', '{"model":"acme/coder","prompt":"a","max_tokens":-1}', 'invalid_type', 'max_tokens'],
  ['a name twice', '{"model":"acme/coder","prompt":"a","prompt":"b"}', null, null],
  ['a name twice further in', '{"model":"acme/coder","prompt":"a","x":{"y":1,"y":2}}', null, null],
  [
    'what costs more',
    '{"model":"acme/coder","prompt":"a","service_tier":"priority"}',
    'unsupported_parameter',
    'service_tier',
  ],
  ['what comes later', '{"model":"acme/coder","prompt":"a","background":true}', 'unsupported_parameter', 'background'],
  ['no object', '[]', null, null],
  ['no model', '{"prompt":"a"}', null, null],
])('%s is rejected before any call', async (_, body, code, param) => {
  const response = await post(body)
  expect(response.status).toBe(400)
  expect(await response.json()).toMatchObject({ error: { type: 'invalid_request_error', code, param } })
  expect(upstream.requests).toEqual([])
})
