/**
 * Recorded Gemini traffic: whole, byte by byte and cut anywhere; Tollgate's requests are compared with the recorded
 * ones. Skipped without the recordings next to the repository.
 */
import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseJson } from '../../src/domain/json.ts'
import { checkError, checkStream } from '../support/contract.ts'
import { isObject, type Json } from '../support/contract-parts.ts'
import { inPieces } from '../support/cuts.ts'
import { forAllTests } from '../support/lifetime.ts'
import { differ } from '../support/recordings.ts'
import type { Behaviour } from '../support/upstream-answers.ts'
import { startGemini } from './gemini-gateway.ts'

const FOLDER = join(import.meta.dir, '../../../shared/data/transcripts/gemini')
const has = existsSync(FOLDER)
const read = (name: string) => readFileSync(join(FOLDER, name), 'utf8')

interface Recording {
  file: string
  content?: string | RegExp
  reasoning?: RegExp
  /** By name and arguments. */
  calls?: [name: string, args: object][]
  usage: { prompt: number; cached?: number; completion: number; reasoning: number }
  signed: boolean
}

/** Nano-dollars per token: 1,000 read, 100 cached, 2,000 written. */
const RECORDINGS: Recording[] = [
  {
    file: 'tool-call-signature-stream-0.sse',
    calls: [['get_country', {}]],
    usage: { prompt: 29, completion: 212, reasoning: 202 },
    signed: true,
  },
  {
    file: 'tool-call-signature-stream-1.sse',
    content: 'The capital of Mexico is Mexico City.',
    // The first chunks say 55.
    usage: { prompt: 257, completion: 8, reasoning: 0 },
    signed: false,
  },
  {
    file: 'json-schema-with-tools-stream-0.sse',
    calls: [['get_user_country', {}]],
    usage: { prompt: 29, completion: 81, reasoning: 69 },
    signed: true,
  },
  {
    file: 'json-schema-with-tools-stream-1.sse',
    content: '{\n  "city": "Mexico City",\n  "country": "Mexico"\n} ',
    usage: { prompt: 128, completion: 51, reasoning: 30 },
    signed: true,
  },
  {
    file: 'vertex-flex-stream.sse',
    content: 'OK',
    usage: { prompt: 5, completion: 101, reasoning: 100 },
    signed: true,
  },
  {
    file: 'google-reasoning-gemini3.chunks.jsonl',
    content: 'There are **3** "r"s in strawberry.\n\nSt**r**awbe**rr**y',
    usage: { prompt: 9, completion: 325, reasoning: 302 },
    signed: true,
  },
  {
    file: 'google-tool-call-gemini3.chunks.jsonl',
    calls: [['weather', { location: 'San Francisco' }]],
    usage: { prompt: 29, completion: 819, reasoning: 804 },
    signed: true,
  },
  {
    file: 'google-stream-no-args-tool-call.chunks.jsonl',
    reasoning: /^\*\*Processing User Requests\*\*/,
    calls: [
      ['read_theme', {}],
      ['read_screen', { id: 'A' }],
      ['read_screen', { id: 'B' }],
      ['read_screen', { id: 'C' }],
    ],
    usage: { prompt: 249, completion: 241, reasoning: 183 },
    signed: true,
  },
  {
    file: 'google-stream-tool-call-arguments.chunks.jsonl',
    calls: [
      ['getWeather', { location: 'Boston' }],
      ['getWeather', { location: 'San Francisco' }],
    ],
    usage: { prompt: 26, completion: 155, reasoning: 132 },
    signed: true,
  },
  {
    file: 'explicit-cache.json',
    content: 'Paris.',
    usage: { prompt: 3_520, cached: 3_512, completion: 44, reasoning: 42 },
    signed: false,
  },
  {
    file: 'google-reasoning-gemini3.json',
    content: /^There are \*\*3\*\* "r"s in strawberry\./,
    usage: { prompt: 9, completion: 287, reasoning: 258 },
    signed: true,
  },
  {
    file: 'google-tool-call-gemini3.json',
    calls: [['weather', { location: 'San Francisco' }]],
    usage: { prompt: 29, completion: 1_816, reasoning: 1_801 },
    signed: true,
  },
]

/** Restores the framing of payloads recorded without it. */
function toBytes(file: string): Buffer {
  const text = read(file)
  if (!file.endsWith('.jsonl')) return Buffer.from(text)
  const lines = text.split('\n').filter((line) => line !== '')
  return Buffer.from(lines.map((line) => `data: ${line}\r\n\r\n`).join(''))
}

