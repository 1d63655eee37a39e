/**
 * Replays recorded Anthropic transcripts, if they are next to the repository, and compares requests with the recorded
 * ones.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Usage } from '../../src/domain/usage.ts'
import { anthropic } from '../../src/upstreams/dialects/anthropic/anthropic.ts'
import { checkError, checkStream } from '../support/contract.ts'
import { inBytes, inPieces } from '../support/cuts.ts'
import { playStream, toShape } from '../support/transcript.ts'
import { type AnthropicGateway, startAnthropic } from './anthropic.ts'

const FOLDER = join(import.meta.dir, '../../../shared/data/transcripts/anthropic')
const isThere = existsSync(FOLDER)
const read = (file: string) => readFileSync(join(FOLDER, file), 'utf8')

/** Counted by hand: prompt, cache read, cache write, completion, reasoning. */
type Counts = [prompt: number, read: number, written: number, completion: number, thought: number]

interface Recorded {
  file: string
  usage: Counts
  /** Usage of other models within the call; the client gets the sums. */
  others?: [prompt: number, completion: number]
  finish: 'stop' | 'tool_calls'
  content: string | RegExp
  reasoning?: RegExp
  calls?: string[]
}

const STREAMS: Recorded[] = [
  // Two calls in one: 1128 + 1283 input, 135 + 10 output; the advisor's tokens belong to another model.
  {
    file: 'advisor-stream.sse',
    usage: [2411, 0, 0, 145, 47],
    others: [2543, 18],
    finish: 'stop',
    content: /finalizing\.The answer is \*\*4\*\*\.$/,
  },
  // Only the first of two calls reads from the cache.
  { file: 'compaction-cache-stream.sse', usage: [55377, 55096, 0, 91, 0], finish: 'stop', content: 'Hello! 👋' },
  {
    file: 'redacted-thinking-stream.sse',
    usage: [92, 0, 0, 189, 0],
    finish: 'stop',
    content: /^I notice.*question\?$/s,
  },
  {
    file: 'thinking-stream.sse',
    usage: [43, 0, 0, 282, 0],
    finish: 'stop',
    content: /./,
    reasoning: /^This is a straight/,
  },
  {
    file: 'web-fetch-stream.sse',
    usage: [7244, 0, 0, 153, 0],
    finish: 'stop',
    content: /^Pydantic AI/,
    reasoning: /web_fetch/,
  },
  // Counts of the last event replace those of the first: 6 + 3337 + 6289.
  {
    file: 'anthropic-code-execution-20260120-prompt-cache.1.chunks.jsonl',
    usage: [9632, 6289, 3337, 198, 0],
    finish: 'stop',
    content: /^The sum.*\*\*650\*\*\.$/,
  },
  {
    file: 'anthropic-json-output-format.1.chunks.jsonl',
    usage: [313, 0, 0, 305, 0],
    finish: 'stop',
    content: /^\{.*\}$/s,
  },
  { file: 'anthropic-mcp.1.chunks.jsonl', usage: [1250, 0, 0, 83, 0], finish: 'stop', content: /^The echo tool/ },
  {
    file: 'anthropic-tool-no-args.chunks.jsonl',
    usage: [565, 0, 0, 48, 0],
    finish: 'tool_calls',
    content: "I'll update the issue list for you.",
    calls: ['updateIssueList {}'],
  },
]

