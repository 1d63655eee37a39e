/**
 * Recorded traffic of OpenAI-format providers with their presets: whole, byte by byte, and interrupted anywhere; Tollgate's requests are
 * compared with the recorded ones. Skipped without the recordings next to the repository.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { parseJson } from '../../src/domain/json.ts'
import { startApp, type TestApp } from '../support/app.ts'
import { checkError, checkStream, checkWhole, type Report } from '../support/contract.ts'
import type { Json } from '../support/contract-parts.ts'
import { inPieces } from '../support/cuts.ts'
import { differ, hasRecordings, listRecorded, readRecording, toStreamBytes } from '../support/recordings.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import type { Behaviour } from '../support/upstream-answers.ts'

interface Recording {
  file: string
  content?: string | RegExp
  reasoning?: RegExp
  calls?: [name: string, args: object][]
  /** Parts are included in their total, however the provider counts. */
  usage: { prompt: number; cached?: number; completion: number; reasoning?: number }
  /** The provider's own cost. Otherwise nano-dollars per token: 1,000 read, 100 cached, 2,000 written. */
  nanoUsd?: number
}

const RECORDINGS: Recording[] = [
  { file: 'openai/prompt-cache-read.json', content: 'OK', usage: { prompt: 4_020, cached: 4_012, completion: 4 } },
  { file: 'openai/prompt-cache-write.json', content: 'OK', usage: { prompt: 4_020, completion: 4 } },
  {
    file: 'groq/groq-reasoning.json',
    content: /^The word "strawberry" contains \*\*3\*\*/,
    reasoning: /^Okay, so the user is asking/,
    usage: { prompt: 17, completion: 649, reasoning: 570 },
  },
  { file: 'groq/groq-tool-call.chunks.jsonl', calls: [['weather', {}]], usage: { prompt: 210, completion: 15 } },
  {
    file: 'groq/tool-use-failed-stream.sse',
    reasoning: /\.$/,
    calls: [['get_something_by_name', { name: 'example' }]],
    usage: { prompt: 304, completion: 49, reasoning: 23 },
  },
  {
    file: 'mistral/mistral-reasoning.json',
    content: '2 + 2 = 4',
    reasoning: /^The user is asking for 2\+2\. This is basic arithmetic\. 2\+2=4\.$/,
    usage: { prompt: 10, completion: 46 },
  },
  {
    file: 'mistral/mistral-incremental-tool-call.chunks.jsonl',
    calls: [['webSearchTool', { query: 'current Berlin weather' }]],
    usage: { prompt: 171, cached: 128, completion: 14 },
  },
  {
    file: 'cerebras/reasoning.json',
    content: '25 * 4 = 100.',
    reasoning: /^The user wants me to solve/,
    usage: { prompt: 17, completion: 415, reasoning: 406 },
  },
  {
    file: 'moonshot/moonshotai-reasoning.json',
    content: 'There are three.',
    reasoning: /^Let me count the letters carefully\.$/,
    usage: { prompt: 20, cached: 10, completion: 30, reasoning: 22 },
  },
  {
    file: 'moonshot/moonshotai-stream.chunks.jsonl',
    content: 'Hello!',
    reasoning: /^Thinking aloud\. $/,
    usage: { prompt: 9, completion: 12, reasoning: 7 },
  },
  {
    file: 'qwen/alibaba-reasoning.json',
    content: /3/,
    reasoning: /strawberry/,
    usage: { prompt: 24, completion: 1_668, reasoning: 1_353 },
  },
  {
    file: 'qwen/alibaba-tool-call.chunks.jsonl',
    calls: [['weather', { location: 'San Francisco' }]],
    usage: { prompt: 295, completion: 22 },
  },
  // Reasoning is not part of the completion here: 12 + 1 + 228 = 241.
  {
    file: 'xai/xai-text.json',
    content: 'Hello',
    reasoning: /^First, the user said/,
    usage: { prompt: 12, cached: 2, completion: 229, reasoning: 228 },
    nanoUsd: 117_650,
  },
  {
    file: 'xai/xai-text.chunks.jsonl',
    content: 'Hello',
    reasoning: /user said$/,
    usage: { prompt: 12, cached: 11, completion: 291, reasoning: 290 },
    nanoUsd: 146_625,
  },
  {
    file: 'openrouter/web-search-stream.sse',
    content: /github\.com\/pydantic/,
    usage: { prompt: 8_174, completion: 30 },
    nanoUsd: 13_317_600,
  },
  {
    file: 'openrouter/advisor-stream.sse',
    content: /\./,
    usage: { prompt: 888, completion: 74 },
    nanoUsd: 14_547_600,
  },
]

