/** `POST /v1/audio/speech` on upstreams that respond in bytes, events, or JSON: what the client gets, when, and the cost. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { startApp } from '../support/app.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'
import { startUpstream } from '../support/upstream.ts'
import { type Behaviour, errorAnswer, type StreamStep } from '../support/upstream-answers.ts'

const FACTS = 'context_length: 4096, input_modalities: [text], output_modalities: [speech]'
const PER_CHARACTER = 'pricing: [{ prompt: "0", completion: "0", character: "0.000015" }]'
const PER_TOKEN = 'pricing: [{ prompt: "0.0000006", completion: "0", audio_completion: "0.000012" }]'
const NO_PRICE = 'pricing: [{ prompt: "0", completion: "0" }]'
const CHARACTER_NANO_USD = 15_000

const gateway = forAllTests(async () => {
  const [near, far] = await Promise.all([startUpstream(), startUpstream()])
  const app = await startApp({
    catalog: `
version: 1
upstreams:
  near: { dialect: openai, base_url: "${near.url}", api_key: \${UPSTREAM_KEY} }
  far: { dialect: openai, base_url: "${far.url}", api_key: \${UPSTREAM_KEY} }
  mistral: { preset: mistral, base_url: "${near.url}", api_key: \${UPSTREAM_KEY} }
models:
  s/chars: { name: C, ${FACTS}, ${PER_CHARACTER}, routes: [{ upstream: near, model: tts-1 }, { upstream: far, model: tts-1, priority: 1 }] }
  s/tokens: { name: T, ${FACTS}, ${PER_TOKEN}, routes: [{ upstream: near, model: gpt-4o-mini-tts }] }
  s/forgotten: { name: F, ${FACTS}, ${NO_PRICE}, routes: [{ upstream: near, model: tts-1 }] }
  s/mistral: { name: M, ${FACTS}, ${PER_CHARACTER}, routes: [{ upstream: mistral, model: voxtral-tts }] }
`,
  })
  const key = app.key()
  return {
    ...{ app, near, far },
    speak: (model: string, more: object = {}, { headers, ...init }: RequestInit = {}) =>
      fetch(`${app.baseUrl}/audio/speech`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ model: `s/${model}`, input: INPUT, voice: 'alloy', ...more }),
        ...init,
      }),
    async stop() {
      await Promise.all([near.stop(), far.stop()])
      await app.stop()
    },
  }
})
beforeEach(() => gateway.far.script(spoken([AUDIO])))

const INPUT = 'Hello, this is spoken.'
const AUDIO = Uint8Array.from({ length: 300 }, (_, at) => at % 256)
const PARTS = [AUDIO.slice(0, 100), AUDIO.slice(100)]
const spoken = (steps: StreamStep[], end: 'eof' | 'cut' | 'reset' = 'eof'): Behaviour => ({
  ...{ kind: 'stream', headers: { 'content-type': 'audio/mpeg' }, steps, end },
})
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
const DELTAS = PARTS.map((bytes) => ({ type: 'speech.audio.delta', audio: base64(bytes) }))
const DONE = { type: 'speech.audio.done', usage: { input_tokens: 14, output_tokens: 101, total_tokens: 115 } }
/** 14 × 600 + 101 × 12,000. */
const TOKENS_NANO_USD = 1_220_400
const asEvents = (steps: StreamStep[]): Behaviour => ({ kind: 'stream', steps, end: 'eof' })

const sent = () => gateway.near.requests.at(-1)?.json
async function lastRow() {
  await gateway.app.flushed()
  await until('the row is settled', async () => gateway.app.rows().at(-1)?.status !== 'open')
  return gateway.app.rows().at(-1)
}

