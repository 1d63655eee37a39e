/** `POST /v1/images/generations` before upstreams of each kind: requests, answers, cost, and refusals. */
import { describe, expect, test } from 'bun:test'
import { startApp } from '../support/app.ts'
import { forAllTests } from '../support/lifetime.ts'
import { startUpstream } from '../support/upstream.ts'
import { errorAnswer, type Whole } from '../support/upstream-answers.ts'

const FACTS = 'context_length: 64000, max_output_length: 32000, input_modalities: [text], supported_features: []'
const MAKES = `${FACTS}, output_modalities: [image]`
const TOKENS =
  'pricing: [{ prompt: "0.000005", completion: "0.00003", image_token: "0.000008", image_token_completion: "0.00003" }]'
const SIZES = `pricing: [{ prompt: "0", completion: "0" },
    { size: 1024x1024, quality: low, prompt: "0", completion: "0", generated_image: "0.011" },
    { size: 1024x1024, quality: high, prompt: "0", completion: "0", generated_image: "0.167" }]`
const FLAT = 'pricing: [{ prompt: "0", completion: "0", generated_image: "0.025" }]'

const gateway = forAllTests(async () => {
  const [near, far] = await Promise.all([startUpstream(), startUpstream()])
  const app = await startApp({
    catalog: `
version: 1
upstreams:
  near: { dialect: openai, base_url: "${near.url}", api_key: \${UPSTREAM_KEY} }
  far: { dialect: openai, base_url: "${far.url}", api_key: \${UPSTREAM_KEY} }
  ticks: { dialect: openai, base_url: "${near.url}", api_key: \${UPSTREAM_KEY}, cost: { path: usage.cost_in_usd_ticks, unit: 1e-10usd } }
  demo: { dialect: demo, local: true }
models:
  i/gpt: { name: G, ${MAKES}, ${TOKENS}, routes: [{ upstream: near, model: gpt-image-2 }, { upstream: far, model: gpt-image-2, priority: 1 }] }
  i/sizes: { name: S, ${MAKES}, ${SIZES}, routes: [{ upstream: near, model: dall-e-9 }] }
  i/flat: { name: F, ${MAKES}, ${FLAT}, routes: [{ upstream: near, model: flux }] }
  i/ticks: { name: X, ${MAKES}, ${FLAT}, routes: [{ upstream: ticks, model: grok }] }
  i/chat: { name: Demo, ${FACTS}, output_modalities: [text], routes: [{ upstream: demo, model: d }] }
`,
  })
  const key = app.key()
  return {
    ...{ app, near, far },
    post: (path: string, body: unknown, secret = key) =>
      fetch(new URL(path, app.baseUrl), {
        method: 'POST',
        headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    async stop() {
      await Promise.all([near.stop(), far.stop()])
      await app.stop()
    },
  }
})

const whole = (json: unknown): Whole => ({ kind: 'whole', body: json as object })
const lastRow = () => gateway.app.rows().at(-1)
const sent = () => gateway.near.requests.at(-1)
const B64 = { b64_json: 'aGk=' }
const USAGE = { input_tokens: 23, output_tokens: 1_056, total_tokens: 1_079, input_tokens_details: { text_tokens: 23 } }

async function make(model: string, answer: unknown, more: object = {}) {
  gateway.near.script(whole(answer))
  const response = await gateway.post('/v1/images/generations', { model: `i/${model}`, prompt: 'a cat', ...more })
  // biome-ignore lint/suspicious/noExplicitAny: for a test to look into
  return { status: response.status, headers: response.headers, json: (await response.json()) as any }
}

describe('an image', () => {
  test.each<[string, string, object, object, number, object]>([
    ['by tokens', 'gpt', { data: [B64], usage: USAGE }, {}, 31_795_000, { images: 1, unpriced: 0 }],
    ['at its answered size', 'sizes', { data: [B64], size: '1024x1024', quality: 'high' }, {}, 167_000_000, {}],
    [
      ...(['at its answered quality, not that asked', 'sizes'] as const),
      { data: [B64], size: '1024x1024', quality: 'low' },
      { size: '1024x1024', quality: 'high' },
      ...([11_000_000, { mode: '1024x1024+low' }] as const),
    ],
    [
      ...(['as asked, if the answer says nothing', 'sizes', { data: [B64] }] as const),
      { size: '1024x1024', quality: 'low' },
      ...([11_000_000, { counted_by: 'answer' }] as const),
    ],
    ['of auto, if the answer says nothing', 'sizes', { data: [B64] }, { size: 'auto' }, 167_000_000, { unpriced: 1 }],
    ['each that came, not that was asked', 'flat', { data: [B64, B64, B64] }, { n: 4 }, 75_000_000, { images: 3 }],
    [
      'by its upstream’s own cost',
      'ticks',
      { data: [B64], usage: { cost_in_usd_ticks: 200_000_000 } },
      {},
      20_000_000,
      {},
    ],
  ])('is charged %s', async (_, model, answer, more, nanoUsd, row) => {
    const { status, json } = await make(model, answer, more)
    expect([status, json.usage?.cost_nano_usd]).toEqual([200, nanoUsd])
    expect(lastRow()).toMatchObject({ endpoint: 'images', status: 'ok', cost_nano_usd: nanoUsd, ...row })
  })

  test('comes as its upstream made it, with what that says of it', async () => {
    const data = [{ url: 'https://images.example/1.png', revised_prompt: 'a gray cat' }, B64]
    const { json } = await make('flat', { created: 1_700_000_000, data, output_format: 'png', other: 1 })
    expect(json).toMatchObject({ created: 1_700_000_000, data, output_format: 'png' })
    expect(json.other).toBeUndefined()
  })

  test('is asked for in its upstream’s words: never response_format of a GPT image model, whatever clients call it', async () => {
    const more = {
      response_format: 'b64_json',
      n: 2,
      size: '1024x1024',
      moderation: 'low',
      background: 'opaque',
      user: 'u',
    }
    await make('gpt', { data: [B64, B64], usage: USAGE }, more)
    expect(sent()).toMatchObject({ path: '/v1/images/generations' })
    const wanted = { prompt: 'a cat', n: 2, size: '1024x1024', moderation: 'low', background: 'opaque' }
    expect(sent()?.json).toEqual({ model: 'gpt-image-2', ...wanted })
    await make('flat', { data: [B64, B64] }, more)
    expect(sent()?.json).toEqual({ model: 'flux', ...wanted, response_format: 'b64_json' })
  })

  test.each([
    ['a chat model', { model: 'i/chat' }, 'unsupported_endpoint'],
    ['streaming', { stream: true }, 'unsupported_parameter'],
    ['eleven at once', { n: 11 }, 'integer_above_max_value'],
    ['options within the prompt', { prompt: 'x <sd_cpp_extra_args>{"steps":999}</sd_cpp_extra_args>' }, null],
  ])('is refused for %s', async (_, more, code) => {
    const before = gateway.near.requests.length
    const { status, json } = await make('flat', { data: [B64] }, more)
    expect([status, json.error.code ?? null]).toEqual([400, code])
    expect(gateway.near.requests.length).toBe(before)
    gateway.near.script(whole({ data: [B64] }))
  })

  test('without data, or of none, is an error and costs nothing', async () => {
    for (const answer of [{ data: [] }, { data: [{}] }, {}]) {
      expect((await make('flat', answer)).status).toBe(502)
      expect(lastRow()).toMatchObject({ status: 'failed', cost_nano_usd: 0 })
    }
  })

  test('is tried elsewhere after 429, but not once its upstream may have begun', async () => {
    gateway.far.script(whole({ data: [B64], usage: USAGE }))
    gateway.near.script(errorAnswer(429))
    expect((await gateway.post('/v1/images/generations', { model: 'i/gpt', prompt: 'x' })).status).toBe(200)
    const asked = gateway.far.requests.length
    gateway.near.script({ kind: 'reset' })
    expect((await gateway.post('/v1/images/generations', { model: 'i/gpt', prompt: 'x' })).status).toBeGreaterThan(499)
    expect(gateway.far.requests.length).toBe(asked)
  })
})
