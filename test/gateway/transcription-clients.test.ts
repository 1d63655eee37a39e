/** Transcriptions requested by the official clients and other programs, byte for byte. */
import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { transcribe } from 'ai'
import OpenAI, { BadRequestError } from 'openai'
import { fromForm, toForm, toWav } from '../support/audio-forms.ts'
import { forAllTests } from '../support/lifetime.ts'
import { startTranscriptions } from '../support/transcription-gateway.ts'
import type { Seen } from '../support/upstream.ts'
import { type Behaviour, errorAnswer, type Whole } from '../support/upstream-answers.ts'

const gateway = forAllTests(startTranscriptions)
const WAV = toWav(1_000)
const USAGE = { type: 'duration', seconds: 1 }
let key = ''
let client: OpenAI

beforeAll(() => {
  globalThis.AI_SDK_LOG_WARNINGS = false
  key = gateway.app.key()
  client = new OpenAI({ baseURL: gateway.app.baseUrl, apiKey: key, maxRetries: 0 })
})
beforeEach(() => gateway.near.script(strict))

const FORMATS: Readonly<Record<string, unknown>> = {
  json: { text: 'Hello.', usage: USAGE },
  verbose_json: {
    task: 'transcribe',
    language: 'english',
    duration: 1,
    text: 'Hello.',
    segments: [],
    words: [],
    usage: USAGE,
  },
}

/** Like OpenAI, rejects unknown fields. */
function strict({ bytes, headers, path }: Seen): Behaviour {
  const form = fromForm(bytes, headers['content-type'] ?? '')
  const known =
    /^(?:file|model|language|prompt|response_format|temperature|stream|(?:timestamp_granularities|include)\[\])$/
  const unknown = Object.keys(form).find((name) => !known.test(name))
  if (unknown) return errorAnswer(400, `Unknown parameter: '${unknown}'.`)
  if (form.model?.[0] !== 'whisper-up') return errorAnswer(404, 'The model does not exist')
  if (form.file?.[0]?.length !== WAV.toString('utf8').length) return errorAnswer(400, 'Invalid file')
  if (path.endsWith('/translations') && (form.language || form.stream)) return errorAnswer(400, 'Unknown parameter')
  const steps = [
    { type: 'transcript.text.delta', delta: 'Hello.' },
    { type: 'transcript.text.done', text: 'Hello.', usage: USAGE },
  ]
  if (form.stream?.[0] === 'true') return { kind: 'stream', steps, end: 'eof' }
  const format = form.response_format?.[0] ?? 'json'
  const answer: Whole = { kind: 'whole', body: FORMATS[format] ?? 'Hello.\n' }
  return format in FORMATS ? answer : { ...answer, headers: { 'content-type': 'text/plain; charset=utf-8' } }
}

const file = () => new File([new Uint8Array(WAV)], 'hello.wav', { type: 'audio/wav' })

describe("OpenAI's client", () => {
  test('gets a transcription, a translation, and each format', async () => {
    const model = 'whisper-1'
    const { transcriptions, translations } = client.audio
    expect(await transcriptions.create({ model, file: file(), include: ['logprobs'] })).toMatchObject({
      text: 'Hello.',
      usage: USAGE,
    })
    expect(await transcriptions.create({ model, file: file(), response_format: 'text' })).toBe('Hello.\n' as never)
    const verbose = await transcriptions.create({
      model,
      file: file(),
      response_format: 'verbose_json',
      timestamp_granularities: ['word', 'segment'],
    })
    expect(verbose).toMatchObject({ duration: 1, text: 'Hello.' })
    expect(await translations.create({ model, file: file() })).toMatchObject({ text: 'Hello.' })
    expect(new Set((await gateway.app.settled(4)).map((row) => row.cost_nano_usd))).toEqual(new Set([100_000]))
  })

  test('gets a stream, and errors as its own classes', async () => {
    const stream = await client.audio.transcriptions.create({ model: 'whisper-1', file: file(), stream: true })
    const events = await Array.fromAsync(stream)
    expect(events.map(({ type }) => type)).toEqual(['transcript.text.delta', 'transcript.text.done'])
    const wrong = client.audio.transcriptions.create({ model: 'whisper-1', file: file(), keywords: ['x'] })
    expect(await wrong.catch((error) => error)).toBeInstanceOf(BadRequestError)
  })
})

test("the AI SDK's `transcribe` works with an alias and with an ID", async () => {
  const provider = createOpenAI({ baseURL: gateway.app.baseUrl, apiKey: key })
  for (const id of ['whisper-1', 'acme/whisper']) {
    const { text } = await transcribe({ model: provider.transcription(id), audio: new Uint8Array(WAV), maxRetries: 0 })
    expect(text).toBe('Hello.')
  }
})

/** Parameters and headers after the file name, in the order in which programs send their fields. */
const PROGRAMS = {
  'Open WebUI': [
    ['model', 'whisper-1'],
    ['language', 'en'],
    ['file', WAV, '; filename="7f1c.wav"'],
  ],
  LibreChat: [
    ['file', WAV, '; filename="audio.wav"\r\nContent-Type: audio/wav'],
    ['model', 'whisper-1'],
    ['language', 'de'],
  ],
  'Home Assistant': [
    ['file', WAV, '; filename="a.wav"\r\nContent-Type: audio/wav'],
    ['model', 'whisper-1'],
    ['prompt', ''],
    ['response_format', 'json'],
  ],
  n8n: [
    ['model', 'whisper-1'],
    ['file', WAV, '; filename="data.wav"\r\nContent-Type: audio/wav\r\nContent-Length: 32044'],
  ],
  Dify: [
    ['model', 'whisper-1'],
    ['language', 'en'],
    ['prompt', 'convert the audio to text'],
    ['file', WAV, '; filename="temp.wav"\r\nContent-Type: application/octet-stream'],
  ],
} as const

test.each(Object.entries(PROGRAMS))('%s gets a transcription', async (_, fields) => {
  const response = await fetch(`${gateway.app.baseUrl}/audio/transcriptions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'multipart/form-data; boundary=----tollgate' },
    body: toForm(fields),
  })
  expect([response.status, await response.json()]).toMatchObject([200, FORMATS.json])
})