const isStream = (file: string) => !file.endsWith('.json')

describe.skipIf(!has)('a recorded response of Google', () => {
  const gateway = forAllTests(() => startGemini(() => ({ kind: 'reset' }), { upstream: ', pass: [cached_content]' }))

  const ask = async (behaviour: Behaviour, stream: boolean) => {
    gateway.app.pass(24 * 60 * 60_000)
    gateway.upstream.script(behaviour)
    const body = { messages: [{ role: 'user', content: 'Go' }], stream }
    return gateway.ask({ ...body, ...(stream ? { stream_options: { include_usage: true } } : {}) })
  }

  const expectAll = ({ choices, usage, message }: Awaited<ReturnType<typeof ask>>, recording: Recording) => {
    const { content = '', reasoning = /^$/, calls = [], signed } = recording
    const [choice] = choices
    if (typeof content === 'string') expect(choice?.content).toBe(content)
    else expect(choice?.content).toMatch(content)
    expect(choice?.reasoning).toMatch(reasoning)
    expect(
      choice?.toolCalls.map(
        (call) => call.type === 'function' && [call.function.name, JSON.parse(call.function.arguments)],
      ),
    ).toEqual(calls)
    expect(choice?.finish).toBe(calls.length > 0 ? 'tool_calls' : 'stop')
    expect(usage).toEqual({ cached: 0, ...recording.usage })
    expect(JSON.stringify(message).includes('google-gemini-v1')).toBe(signed)
  }

  for (const recording of RECORDINGS) {
    const { file } = recording
    test(`${file} is read to its end, and costs its price`, async () => {
      const before = await gateway.app.count()
      const body = isStream(file) ? null : parseJson(read(file))
      const whole: Behaviour = body ? { kind: 'whole', body } : { kind: 'stream', steps: [toBytes(file)], end: 'eof' }
      expectAll(await ask(whole, isStream(file)), recording)
      const { prompt, cached = 0, completion } = recording.usage
      expect((await gateway.app.settled(before + 1)).at(-1)).toMatchObject({
        status: 'ok',
        estimated: 0,
        cost_nano_usd: (prompt - cached) * 1_000 + cached * 100 + completion * 2_000,
      })
    })

    if (!isStream(file)) continue
    test(`${file} is the same byte by byte, and reported as interrupted anywhere`, async () => {
      const bytes = toBytes(file)
      expectAll(await ask({ kind: 'stream', steps: [bytes], end: 'eof', bytesPerWrite: 1 }, true), recording)
      const last = bytes.lastIndexOf('"finishReason"')
      const places = Array.from({ length: 40 }, (_, at) => Math.floor((bytes.length * (at + 1)) / 41))
      for (const place of places) {
        expectAll(await ask({ kind: 'stream', steps: inPieces(bytes, [place]), end: 'eof' }, true), recording)
        if (place >= last) continue
        gateway.app.pass(24 * 60 * 60_000)
        gateway.upstream.script({ kind: 'stream', steps: [bytes.subarray(0, place)], end: 'eof' })
        const response = await gateway.post({ messages: [{ role: 'user', content: 'Go' }], stream: true })
        const text = await response.text()
        if (response.status !== 200) checkError(response.status, response.headers, text)
        else expect(checkStream(text).error).toMatchObject({ code: 'upstream_failed' })
      }
    })
  }

  test('no recording is left out', () => {
    const manifest: { file: string; kind: string }[] = JSON.parse(
      readFileSync(join(FOLDER, '../MANIFEST.json'), 'utf8'),
    )
    const answers = manifest
      .filter(({ file, kind }) => file.startsWith('gemini/') && kind === 'recorded' && !file.endsWith('.request.json'))
      .map(({ file }) => file.slice('gemini/'.length))
      // It holds an answer of Google's token endpoint, not of a model.
      .filter((file) => file !== 'prompt-blocked.json')
    expect(answers.toSorted()).toEqual(RECORDINGS.map(({ file }) => file).toSorted())
  })

  test('an exceeded quota has a retry time', async () => {
    gateway.app.pass(24 * 60 * 60_000)
    gateway.upstream.script({ kind: 'whole', status: 429, body: parseJson(read('google-429-retry-info.json')) })
    const error = await gateway.fail({ messages: [{ role: 'user', content: 'Go' }] })
    expect(error).toMatchObject({ status: 429, code: 'upstream_rate_limited' })
    expect(error.headers.get('retry-after')).toBe('35')
  })

  const tool = (name: string) => [
    {
      type: 'function',
      function: { name, description: '', parameters: { type: 'object', properties: {}, additionalProperties: false } },
    },
  ]
  const capital = { role: 'user', content: 'What is the capital of the user country? Call the tool' }
  const city = { role: 'user', content: 'What is the largest city in the user country?' }
  const CityLocation = {
    title: 'CityLocation',
    type: 'object',
    properties: { city: { type: 'string' }, country: { type: 'string' } },
    required: ['city', 'country'],
  }
  const asCity = {
    response_format: { type: 'json_schema', json_schema: { name: 'CityLocation', schema: CityLocation } },
  }

  const ALWAYS = {
    'generationConfig.responseModalities': 'text is what the model answers by itself',
    'generationConfig.thinkingConfig': 'thoughts are shown to clients, which costs nothing more',
  }
  const OF_TOOLS = {
    'tools.0.functionDeclarations.0.description': 'an empty description says nothing',
    'tools.0.functionDeclarations.0.parameters_json_schema': 'a function without arguments has no schema',
  }
  const OF_RESULTS = {
    'contents.2.parts.0.functionResponse.response.return_value': "its client's name of what a function says",
    'contents.2.parts.0.functionResponse.response.output': "Google's name of it",
  }

  test.each([
    {
      file: 'tool-call-signature-stream-0',
      asked: { messages: [capital], tools: tool('get_country') },
      differences: { ...ALWAYS, ...OF_TOOLS },
    },
    {
      file: 'tool-call-signature-stream-1',
      after: 'tool-call-signature-stream-0.sse',
      asked: { messages: [capital], tools: tool('get_country') },
      differences: {
        ...ALWAYS,
        ...OF_TOOLS,
        ...OF_RESULTS,
        'contents.1.parts.0.functionCall.id': 'the answer had none, and each client makes its own',
        'contents.2.parts.0.functionResponse.id': 'the answer had none, and each client makes its own',
      },
    },
    {
      file: 'json-schema-with-tools-stream-0',
      asked: { messages: [city], tools: tool('get_user_country'), ...asCity },
      differences: { ...ALWAYS, ...OF_TOOLS },
    },
    {
      file: 'json-schema-with-tools-stream-1',
      after: 'json-schema-with-tools-stream-0.sse',
      asked: { messages: [city], tools: tool('get_user_country'), ...asCity },
      differences: { ...ALWAYS, ...OF_TOOLS, ...OF_RESULTS },
    },
    {
      file: 'explicit-cache',
      asked: {
        messages: [{ role: 'user', content: 'What is the capital of France?' }],
        cached_content: 'cachedContents/7lf5him5ev4iemi1yjv2gwli5bhpz3yidzejwllo',
      },
      differences: ALWAYS,
    },
    {
      file: 'vertex-flex-stream',
      asked: { messages: [{ role: 'user', content: 'Reply with exactly: OK' }] },
      differences: ALWAYS,
    },
  ])(
    'what was sent for $file is what Tollgate sends, but for what has a reason',
    async ({ file, asked, after, differences }) => {
      const messages: Record<string, unknown>[] = [...asked.messages]
      if (after) {
        gateway.upstream.script({ kind: 'stream', steps: [toBytes(after)], end: 'eof' })
        const { message, choices } = await gateway.ask({ ...asked, stream: true })
        const id = choices[0]?.toolCalls[0]?.id
        messages.push(message, { role: 'tool', tool_call_id: id, content: 'Mexico' })
      }
      gateway.upstream.script({ kind: 'stream', steps: [toBytes('vertex-flex-stream.sse')], end: 'eof' })
      await gateway.ask({ ...asked, messages, stream: true })
      const sent = gateway.upstream.requests.at(-1)?.json as Json
      const recorded = JSON.parse(read(`${file}.request.json`))
      expect([...differ(toPlain(sent), toPlain(recorded))].sort()).toEqual(Object.keys(differences).sort())
    },
  )
})

/** A server treats both base64 alphabets alike. */
function toPlain(value: Json): Json {
  if (typeof value === 'string') return value.length > 100 ? value.replaceAll('-', '+').replaceAll('_', '/') : value
  if (Array.isArray(value)) return value.map(toPlain)
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, held]) => [name, toPlain(held ?? null)]))
}