describe('speech', () => {
  test('is unpriced, not free, if its model has prices, but none for it', async () => {
    gateway.near.script(spoken([AUDIO]))
    await (await gateway.speak('forgotten')).arrayBuffer()
    expect(await lastRow()).toMatchObject({ characters: INPUT.length, cost_nano_usd: 0, unpriced: 1 })
    await (await gateway.speak('chars')).arrayBuffer()
    expect(await lastRow()).toMatchObject({ cost_nano_usd: INPUT.length * CHARACTER_NANO_USD, unpriced: 0 })
  })

  test('begins before its upstream ends, and costs its characters', async () => {
    const rest = Promise.withResolvers<void>()
    gateway.near.script(spoken([PARTS[0] as Uint8Array, { until: rest.promise }, PARTS[1] as Uint8Array]))
    const response = await gateway.speak('chars', {
      response_format: 'mp3',
      instructions: 'Softly.',
      sample_rate: 8_000,
    })
    const reader = response.body?.getReader()
    const first = await reader?.read()
    expect(first?.value?.length).toBeGreaterThan(90)
    rest.resolve()
    const heard = [...(first?.value ?? [])]
    for (let next = await reader?.read(); next?.value; next = await reader?.read()) heard.push(...next.value)
    expect([response.status, response.headers.get('content-type'), heard]).toEqual([200, 'audio/mpeg', [...AUDIO]])
    expect(sent()).toEqual({
      ...{
        model: 'tts-1',
        input: INPUT,
        voice: 'alloy',
        instructions: 'Softly.',
        response_format: 'mp3',
        sample_rate: 8_000,
      },
    })
    expect(await lastRow()).toMatchObject({
      ...{ endpoint: 'speech', status: 'ok', characters: INPUT.length, counted_by: 'text', estimated: 0 },
      cost_nano_usd: INPUT.length * CHARACTER_NANO_USD,
    })
  })

  test('is the same in pieces of any size, to the last byte', async () => {
    const sizes = [1, 1, 2, 0, 3, 1, 100]
    const starts = sizes.map((_, at) => sizes.slice(0, at).reduce((sum, size) => sum + size, 0))
    const pieces = sizes.map((size, at) => AUDIO.slice(starts[at], (starts[at] ?? 0) + size))
    gateway.near.script(spoken(pieces.flatMap((piece) => (piece.length > 0 ? [piece, { waitMs: 5 }] : []))))
    expect(await (await gateway.speak('chars')).bytes()).toEqual(AUDIO.slice(0, 108))
  })

  test('charged by token is requested as events, gives the same audio, and costs their usage', async () => {
    gateway.near.script(asEvents([...DELTAS, DONE]))
    const response = await gateway.speak('tokens', { response_format: 'wav' })
    expect([response.headers.get('content-type'), await response.bytes()]).toEqual(['audio/wav', AUDIO])
    expect(sent()).toMatchObject({ stream_format: 'sse', response_format: 'wav' })
    expect(await lastRow()).toMatchObject({
      status: 'ok',
      estimated: 0,
      counted_by: 'upstream',
      reserved_completion_tokens: 3 * 21 + 64,
      cost_nano_usd: TOKENS_NANO_USD,
    })
  })

  test('is sent as events to clients that want them, also from bytes', async () => {
    gateway.near.script(spoken(PARTS))
    const response = await gateway.speak('chars', { stream_format: 'sse' })
    const events = (await response.text()).split('\n\n').flatMap((each) => (each ? JSON.parse(each.slice(6)) : []))
    const heard = Buffer.concat(events.slice(0, -1).map(({ audio }) => Buffer.from(audio, 'base64')))
    expect(new Uint8Array(heard)).toEqual(AUDIO)
    expect(events.at(-1)).toMatchObject({
      ...{ type: 'speech.audio.done', usage: { cost_nano_usd: INPUT.length * CHARACTER_NANO_USD } },
    })
  })

  test('of Mistral comes as JSON, and becomes bytes', async () => {
    gateway.near.script({ kind: 'whole', body: { audio_data: base64(AUDIO) } })
    const response = await gateway.speak('mistral')
    expect([response.headers.get('content-type'), await response.bytes()]).toEqual(['audio/mpeg', AUDIO])
    expect(sent()).toMatchObject({ voice_id: 'alloy' })
    expect(sent()).not.toHaveProperty('voice')
  })

  test.each([
    ['mp3', 'audio/mpeg'],
    ['opus', 'audio/ogg'],
    ['aac', 'audio/aac'],
    ['flac', 'audio/flac'],
    ['wav', 'audio/wav'],
    ['pcm', 'audio/pcm'],
  ])('as %s is %s', async (format, type) => {
    gateway.near.script({ kind: 'whole', body: { audio_data: base64(AUDIO) } })
    const response = await gateway.speak('mistral', { response_format: format })
    expect([response.headers.get('content-type'), await response.bytes()]).toEqual([type, AUDIO])
  })

  test('in a format that only the upstream knows is passed as bytes', async () => {
    gateway.near.script(asEvents([...DELTAS, DONE]))
    const response = await gateway.speak('tokens', { response_format: 'constructor' })
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/octet-stream'])
    expect(await response.bytes()).toEqual(AUDIO)
  })

  test.each(['Hello.', 'Hello 🙂.'])('by character has no tokens, also in limits: %s', async (input) => {
    gateway.near.script(spoken([AUDIO]))
    const slow = gateway.app.key({ tpm: 10 })
    for (const authorization of [`Bearer ${slow}`, `Bearer ${slow}`]) {
      const response = await gateway.speak('chars', { input }, { headers: { authorization } })
      expect([response.status, await response.bytes()]).toEqual([200, AUDIO])
    }
    expect(await lastRow()).toMatchObject({
      ...{ reserved_prompt_tokens: 0, reserved_completion_tokens: 0, prompt_tokens: 0, completion_tokens: 0 },
      ...{ estimated: input.length > 6 ? 1 : 0, cost_nano_usd: input.length * CHARACTER_NANO_USD },
    })
  })

  test('without usage, by token, costs an estimate by its bytes', async () => {
    gateway.near.script(spoken([new Uint8Array(16_000)]))
    await (await gateway.speak('tokens')).bytes()
    const row = await lastRow()
    expect(row).toMatchObject({ status: 'ok', estimated: 1 })
    expect(row?.completion_tokens).toBeGreaterThan(10)
    expect(row?.cost_nano_usd).toBeGreaterThan(120_000)
  })
})

