/** `POST /v1/audio/transcriptions` and `/translations` on upstreams of each kind: requests, responses, and charges. */

import { beforeEach, describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { type Field, FORM_TYPE, fromForm, loadAudio, toForm, toWav } from '../support/audio-forms.ts'
import { forAllTests } from '../support/lifetime.ts'
import { startTranscriptions } from '../support/transcription-gateway.ts'
import { type Behaviour, errorAnswer, type Whole } from '../support/upstream-answers.ts'

const gateway = forAllTests(startTranscriptions)
let key = ''
beforeEach(() => {
  key ||= gateway.app.key()
  gateway.near.script(says({ text: 'Hello.' }))
  gateway.far.script(says({ text: 'Hello from far.' }))
})

const says = (body: unknown, headers: Record<string, string> = {}): Whole => ({ kind: 'whole', body, headers })
const streams = (...steps: (string | Record<string, unknown>)[]): Behaviour => ({ kind: 'stream', steps, end: 'eof' })

const WAV = toWav(8_470)
const FILE: Field = ['file', WAV]

interface Asked {
  path?: string
  type?: string
  body?: Bun.BodyInit
  /** A key in place of the default one. */
  own?: string
}

const post = (
  fields: readonly Field[],
  { path = 'transcriptions', type = FORM_TYPE, body = toForm(fields), own = key }: Asked = {},
) =>
  fetch(`${gateway.app.baseUrl}/audio/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${own}`, 'content-type': type },
    body,
  })

async function refused(fields: readonly Field[], asked: Asked = {}) {
  const before = gateway.near.requests.length
  const response = await post(fields, asked)
  expect(gateway.near.requests.length).toBe(before)
  const { error } = (await response.json()) as { error: { message: string; param: string | null; code: string | null } }
  return { status: response.status, ...error }
}

const sent = (to = gateway.near) => {
  const seen = to.requests.at(-1)
  if (!seen) throw new Error('nothing was sent')
  return { ...seen, form: fromForm(seen.bytes, seen.headers['content-type'] ?? '') }
}

/** The last row, once all are settled. */
async function row() {
  const rows = await gateway.app.settled(await gateway.app.count())
  const last = rows.at(-1)
  if (!last) throw new Error('no row')
  return last as typeof last & { audio_ms: number; counted_by: string | null; unpriced: number }
}

