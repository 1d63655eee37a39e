/** Audio and image tokens are billed at their own rates, whether the upstream counts them or not. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startApp, type TestApp } from '../support/app.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { type Behaviour, streamAnswer, toDelta, wholeAnswer } from '../support/upstream-answers.ts'

let upstream: ScriptedUpstream
let app: TestApp
let key: string
beforeAll(async () => {
  upstream = await startUpstream()
  app = await startApp({
    catalog: `
version: 1
upstreams: { paid: { dialect: openai, base_url: "${upstream.url}" } }
models:
  acme/omni:
    { name: Omni, context_length: 8192, max_output_length: 1000, input_modalities: [text, audio, image], output_modalities: [text, audio, image],
      supported_features: [], pricing: [{ prompt: "0.000001", completion: "0.000002", audio: "0.00004", audio_completion: "0.00008",
      image_token: "0.000005", image_token_completion: "0.00003" }], routes: [{ upstream: paid, model: omni-v1 }] }
`,
  })
  key = app.key()
})
afterAll(async () => {
  await upstream.stop()
  await app.stop()
})

const AUDIO = { modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'pcm16' } }
/** One second of MP3 as base64: ten tokens. */
const heard = { type: 'input_audio', input_audio: { data: 'A'.repeat((8_000 * 4) / 3 + 1), format: 'mp3' } }

async function ask(body: Record<string, unknown>, behaviour: Behaviour, secret = key) {
  upstream.script(() => behaviour)
  const rows = await app.count()
  const response = await fetch(`${app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'acme/omni', messages: [{ role: 'user', content: [heard] }], ...body }),
  })
  const text = await response.text()
  return { response, text, row: async () => (await app.settled(rows + 1)).at(-1) }
}

const usage = {
  prompt_tokens: 1_000,
  completion_tokens: 500,
  prompt_tokens_details: { audio_tokens: 800, image_tokens: 100, text_tokens: 100 },
  completion_tokens_details: { audio_tokens: 300, image_tokens: 50, text_tokens: 150 },
}
/** In: 100 text, 800 audio, 100 image; out: 150 text, 300 audio, 50 image. */
const COST = 100 * 1_000 + 800 * 40_000 + 100 * 5_000 + 150 * 2_000 + 300 * 80_000 + 50 * 30_000

test.each([
  ['whole', wholeAnswer({ usage })],
  ['streamed', streamAnswer({ usage })],
])('units that an upstream reports for it are charged, reported, and recorded: %s', async (kind, behaviour) => {
  const stream = kind === 'streamed' && { stream: true, stream_options: { include_usage: true } }
  const { text, row } = await ask({ ...stream }, behaviour)
  expect(text).toContain(`"cost_nano_usd":${COST}`)
  expect(text).toContain('"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":800,"image_tokens":100}')
  expect(text).toContain('"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":300,"image_tokens":50}')
  expect(await row()).toMatchObject({
    prompt_tokens: 1_000,
    audio_prompt_tokens: 800,
    completion_tokens: 500,
    audio_completion_tokens: 300,
    image_tokens: 150,
    image_completion_tokens: 50,
    cost_nano_usd: COST,
    estimated: 0,
  })
})

test('an interrupted audio response is charged for the seconds that arrived', async () => {
  // Two seconds of 24 kHz 16-bit mono: forty tokens.
  const data = Buffer.alloc(48_000).toString('base64')
  const { row } = await ask(
    { ...AUDIO, stream: true },
    {
      kind: 'stream',
      steps: [toDelta({ audio: { id: 'a', data } }), toDelta({ audio: { data } }), { waitMs: 50 }],
      end: 'cut',
    },
  )
  const { prompt_tokens: prompt = 0, ...rest } = (await row()) ?? {}
  // Seven tokens frame the message; the rest is audio.
  expect({ prompt, ...rest }).toMatchObject({
    status: 'cut',
    audio_prompt_tokens: prompt - 7,
    completion_tokens: 40,
    audio_completion_tokens: 40,
    cost_nano_usd: 7 * 1_000 + (prompt - 7) * 40_000 + 40 * 80_000,
    estimated: 1,
  })
})

test('usage before further audio is not final', async () => {
  const data = Buffer.alloc(48_000).toString('base64')
  const early = { choices: [], usage: { prompt_tokens: 20, completion_tokens: 1 } }
  const steps = [toDelta({ audio: { id: 'a', data } }), early, toDelta({ audio: { data } }), toDelta({}, 'stop')]
  const { row } = await ask({ ...AUDIO, stream: true }, { kind: 'stream', steps })
  expect(await row()).toMatchObject({ status: 'ok', completion_tokens: 40, audio_completion_tokens: 40, estimated: 1 })
})

test('a budget reserves audio at its own price, and text at the text price', async () => {
  // 100 output tokens cost 0.0002 USD as text and 0.008 USD as audio.
  const limited = app.key({ name: 'limited', budget: { nanoUsd: 4_000_000, period: 'day' } })
  const words = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 100 }
  expect((await ask({ ...words, ...AUDIO }, wholeAnswer(), limited)).response.status).toBe(429)
  expect((await ask(words, wholeAnswer(), limited)).response.status).toBe(200)
})
