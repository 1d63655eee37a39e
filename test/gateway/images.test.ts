/** `POST /v1/images/generations` on upstreams of each kind: requests, responses, cost, and rejections. */
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

  test("passes with the upstream's facts about it", async () => {
    const data = [{ url: 'https://images.example/1.png', revised_prompt: 'a gray cat' }, B64]
    const { json } = await make('flat', { created: 1_700_000_000, data, output_format: 'png', other: 1 })
    expect(json).toMatchObject({ created: 1_700_000_000, data, output_format: 'png' })
    expect(json.other).toBeUndefined()
  })

  test('that is a URL although base64 was requested passes, and is marked', async () => {
    const more = { response_format: 'b64_json' }
    const asUrl = await make('flat', { data: [{ url: 'http://127.0.0.1/1.png' }] }, more)
    expect([asUrl.headers.get('x-tollgate-images'), asUrl.json.data[0].url]).toEqual(['url', 'http://127.0.0.1/1.png'])
    const asData = await make('flat', { data: [{ url: 'data:image/png;base64,aGk=' }] }, more)
    expect([asData.headers.get('x-tollgate-images'), asData.json.data]).toEqual([null, [B64]])
    expect((await make('flat', { data: [{ url: 'https://x.example/1.png' }] })).headers.has('x-tollgate-images')).toBe(
      false,
    )
  })

  test('may have 14 MiB, six at once', async () => {
    const b64_json = 'A'.repeat(14 * 1024 * 1024)
    const { json } = await make('flat', { data: Array(6).fill({ b64_json }) }, { n: 6 })
    expect(json.data.map((one: typeof B64) => one.b64_json === b64_json)).toEqual(Array(6).fill(true))
  })

  test.each([
    ['auto', 'gpt', { quality: 'auto', n: 2 }, { reserved_completion_tokens: 32_000 }],
    ['low quality', 'gpt', { quality: 'low' }, { reserved_completion_tokens: 1_000 }],
    [
      'three unfinished ones',
      'gpt',
      { quality: 'low', stream: true, partial_images: 3 },
      { reserved_completion_tokens: 1_300 },
    ],
    ['auto by size', 'sizes', { size: 'auto', n: 3 }, { reserved_nano_usd: 3 * 167_000_000 }],
  ])('reserves its maximum cost, for %s', async (_, model, more, wanted) => {
    gateway.near.script(whole({ data: [B64], usage: USAGE }))
    await (await gateway.post('/v1/images/generations', { model: `i/${model}`, prompt: 'a cat', ...more })).text()
    expect(gateway.row()).toMatchObject(wanted)
  })

  test('is requested in its upstream’s format: never with response_format for a GPT image model, whatever its alias', async () => {
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
  ])('is rejected for %s', async (_, more, code) => {
    const before = gateway.near.requests.length
    const { status, json } = await make('flat', { data: [B64] }, more)
    expect([status, json.error.code ?? null]).toEqual([400, code])
    expect(gateway.near.requests.length).toBe(before)
    gateway.near.script(whole({ data: [B64] }))
  })

  test("is only for its endpoint: a chat gets the endpoint's name", async () => {
    const response = await gateway.post('/v1/chat/completions', {
      ...{ model: 'i/flat', messages: [{ role: 'user', content: 'Hi' }] },
    })
    const { error } = (await response.json()) as { error: { message: string } }
    expect([response.status, error.message]).toEqual([
      400,
      expect.stringContaining(
        'supports only images. Use /v1/images/generations or /v1/images/edits, or another model.',
      ),
    ])
  })

  test('without data, or a missing one, is an error and free', async () => {
    for (const answer of [{ data: [] }, { data: [{}] }, {}]) {
      expect((await make('flat', answer)).status).toBe(502)
      expect(gateway.row()).toMatchObject({ status: 'failed', cost_nano_usd: 0 })
    }
  })

  test('is retried elsewhere after 429, but not once its upstream may have begun', async () => {
    gateway.far.script(whole({ data: [B64], usage: USAGE }))
    gateway.near.script(errorAnswer(429))
    expect((await gateway.post('/v1/images/generations', { model: 'i/gpt', prompt: 'x' })).status).toBe(200)
    const asked = gateway.far.requests.length
    for (const behaviour of [{ kind: 'reset' }, errorAnswer(504)] as const) {
      gateway.near.script(behaviour)
      const { status } = await gateway.post('/v1/images/generations', { model: 'i/gpt', prompt: 'x' })
      expect(status).toBeGreaterThan(499)
    }
    expect(gateway.far.requests.length).toBe(asked)
  })
})