describe('a form', () => {
  test('is passed on with the same bytes except for the model, wherever that is, also to a fallback', async () => {
    gateway.near.script(errorAnswer(500))
    const others: Field[] = [
      ['include[]', 'logprobs'],
      ['prompt', ''],
      ['include[]', 'x'],
      ['language', 'de'],
    ]
    const file: Field = [
      'file',
      WAV,
      '; filename="a%20b.wav"; filename*=UTF-8\'\'a%20b.wav\r\nContent-Type: application/octet-stream',
    ]
    for (const at of [0, 2, 5]) {
      const toSent = (model: string) =>
        [...others.slice(0, 2), file, ...others.slice(2)].toSpliced(at, 0, ['model', model])
      const response = await post(toSent('acme/both'))
      expect([response.status, await response.json()]).toMatchObject([200, { text: 'Hello from far.' }])
      expect(response.headers.get('x-tollgate-attempts')).toBe('2')
      expect(sent().bytes.equals(toForm(toSent('one')))).toBe(true)
      expect(sent(gateway.far).bytes.equals(toForm(toSent('two')))).toBe(true)
      expect(sent().headers).toMatchObject({
        'content-type': FORM_TYPE,
        'content-length': `${toForm(toSent('one')).length}`,
      })
      expect(sent().path).toBe('/v1/audio/transcriptions')
    }
  })

  test('may be chunked, with a file without type, as Open WebUI sends it', async () => {
    const form = toForm([
      ['model', 'acme/whisper'],
      ['file', WAV, '; filename="speech.wav"'],
    ])
    const pieces = async function* () {
      for (let at = 0; at < form.length; at += 50_000) yield form.subarray(at, at + 50_000)
    }
    const response = await post([], {
      body: new ReadableStream<Uint8Array>({
        async start(controller) {
          for await (const piece of pieces()) controller.enqueue(piece)
          controller.close()
        },
      }),
    })
    expect(await response.json()).toMatchObject({ text: 'Hello.', usage: { type: 'duration', seconds: 8.47 } })
    expect(sent().bytes.length).toBe(form.length - 'acme/whisper'.length + 'whisper-up'.length)
  })

  test('in chunks of unknown length is stopped at the limit', async () => {
    const { hostname, port } = new URL(gateway.app.origin)
    const socket = connect(Number(port), hostname)
    const answer = Promise.withResolvers<string>()
    socket.on('error', () => {})
    socket.once('data', (bytes) => answer.resolve(bytes.toString()))
    socket.write(
      `POST /v1/audio/transcriptions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: ${FORM_TYPE}\r\ntransfer-encoding: chunked\r\n\r\n`,
    )
    const piece = toForm([FILE]).subarray(0, 1 << 16)
    for (let sent = 0; sent < 40 * 2 ** 20; sent += piece.length)
      socket.write(`${piece.length.toString(16)}\r\n${piece.toString('latin1')}\r\n`, 'latin1')
    expect(await answer.promise).toStartWith('HTTP/1.1 413')
    socket.destroy()
  })

  test('that is too large, incomplete, or ambiguous is rejected', async () => {
    const model: Field = ['model', 'acme/whisper']
    expect(await refused([model])).toMatchObject({ status: 400, param: 'file' })
    expect(await refused([FILE])).toMatchObject({ status: 400, message: 'you must provide a model parameter' })
    expect(await refused([model, FILE, model])).toMatchObject({ status: 400, param: 'model' })
    expect(await refused([model, FILE, FILE])).toMatchObject({ status: 400, param: 'file' })
    expect(await refused([model, ['file', 'RIFF']])).toMatchObject({ status: 400, param: 'file' })
    expect(await refused([model, ['file', Buffer.alloc(0)]])).toMatchObject({ status: 400, param: 'file' })
    for (const name of ['model[]', 'Model', 'file[0]'])
      expect(await refused([model, FILE, [name, 'x']])).toMatchObject({ status: 400, code: 'unknown_parameter' })
    expect(await refused([model, FILE, ['notes', WAV]])).toMatchObject({ status: 400, param: 'notes' })
    expect(await refused([model, FILE, ['stream', 'maybe']])).toMatchObject({ status: 400, param: 'stream' })
    expect(await refused([model, FILE, ['file_id', 'file-1']])).toMatchObject({ status: 400 })
    const form = toForm([model, FILE])
    expect(await refused([], { body: form.subarray(0, -9) })).toMatchObject({ status: 400 })
    expect(await refused([], { body: form.toString('latin1').replaceAll('\r\n', '\n') })).toMatchObject({ status: 400 })
    expect(await refused([], { body: form, type: 'multipart/form-data' })).toMatchObject({ status: 400 })
    expect(await refused([], { body: '{"model":"acme/whisper"}', type: 'application/json' })).toMatchObject({
      status: 400,
    })
    expect(await refused([], { body: WAV, type: 'audio/wav' })).toMatchObject({
      message: expect.stringContaining("only accepts 'multipart/form-data' requests"),
    })
    expect(await refused([model, ['file', Buffer.alloc(33 * 2 ** 20)]])).toMatchObject({ status: 413 })
  })

  test('for another kind of model is rejected', async () => {
    const response = await fetch(`${gateway.app.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'acme/whisper', messages: [{ role: 'user', content: 'Hi' }] }),
    })
    expect(response.status).toBe(400)
    expect(await response.text()).toContain('/v1/audio/transcriptions')
  })
})

describe('an upstream', () => {
  test('gets names, paths, and credentials as configured', async () => {
    await post([
      ['model', 'mistral/voxtral'],
      FILE,
      ['timestamp_granularities[]', 'segment'],
      ['url', 'http://x'],
      ['user', 'u1'],
    ])
    expect(sent().form).toMatchObject({ model: ['voxtral-mini'], timestamp_granularities: ['segment'] })
    expect(Object.keys(sent().form)).not.toContain('url')
    await post([['model', 'azure/whisper'], FILE])
    expect(sent().path).toBe('/openai/deployments/my-whisper/audio/transcriptions?api-version=2024-10-21')
    expect(sent().headers['api-key']).toBeString()
    await post([['model', 'local/whisper'], FILE])
    expect(sent().path).toBe('/inference')
    await post([['model', 'whisper-1'], FILE, ['stream', 'true']], { path: 'translations' })
    expect(sent()).toMatchObject({ path: '/v1/audio/translations', form: { model: ['whisper-up'] } })
  })

  test.each([
    [422, { detail: [{ msg: 'Field required', loc: ['body', 'file'] }] }],
    [400, { error: 'failed to read audio' }],
    [400, { error: { message: 'audio_too_long', code: 'audio_too_long', type: 'invalid_request_error' } }],
  ])('that gives %d with its own error format is read', async (status, body) => {
    gateway.near.script({ ...says(body), status })
    const response = await post([['model', 'acme/whisper'], FILE, ['response_format', 'text']])
    expect(response.status).toBe(status)
    expect(await response.json()).toMatchObject({
      error: { message: expect.stringMatching(/required|audio/), type: 'invalid_request_error' },
    })
    expect(await row()).toMatchObject({ status: 'failed', cost_nano_usd: 0 })
  })
})

describe('a charge is', () => {
  /** Nano-dollars, ms of audio, and their source. */
  type Charge = [cost: number, ms: number, countedBy: string | null, estimated?: number]
  const DURATION = { type: 'duration', seconds: 9 }
  const TOKENS = {
    type: 'tokens',
    input_tokens: 100,
    output_tokens: 20,
    total_tokens: 120,
    input_token_details: { audio_tokens: 90, text_tokens: 10 },
  }
  const CASES: [string, string, string | null, Whole, Charge][] = [
    [
      'seconds that the upstream reports',
      'acme/whisper',
      null,
      says({ text: 'Hi', usage: DURATION }),
      [900_000, 9_000, 'upstream'],
    ],
    [
      'as much for text',
      'acme/whisper',
      'text',
      says('Hi\n', { 'content-type': 'text/plain' }),
      [900_000, 8_470, 'file', 1],
    ],
    [
      'as much for subtitles',
      'acme/whisper',
      'srt',
      says('1\n00:00:00,000 --> 00:00:08,000\nHi\n', { 'content-type': 'text/plain' }),
      [900_000, 8_470, 'file', 1],
    ],
    [
      'the duration in the answer',
      'mistral/voxtral',
      'verbose_json',
      says({ text: 'Hi', duration: 8.5 }),
      [425_000, 8_500, 'answer'],
    ],
    [
      'that of vLLM, a text',
      'mistral/voxtral',
      'verbose_json',
      says({ text: 'Hi', duration: '8.5' }),
      [425_000, 8_500, 'answer'],
    ],
    [
      "Mistral's seconds",
      'mistral/voxtral',
      null,
      says({
        text: 'Hi',
        model: 'voxtral-mini',
        usage: { prompt_tokens: 4, completion_tokens: 20, total_tokens: 24, prompt_audio_seconds: 9 },
      }),
      [450_000, 9_000, 'upstream'],
    ],
    ['as measured, if nothing is reported', 'mistral/voxtral', null, says({ text: 'Hi' }), [423_500, 8_470, 'file', 1]],
    [
      'tokens, by kind, if those are reported',
      'acme/tokens',
      null,
      says({ text: 'Hi', usage: TOKENS }),
      [90 * 6_000 + 10 * 2_500 + 20 * 10_000, 0, 'upstream'],
    ],
    ['seconds, if those are', 'acme/tokens', null, says({ text: 'Hi', usage: DURATION }), [900_000, 9_000, 'upstream']],
    ['at least the minimum', 'acme/groq', null, says({ text: 'Hi', x_groq: { id: 'r' } }), [111_100, 8_470, 'file', 1]],
    [
      "OpenRouter's own",
      'openrouter/whisper',
      null,
      says({ text: 'Hi', usage: { seconds: 8.47, cost: 0.00123 } }),
      [1_230_000, 8_470, 'upstream'],
    ],
    ['nothing for a local server', 'local/whisper', null, says({ text: 'Hi' }), [0, 8_470, 'file']],
    ['for silence, too', 'acme/whisper', null, says({ text: '', usage: DURATION }), [900_000, 9_000, 'upstream']],
  ]
  test('tokens by our count, if seconds without a price are reported', async () => {
    gateway.near.script(says({ text: 'Hi', usage: DURATION }))
    await (await post([['model', 'acme/tokens-only'], FILE])).text()
    // Nine seconds of ten tokens, and a word.
    expect(await row()).toMatchObject({ unpriced: 0, estimated: 1, cost_nano_usd: 90 * 6_000 + 10_000 })
  })

  test('only seconds, if they are reported and have a price, whatever the prompt', async () => {
    gateway.near.script(says({ text: 'Hi', usage: DURATION }))
    await (await post([['model', 'acme/tokens'], FILE, ['prompt', 'Names: Ann.']])).text()
    expect(await row()).toMatchObject({ unpriced: 0, estimated: 0, audio_ms: 9_000, cost_nano_usd: 900_000 })
  })

  test.each(CASES)('%s (%s, %s)', async (_, model, format, answer, [cost, ms, countedBy, estimated = 0]) => {
    gateway.near.script(answer)
    const response = await post([['model', model], FILE, ...(format ? [['response_format', format] as const] : [])])
    expect(response.status).toBe(200)
    const isText = typeof answer.body === 'string'
    expect(response.headers.get('content-type')).toContain(isText ? 'text/plain' : 'application/json')
    if (isText) expect(await response.text()).toBe(String(answer.body))
    else
      expect(await response.json()).toMatchObject({
        ...(answer.body as object),
        ...('model' in (answer.body as object) && { model }),
        usage: { cost_nano_usd: cost, cost: cost / 1e9 },
      })
    expect(await row()).toMatchObject({
      ...{
        endpoint: 'transcriptions',
        status: 'ok',
        cost_nano_usd: cost,
        audio_ms: ms,
        counted_by: countedBy,
        estimated,
      },
      unpriced: 0,
    })
  })

  test.each([1e14, -5, 0, Number.NaN, '1e400', 'x', null])(
    'the measured length, if %p seconds are reported',
    async (seconds) => {
      for (const body of [
        { text: 'Hi', usage: { type: 'duration', seconds } },
        { text: 'Hi', duration: seconds },
      ]) {
        gateway.near.script(says(body))
        expect((await post([['model', 'mistral/voxtral'], FILE])).status).toBe(200)
        expect(await row()).toMatchObject({ cost_nano_usd: 423_500, audio_ms: 8_470, counted_by: 'file' })
      }
    },
  )

  test("by a browser's recording, the frames under a false header, and the maximum for unknown bytes", async () => {
    const lying = toWav(5_000)
    lying.writeUInt32LE(8, 40)
    for (const [file, ms] of [
      [loadAudio('chromium.webm'), 1_980],
      [lying, 5_000],
      [Buffer.alloc(7_500), 10_000],
    ] as const) {
      await post([
        ['model', 'mistral/voxtral'],
        ['file', file],
      ])
      expect(await row()).toMatchObject({ audio_ms: ms, cost_nano_usd: ms * 50, estimated: 1 })
    }
  })

  test('reserved first, from budgets, and from token limits only if the model has tokens', async () => {
    const ask = (own: string, model: string) =>
      post(
        [
          ['model', model],
          ['file', toWav(2_000)],
        ],
        { own },
      )
    const poor = gateway.app.key({ budget: { nanoUsd: 100_000, period: 'month' } })
    const response = await ask(poor, 'acme/whisper')
    expect([response.status, (await response.text()).includes('insufficient_quota')]).toEqual([429, true])
    const slow = gateway.app.key({ tpm: 10 })
    expect((await ask(slow, 'acme/whisper')).status).toBe(200)
    expect(await row()).toMatchObject({ reserved_prompt_tokens: 0, reserved_completion_tokens: 0, prompt_tokens: 0 })
    expect((await ask(slow, 'acme/tokens')).status).toBe(429)
  })
})

describe('a stream', () => {
  const DONE = { type: 'transcript.text.done', text: 'Hi you', usage: { type: 'duration', seconds: 9 } }
  const ask = async (model = 'acme/whisper') => {
    const response = await post([['model', model], FILE, ['stream', 'true']])
    expect(response.headers.get('content-type')).toContain('text/event-stream')
    const frames = (await response.text()).split('\n\n').filter((frame) => frame.startsWith('data: '))
    return frames.map((frame) => JSON.parse(frame.slice(6)))
  }

  test('is passed on, and settled before its last event', async () => {
    const deltas = [
      { type: 'transcript.text.delta', delta: 'Hi ' },
      { type: 'transcript.text.delta', delta: 'you', logprobs: [] },
    ]
    gateway.near.script(streams(...deltas, DONE))
    const usage = { ...DONE.usage, cost_nano_usd: 900_000, cost: 0.0009 }
    expect(await ask()).toEqual([...deltas, { ...DONE, usage }])
    expect(await row()).toMatchObject({ status: 'ok', stream: 1, cost_nano_usd: 900_000, counted_by: 'upstream' })
  })

  test("has whole events even if its upstream's have several lines", async () => {
    gateway.near.script(streams('data: {"type": "transcript.text.delta",\ndata: "delta": "Hi you"}\n\n', DONE))
    const response = await post([['model', 'acme/whisper'], FILE, ['stream', 'true']])
    const [first = ''] = (await response.text()).split('\n\n')
    expect(first.split('\n')).toEqual(['data: {"type": "transcript.text.delta",', 'data: "delta": "Hi you"}'])
  })

  test("of vLLM or Mistral has OpenAI's events", async () => {
    const chunk = (content: string) => ({
      object: 'transcription.chunk',
      model: 'm',
      choices: [{ delta: { content } }],
    })
    gateway.near.script(streams(chunk('Hi '), chunk('you'), 'data: [DONE]\n\n'))
    expect(await ask()).toMatchObject([
      ...['Hi ', 'you'].map((delta) => ({ type: 'transcript.text.delta', delta })),
      { type: 'transcript.text.done', text: 'Hi you' },
    ])
    expect(await row()).toMatchObject({ status: 'ok', cost_nano_usd: 900_000, audio_ms: 8_470, counted_by: 'file' })
    const usage = { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6, prompt_audio_seconds: 9 }
    gateway.near.script(
      streams(
        { type: 'transcription.language', audio_language: 'en' },
        { type: 'transcription.text.delta', text: 'Hi you' },
        { type: 'transcription.done', model: 'voxtral-mini', text: 'Hi you', usage },
      ),
    )
    expect(await ask('mistral/voxtral')).toMatchObject([
      { type: 'transcript.text.delta', delta: 'Hi you' },
      { type: 'transcript.text.done', model: 'mistral/voxtral', text: 'Hi you', usage },
    ])
    expect(await row()).toMatchObject({ cost_nano_usd: 450_000, audio_ms: 9_000 })
  })

  test('with zeros for usage is charged as measured; a model that can’t stream is streamed whole', async () => {
    const zeros = { ...DONE, usage: undefined, token_usage: { input_tokens: 0, output_tokens: 0, total_tokens: 0 } }
    gateway.near.script(streams({ type: 'transcript.text.delta', delta: 'Hi you' }, zeros))
    await ask()
    expect(await row()).toMatchObject({ cost_nano_usd: 900_000, counted_by: 'file' })
    gateway.near.script(says({ text: 'Hi you', usage: DONE.usage }))
    expect(await ask()).toMatchObject([{ type: 'transcript.text.delta', delta: 'Hi you' }, DONE])
    expect(await row()).toMatchObject({ cost_nano_usd: 900_000, counted_by: 'upstream' })
  })

  test('that is interrupted is charged, and ends in an error', async () => {
    gateway.near.script(streams({ type: 'transcript.text.delta', delta: 'Hi you' }))
    expect((await ask()).at(-1)).toMatchObject({ type: 'error', error: { code: 'upstream_failed' } })
    expect(await row()).toMatchObject({ status: 'cut', cost_nano_usd: 900_000, audio_ms: 8_470 })
  })
})