describe('speech that fails', () => {
  test('before its first byte is JSON, and the next upstream is called after a 429', async () => {
    gateway.near.script(errorAnswer(400, 'no such voice'))
    const response = await gateway.speak('chars')
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { message: 'no such voice' } })
    gateway.near.script(errorAnswer(429, 'slow down'))
    const next = await gateway.speak('chars')
    expect([next.headers.get('x-tollgate-upstream'), await next.bytes()]).toEqual(['far', AUDIO])
  })

  test("by a reset isn't retried elsewhere: it may be charged", async () => {
    gateway.near.script({ kind: 'reset' })
    const before = gateway.far.requests.length
    const response = await gateway.speak('chars')
    expect([response.status, gateway.far.requests.length]).toEqual([502, before])
    await response.text()
  })

  test.each([
    ['no audio', spoken([])],
    ['a page', { kind: 'whole', headers: { 'content-type': 'text/html' }, body: '<p>' } satisfies Behaviour],
    ['events of no audio', asEvents([DONE])],
    [
      'an error in a 200',
      { kind: 'whole', body: { error: { message: 'x', type: 'server_error' } } } satisfies Behaviour,
    ],
  ])('by %s is an error', async (_, behaviour) => {
    gateway.near.script(behaviour)
    const response = await gateway.speak('tokens')
    expect(response.status).toBeGreaterThanOrEqual(500)
    expect(await response.json()).toHaveProperty('error.message')
  })

  test('within its bytes breaks the connection, and all characters are charged', async () => {
    gateway.near.script(spoken([PARTS[0] as Uint8Array], 'reset'))
    const response = await gateway.speak('chars')
    expect(
      await response.bytes().then(
        () => 'whole',
        () => 'broken',
      ),
    ).toBe('broken')
    expect(await lastRow()).toMatchObject({ status: 'cut', cost_nano_usd: INPUT.length * CHARACTER_NANO_USD })
  })

  test('because its client disconnected costs all characters', async () => {
    const never = Promise.withResolvers<void>()
    gateway.near.script(spoken([PARTS[0] as Uint8Array, { until: never.promise }]))
    const leaving = new AbortController()
    const response = await gateway.speak('chars', {}, { signal: leaving.signal })
    await response.body?.getReader().read()
    leaving.abort()
    never.resolve()
    expect(await lastRow()).toMatchObject({ cost_nano_usd: INPUT.length * CHARACTER_NANO_USD })
  })
})
