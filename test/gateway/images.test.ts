/** `POST /v1/images/generations` before upstreams of each kind: requests, answers, cost, and refusals. */
import { describe, expect, test } from 'bun:test'
import { forAllTests } from '../support/lifetime.ts'
import { errorAnswer, type Whole } from '../support/upstream-answers.ts'
import { B64, startImages, USAGE } from './image-gateway.ts'

const gateway = forAllTests(startImages)

const whole = (json: unknown): Whole => ({ kind: 'whole', body: json as object })

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
      'xai',
      { data: [B64], usage: { cost_in_usd_ticks: 200_000_000 } },
      {},
      20_000_000,
      {},
    ],
  ])('is charged %s', async (_, model, answer, more, nanoUsd, row) => {
    const { status, json } = await make(model, answer, more)
    expect([status, json.usage?.cost_nano_usd]).toEqual([200, nanoUsd])
    expect(gateway.row()).toMatchObject({ endpoint: 'images', status: 'ok', cost_nano_usd: nanoUsd, ...row })
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
    expect(gateway.sent()).toMatchObject({ path: '/v1/images/generations' })
    const wanted = { prompt: 'a cat', n: 2, size: '1024x1024', moderation: 'low', background: 'opaque' }
    expect(gateway.sent()?.json).toEqual({ model: 'gpt-image-1.5', ...wanted })
    await make('flat', { data: [B64, B64] }, more)
    expect(gateway.sent()?.json).toEqual({ model: 'flux', ...wanted, response_format: 'b64_json' })
  })

  test.each([
    ['a chat model', { model: 'i/chat' }, 'unsupported_endpoint'],
    ['four unfinished images', { stream: true, partial_images: 4 }, 'integer_above_max_value'],
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
      expect(gateway.row()).toMatchObject({ status: 'failed', cost_nano_usd: 0 })
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