/** Refusals, at once or mid-stream. */
const FAILURES = ['groq/tool-use-failed.json', 'openrouter/stream-error.sse']

/** Formats other than chat completions. */
const OTHERS = /^(anthropic|gemini|responses|bedrock|bedrock-mantle|azure|cohere)\/|\.request\.json$/

const PRESETS = ['openai', 'groq', 'mistral', 'cerebras', 'moonshot', 'qwen', 'xai', 'openrouter']
const FACTS =
  'name: M, context_length: 1000000, max_output_length: 10000, input_modalities: [text], output_modalities: [text], supported_features: [tools, reasoning], pricing: [{ prompt: "0.000001", completion: "0.000002", input_cache_read: "0.0000001" }]'

const isStream = (file: string) => !file.endsWith('.json')
const presetOf = (file: string) => file.slice(0, file.indexOf('/'))

describe.skipIf(!hasRecordings)("a provider's recorded response", () => {
  let app: TestApp
  let upstream: ScriptedUpstream
  let key: string
  beforeAll(async () => {
    upstream = await startUpstream()
    const entries = PRESETS.map(
      (name) => `  ${name}: { preset: ${name}, base_url: "${upstream.url}", api_key: \${KEY} }`,
    )
    const models = PRESETS.map((name) => `  its/${name}: { ${FACTS}, routes: [{ upstream: ${name}, model: m }] }`)
    const catalog = `version: 1\nupstreams:\n${entries.join('\n')}\nmodels:\n${models.join('\n')}\n`
    app = await startApp({ catalog, environment: { KEY: 'the-key-of-a-provider-0123456789' } })
    key = app.key()
  })
  afterAll(async () => {
    await upstream.stop()
    await app.stop()
  })

  const post = (behaviour: Behaviour, file: string, asked: object = {}) => {
    app.pass(24 * 60 * 60_000)
    upstream.script(behaviour)
    const stream = isStream(file) ? { stream: true, stream_options: { include_usage: true } } : {}
    const messages = [{ role: 'user', content: 'Go' }]
    return fetch(`${app.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ messages, ...stream, ...asked, model: `its/${presetOf(file)}` }),
    })
  }

  const ask = async (behaviour: Behaviour, file: string): Promise<Report> => {
    const response = await post(behaviour, file)
    const text = await response.text()
    if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
    return isStream(file) ? checkStream(text, { includeUsage: true }) : checkWhole(text)
  }

  const expectAll = ({ choices: [choice], usage }: Report, recording: Recording) => {
    const { content = '', reasoning = /^$/, calls = [] } = recording
    if (typeof content === 'string') expect(choice?.content).toBe(content)
    else expect(choice?.content).toMatch(content)
    expect(choice?.reasoning).toMatch(reasoning)
    const called = choice?.toolCalls.map(
      (call) => call.type === 'function' && [call.function.name, JSON.parse(call.function.arguments)],
    )
    expect(called).toEqual(calls)
    expect(choice?.finish).toBe(calls.length > 0 ? 'tool_calls' : 'stop')
    expect(usage).toEqual({ cached: 0, reasoning: 0, ...recording.usage })
  }

  const toBehaviour = (file: string): Behaviour =>
    isStream(file)
      ? { kind: 'stream', steps: [toStreamBytes(file)], end: 'eof' }
      : { kind: 'whole', body: parseJson(readRecording(file)) }

  for (const recording of RECORDINGS) {
    const { file } = recording
    test(`${file} is read to its end, and costs its price`, async () => {
      const before = await app.count()
      expectAll(await ask(toBehaviour(file), file), recording)
      const { prompt, cached = 0, completion } = recording.usage
      const byPrices = (prompt - cached) * 1_000 + cached * 100 + completion * 2_000
      expect((await app.settled(before + 1)).at(-1)).toMatchObject({
        ...{ status: 'ok', estimated: 0, cost_nano_usd: recording.nanoUsd ?? byPrices },
        reported_nano_usd: recording.nanoUsd ?? null,
      })
    })

    if (!isStream(file)) continue
    test(`${file} is the same byte by byte, and reported as interrupted anywhere`, async () => {
      const bytes = toStreamBytes(file)
      expectAll(await ask({ kind: 'stream', steps: [bytes], end: 'eof', bytesPerWrite: 1 }, file), recording)
      const last = bytes.toString('latin1').search(/"finish_reason":\s*"/)
      for (const part of Array.from({ length: 30 }, (_, at) => (at + 1) / 31)) {
        const place = Math.floor(bytes.length * part)
        expectAll(await ask({ kind: 'stream', steps: inPieces(bytes, [place]), end: 'eof' }, file), recording)
        if (place >= last) continue
        const response = await post({ kind: 'stream', steps: [bytes.subarray(0, place)], end: 'eof' }, file)
        const text = await response.text()
        if (response.status !== 200) checkError(response.status, response.headers, text)
        else expect(checkStream(text, { includeUsage: true }).error).toMatchObject({ code: 'upstream_failed' })
      }
    })
  }

  test("has Groq's error text for a failed tool call", async () => {
    const body = parseJson(readRecording('groq/tool-use-failed.json'))
    const response = await post({ kind: 'whole', status: 400, body }, 'groq/tool-use-failed.json')
    const error = checkError(response.status, response.headers, await response.text())
    expect([response.status, error.code]).toEqual([400, 'tool_use_failed'])
    expect(error.message).toMatch(/parameters for tool get_something_by_name did not match schema/)
  })

  test('of OpenRouter with an error after a finish reason is an error', async () => {
    const response = await post(toBehaviour('openrouter/stream-error.sse'), 'openrouter/stream-error.sse')
    const { error } = checkStream(await response.text(), { includeUsage: true })
    expect(error?.message).toMatch(/Token limit reached/)
  })

  test('is listed for each of these providers', () => {
    const files = listRecorded().filter((file) => !OTHERS.test(file))
    expect(files.toSorted()).toEqual([...RECORDINGS.map(({ file }) => file), ...FAILURES].toSorted())
  })

  const ALWAYS = { model: 'its own name of the model, by the route' }
  const ONE = { n: 'one is what it writes by itself' }
  const USAGE = { stream_options: 'usage is always asked for, to bill by it' }
  test.each<{ file: string; differences: Record<string, string> }>([
    { file: 'openai/prompt-cache-read', differences: {} },
    { file: 'openai/prompt-cache-write', differences: {} },
    { file: 'groq/tool-use-failed', differences: ONE },
    { file: 'groq/tool-use-failed-stream', differences: { ...ONE, ...USAGE } },
    { file: 'cerebras/reasoning', differences: {} },
    { file: 'openrouter/stream-error', differences: {} },
  ])(
    "for $file is a response to Tollgate's request, except for documented differences",
    async ({ file, differences }) => {
      const recorded = JSON.parse(readRecording(`${file}.request.json`))
      const answer = recorded.stream ? 'qwen/alibaba-tool-call.chunks.jsonl' : 'cerebras/reasoning.json'
      const response = await post(toBehaviour(answer), `${file}.json`, recorded)
      expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
      const sent = upstream.requests.at(-1)?.json as Json
      expect([...differ(sent, recorded)].toSorted()).toEqual(Object.keys({ ...ALWAYS, ...differences }).toSorted())
    },
  )

  test.each(['openrouter/web-search-stream', 'openrouter/advisor-stream'])(
    'with tools that only OpenRouter knows is rejected with their path, for %s',
    async (file) => {
      const response = await post({ kind: 'reset' }, file, JSON.parse(readRecording(`${file}.request.json`)))
      const error = checkError(response.status, response.headers, await response.text())
      expect([response.status, error.param]).toEqual([400, expect.stringMatching(/^tools\[0\]/)])
    },
  )
})