const WHOLES: Recorded[] = [
  { file: 'anthropic-compaction.1.json', usage: [61067, 0, 0, 1912, 0], finish: 'stop', content: /./ },
  { file: 'anthropic-json-output-format.1.json', usage: [371, 0, 0, 629, 0], finish: 'stop', content: /^\{"recipe"/ },
  {
    file: 'anthropic-tool-no-args.json',
    usage: [602, 0, 0, 93, 0],
    finish: 'tool_calls',
    content: /./,
    calls: ['updateIssueList {}'],
  },
  {
    file: 'anthropic-web-fetch-tool.error.json',
    usage: [1902, 0, 0, 214, 0],
    finish: 'stop',
    content: /^I'll fetch.*/s,
  },
  // Only one of two calls writes the 55,096 tokens.
  { file: 'compaction-cache.json', usage: [55425, 0, 55096, 136, 0], finish: 'stop', content: 'Hello!' },
]

/** Restores the framing of a recorded stream with one payload per line. */
function toBytes(file: string): Buffer {
  const text = read(file)
  if (file.endsWith('.sse')) return Buffer.from(text)
  const lines = text.split('\n').filter(Boolean)
  return Buffer.from(lines.map((line) => `event: ${JSON.parse(line).type}\ndata: ${line}\n\n`).join(''))
}

const countsOf = ({ prompt, cacheRead, cacheWrite, cacheWrite1h, completion, reasoning }: Usage): Counts => [
  ...([prompt, cacheRead, cacheWrite + cacheWrite1h, completion, reasoning] as const),
]

const SHAPE = toShape({ includeUsage: true })

test.if(isThere)('every recorded transcript is listed here', () => {
  const all: { file: string; kind: string }[] = JSON.parse(read('../MANIFEST.json'))
  const recorded = all.filter(({ file, kind }) => kind === 'recorded' && file.startsWith('anthropic/'))
  const answers = recorded
    .map(({ file }) => file.slice('anthropic/'.length))
    .filter((file) => !/request|error-/.test(file))
  expect(answers.toSorted()).toEqual([...STREAMS, ...WHOLES].map(({ file }) => file).toSorted())
})

describe.if(isThere)('a recorded stream', () => {
  let gateway: AnthropicGateway
  beforeAll(async () => {
    gateway = await startAnthropic()
  })
  afterAll(() => gateway.stop())

  for (const { file, usage, others: [read, wrote] = [0, 0], finish, content, reasoning, calls = [] } of STREAMS) {
    test(`${file} reaches a client complete, also byte by byte`, async () => {
      for (const bytesPerWrite of [undefined, 1]) {
        const rate = bytesPerWrite === undefined ? {} : { bytesPerWrite }
        gateway.upstream.script({ kind: 'stream', steps: [toBytes(file)], end: 'eof', ...rate })
        const report = await gateway.ask({ stream: true, stream_options: { include_usage: true } })
        const [choice] = report.choices
        expect(choice?.finish).toBe(finish)
        expect(choice?.content).toMatch(content)
        if (reasoning) expect(choice?.reasoning).toMatch(reasoning)
        expect(
          choice?.toolCalls.map(
            (call) => call.type === 'function' && `${call.function.name} ${call.function.arguments}`,
          ),
        ).toEqual(calls)
        const [prompt, cached, , completion, thought] = usage
        const told = { prompt: prompt + read, completion: completion + wrote }
        expect(report.usage).toEqual({ ...told, cached, reasoning: thought })
      }
      const bytes = toBytes(file)
      const whole = playStream([bytes], SHAPE, anthropic)
      expect(playStream(inBytes(bytes), SHAPE, anthropic)).toEqual(whole)
      expect(whole.usage && countsOf(whole.usage)).toEqual(usage)
    })

    test(`${file}, interrupted anywhere, is reported as interrupted`, () => {
      const bytes = toBytes(file)
      const end = bytes.lastIndexOf('}')
      const places = [...Array(120).keys()].map((at) => Math.floor((at * end) / 120))
      for (const place of [...places, ...[...Array(40).keys()].map((back) => end - back)]) {
        const [kept] = inPieces(bytes, [place])
        const played = playStream(kept ? [kept.subarray(0, place)] : [], SHAPE, anthropic)
        expect(played.failure?.message).toMatch(/before the response was complete|not JSON/)
        if (played.text.includes('"choices"'))
          expect(checkStream(played.text, { includeUsage: true }).error).not.toBeNull()
      }
    })
  }

  test('interrupted on its way is not a complete response', async () => {
    for (const { file } of STREAMS) {
      const bytes = toBytes(file)
      for (const part of [0.1, 0.5, 0.9, 0.99]) {
        const piece = bytes.subarray(0, Math.floor(bytes.length * part))
        gateway.upstream.script({ kind: 'stream', steps: [piece], end: part < 0.5 ? 'eof' : 'cut' })
        const response = await gateway.post({ stream: true })
        const text = await response.text()
        if (response.status === 200) expect(checkStream(text).error).toMatchObject({ code: 'upstream_failed' })
        else expect(checkError(response.status, response.headers, text)).toMatchObject({ code: 'upstream_failed' })
        gateway.app.pass(60_000)
      }
    }
  })

  test.each(WHOLES)('a recorded response: $file', async ({ file, usage, finish, content, calls = [] }) => {
    gateway.upstream.script({ kind: 'whole', body: JSON.parse(read(file)) })
    const report = await gateway.ask()
    const [choice] = report.choices
    expect(choice?.finish).toBe(finish)
    expect(choice?.content).toMatch(content)
    expect(choice?.toolCalls.map((call) => call.type === 'function' && call.function.name)).toEqual(
      calls.map((call) => call.split(' ')[0] ?? ''),
    )
    const [prompt, cached, , completion, thought] = usage
    expect(report.usage).toEqual({ prompt, cached, completion, reasoning: thought })
  })

  test('recorded errors keep their meaning', async () => {
    gateway.upstream.script({ kind: 'whole', status: 400, body: JSON.parse(read('error-400.json')) })
    expect(await gateway.refused({})).toMatchObject({
      status: 400,
      code: 'unsupported_value',
      message: expect.stringContaining("does not support effort level 'xhigh'"),
    })
    gateway.upstream.script({ kind: 'whole', status: 404, body: JSON.parse(read('error-404.json')) })
    expect(await gateway.refused({})).toMatchObject({ status: 502, code: 'upstream_failed' })
  })
})

describe.if(isThere)('the request of a recorded response', () => {
  let gateway: AnthropicGateway
  beforeAll(async () => {
    gateway = await startAnthropic()
    gateway.upstream.script({ kind: 'whole', body: JSON.parse(read('compaction-cache.json')) })
  })
  afterAll(() => gateway.stop())

  /** A chat client's equivalent of the recorded request, and fields that differ for a reason. */
  const ASKED: { file: string; body: Record<string, unknown>; differs: Record<string, string> }[] = [
    {
      file: 'thinking-stream',
      body: { model: 'anthropic/budget', reasoning_effort: 'low' },
      differs: {},
    },
    {
      file: 'redacted-thinking-stream',
      body: { model: 'anthropic/budget', reasoning: { max_tokens: 1024 } },
      differs: {},
    },
    {
      file: 'web-fetch-stream',
      body: { model: 'anthropic/budget', reasoning: { max_tokens: 3000 } },
      differs: {
        tools: 'chat has no words for a tool that fetches pages at the provider',
        tool_choice: 'there is nothing to choose from without it',
      },
    },
    {
      file: 'advisor-stream',
      body: { model: 'anthropic/plain' },
      differs: { tools: 'chat has no words for an advisor' },
    },
    {
      file: 'error-400',
      body: { model: 'anthropic/adaptive', reasoning_effort: 'xhigh' },
      differs: {
        output_config: 'the effort becomes one that every model knows, so that this error does not come',
        thinking: 'a client that asks for an effort wants to read what is thought',
      },
    },
  ]

  test.each(ASKED)('$file is what Tollgate sends', async ({ file, body, differs }) => {
    const recorded: Record<string, unknown> = JSON.parse(read(`${file}.request.json`))
    const { messages, max_tokens, stream } = recorded as { messages: unknown; max_tokens: number; stream: boolean }
    await (await gateway.post({ ...body, messages, max_tokens, ...(stream ? { stream } : {}) })).text()
    const sent = gateway.sent()
    expect(sent.model).toMatch(/^claude-/)
    const names = new Set([...Object.keys(recorded), ...Object.keys(sent)])
    names.delete('model')
    if (recorded.stream === false) names.delete('stream')
    const different = [...names].filter((name) => !Bun.deepEquals(recorded[name], sent[name]))
    expect(different.toSorted()).toEqual(Object.keys(differs).toSorted())
  })
})
