/** Batches by Anthropic's client: with models of other formats, and at Anthropic's own batches. */
import { describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { wholeMessage } from '../support/anthropic-answers.ts'
import { startApp } from '../support/app.ts'
import { startBatchUpstream } from '../support/batch-upstream.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

const FACTS =
  'context_length: 8192, max_output_length: 100, input_modalities: [text], output_modalities: [text], supported_features: [tools]'
const PRICING =
  'pricing: [{ prompt: "0.000001", completion: "0.000002" }, { mode: batch, prompt: "0.0000005", completion: "0.000001" }]'

const at = forAllTests(async () => {
  const anthropic = startBatchUpstream('anthropic')
  const app = await startApp({
    catalog: `
version: 1
upstreams:
  claude: { dialect: anthropic, base_url: "${anthropic.url}", api_key: \${UPSTREAM_KEY}, batches: [messages] }
  demo: { dialect: demo, local: true }
models:
  c/claude: { name: C, ${FACTS}, ${PRICING}, routes: [{ upstream: claude, model: claude-1 }] }
  d/demo: { name: D, ${FACTS}, routes: [{ upstream: demo, model: d }] }
`,
  })
  const key = app.key()
  return { ...{ app, anthropic, key }, stop: () => Promise.all([app.stop(), anthropic.stop()]) }
})

const clientOf = (apiKey = at.key) => new Anthropic({ apiKey, baseURL: at.app.origin, maxRetries: 0 })

const toRequest = (custom_id: string, model: string, more: object = {}) => ({
  custom_id,
  params: { model, max_tokens: 50, messages: [{ role: 'user' as const, content: `Say “${custom_id}” {"[` }], ...more },
})

async function ended(id: string) {
  for (;;) {
    const batch = await clientOf().messages.batches.retrieve(id)
    if (batch.processing_status === 'ended') return batch
    at.app.pass(1_000)
    await Bun.sleep(5)
  }
}

async function resultsOf(id: string) {
  const results = []
  for await (const result of await clientOf().messages.batches.results(id)) results.push(result)
  return Object.fromEntries(results.map((one) => [one.custom_id, one.result]))
}

const post = (body: string) =>
  fetch(`${at.app.baseUrl}/messages/batches`, {
    method: 'POST',
    headers: { 'x-api-key': at.key, 'anthropic-version': '2023-06-01', 'content-type': 'application/json' },
    body,
  })

describe('a batch of messages', () => {
  test('runs on any model, with a result per request, and is deleted with its files', async () => {
    const { batches } = clientOf().messages
    const requests = [toRequest('a', 'd/demo'), toRequest('b', 'd/none'), toRequest('c', 'd/demo', { stream: true })]
    const begun = await batches.create({ requests })
    expect(begun).toMatchObject({ type: 'message_batch', results_url: null, request_counts: { processing: 3 } })
    expect(await ended(begun.id)).toMatchObject({
      request_counts: { processing: 0, succeeded: 1, errored: 2, canceled: 0, expired: 0 },
    })
    const results = await resultsOf(begun.id)
    expect(results.a).toMatchObject({
      type: 'succeeded',
      message: { type: 'message', role: 'assistant', model: 'd/demo' },
    })
    expect(results.b).toMatchObject({ type: 'errored', error: { type: 'error', error: { type: 'not_found_error' } } })
    expect(results.c).toMatchObject({ type: 'errored', error: { error: { type: 'invalid_request_error' } } })
    expect((await batches.list()).data.map(({ id }) => id)).toEqual([begun.id])
    // OpenAI's clients don't see its files.
    const files = await fetch(`${at.app.baseUrl}/files`, { headers: { authorization: `Bearer ${at.key}` } })
    expect(await files.json()).toMatchObject({ data: [] })
    const other = clientOf(at.app.key({ name: 'other' })).messages.batches
    for (const asked of [
      other.retrieve(begun.id),
      other.cancel(begun.id),
      other.delete(begun.id),
      other.results(begun.id),
    ])
      expect(
        await asked.then(
          () => 200,
          (error) => error.status,
        ),
      ).toBe(404)
    expect(await batches.delete(begun.id)).toEqual({ id: begun.id, type: 'message_batch_deleted' })
    expect((await batches.list()).data).toEqual([])
  })

  test("passes to Anthropic's own batches, unchanged except for its model, and is canceled there", async () => {
    const { batches } = clientOf().messages
    const { app, anthropic } = at
    anthropic.answer = () => ({ status: 200, body: wholeMessage({ blocks: [{ text: 'Yes' }] }).body as object })
    const before = app.rows().length
    const system = [{ type: 'text' as const, text: 'Short.', cache_control: { type: 'ephemeral' as const } }]
    const { id } = await batches.create({
      requests: [toRequest('x', 'c/claude', { system }), toRequest('y', 'c/claude')],
    })
    await until('the submission', () => anthropic.batches.length === 1)
    const [remote] = anthropic.batches
    expect(remote?.lines[0]?.body).toEqual({ ...toRequest('x', 'c/claude', { system }).params, model: 'claude-1' })
    await expect((async () => await batches.delete(id))()).rejects.toMatchObject({ status: 400 })
    expect(await batches.cancel(id)).toMatchObject({ processing_status: 'canceling' })
    await until('the cancellation', () => {
      app.pass(1_000)
      return remote?.status === 'cancelling'
    })
    Object.assign(remote ?? {}, { status: 'cancelled', hasFiles: true })
    expect((await ended(id)).request_counts).toEqual({
      processing: 0,
      succeeded: 1,
      errored: 0,
      canceled: 1,
      expired: 0,
    })
    expect(await resultsOf(id)).toMatchObject({
      x: { type: 'canceled' },
      y: { type: 'succeeded', message: { content: [{ text: 'Yes' }], model: 'c/claude' } },
    })
    // Ten tokens in and five out.
    expect((await app.settled(before + 1)).slice(before).map((row) => row.cost_nano_usd)).toEqual([
      10 * 500 + 5 * 1_000,
    ])
  })

  test.each([
    ['{"requests":[]}', 'at least 1 item'],
    ['{"requests":[{"custom_id":"a","params":{}},]}', 'requests.1'],
    ['{"requests":[{"custom_id":"a","params":{}} {"custom_id":"b","params":{}}]}', 'not valid JSON'],
    ['{"requests":[{"custom_id":"a","params":{}},{"custom_id":"a","params":{}}]}', 'requests.1.custom_id: Duplicate'],
    ['{"requests":[{"custom_id":"a b","params":{}}]}', 'requests.0.custom_id'],
    ['{"requests":[{"custom_id":"a","params":[]}]}', 'requests.0.params'],
    ['{"requests":[{"custom_id":"a","params":{},"x":1}]}', 'requests.0.x: Extra inputs'],
    ['{"requests":[{"custom_id":"a","params":{"x":tru}}]}', 'not valid JSON'],
    ['{"requests":[{"custom_id":"a","params":{}}', 'not valid JSON'],
    ['{"requests":[{"custom_id":"a","params":{}}],"x":1}', 'nothing else'],
    ['[]', 'nothing else'],
  ])('is rejected as a whole if it is %s', async (body, message) => {
    const response = await post(body)
    expect(response.status).toBe(400)
    const { type, error } = (await response.json()) as { type: string; error: { type: string; message: string } }
    expect([type, error.type]).toEqual(['error', 'invalid_request_error'])
    expect(error.message).toContain(message)
  })

  test('is listed in pages, from either end', async () => {
    const { batches } = clientOf(at.app.key({ name: 'lister' })).messages
    const ids: string[] = []
    for (const name of ['a', 'b', 'c'])
      ids.unshift((await batches.create({ requests: [toRequest(name, 'd/demo')] })).id)
    const all = []
    for await (const { id } of batches.list({ limit: 2 })) all.push(id)
    expect(all).toEqual(ids)
    const [first = '', , last = ''] = ids
    expect(await batches.list({ limit: 1, before_id: last })).toMatchObject({ data: [{ id: ids[1] }], has_more: true })
    expect(await batches.list({ limit: 5, before_id: first })).toMatchObject({ data: [], has_more: false })
  })

  test('accepts and returns large numbers unchanged', async () => {
    const schema = '{"type":"object","properties":{"b":{"type":"integer","maximum":18446744073709551615},"1":{}}}'
    const input = '{"id":12345678901234567891,"1":1.0}'
    const message = JSON.stringify(wholeMessage({ blocks: [{ text: 'Yes' }] }).body)
    const block = `{"type":"tool_use","id":"toolu_1","name":"f","input":${input}}`
    const answer = message.replace(/"content":\[.*?\]/, `"content":[${block}]`)
    const response = await post(`{"requests":[{"custom_id":"a","params":{"model":"c/claude","max_tokens":5,
      "tools":[{"name":"f","input_schema":${schema}}],"messages":[{"role":"user","content":"Hi"}]}}]}`)
    const { id } = (await response.json()) as { id: string }

    await until('the submission', () => at.anthropic.received.at(-1)?.includes(schema) === true)
    const [remote] = at.anthropic.batches
    const name = remote?.lines[0]?.custom_id
    const line = `{"custom_id":"${name}","result":{"type":"succeeded","message":${answer}}}`
    at.anthropic.fail = (_, path) => (path.endsWith('/results') ? new Response(line) : null)
    Object.assign(remote ?? {}, { status: 'completed', hasFiles: true })
    await ended(id)
    const results = await fetch(`${at.app.baseUrl}/messages/batches/${id}/results`, {
      headers: { 'x-api-key': at.key },
    })
    expect(await results.text()).toContain(input)
    at.anthropic.fail = null
    await clientOf().messages.batches.delete(id)
  })
})

test('results are at the public URL, whatever host a proxy names', async () => {
  const catalog = `version: 1\nupstreams: { demo: { dialect: demo, local: true } }\nmodels: { d/demo: { name: D, ${FACTS}, routes: [{ upstream: demo, model: d }] } }`
  const app = await startApp({
    catalog,
    config: { publicUrls: ['https://llm.example.org', 'https://other.example.org'] },
  })
  try {
    const key = app.key()
    const { batches } = new Anthropic({ apiKey: key, baseURL: app.origin, maxRetries: 0 }).messages
    const { id } = await batches.create({ requests: [toRequest('a', 'd/demo')] })
    await until('its end', async () => (await batches.retrieve(id)).processing_status === 'ended')
    const path = `/v1/messages/batches/${id}/results`
    expect((await batches.retrieve(id)).results_url).toBe(`https://llm.example.org${path}`)
    const headers = { 'x-api-key': key, host: 'other.example.org' }
    const named = await fetch(`${app.baseUrl}/messages/batches/${id}`, { headers })
    expect(((await named.json()) as { results_url: string }).results_url).toBe(`https://other.example.org${path}`)
  } finally {
    await app.stop()
  }
})
