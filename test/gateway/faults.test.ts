/**
 * Broken upstreams: bytes that aren't HTTP, JSON, or gzip, and interrupted or endless responses. Errors are plain and the ledger
 * is exact.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { toFrames } from '../support/frames.ts'
import { HELLO_COUNTED } from '../support/gateway.ts'
import { expectEnvelope } from '../support/scenario.ts'
import { endWell, type Several, startSeveral } from '../support/several-upstreams.ts'
import type { Script } from '../support/upstream.ts'
import { type Behaviour, streamAnswer } from '../support/upstream-answers.ts'

let several: Several
let rows = 0
beforeAll(async () => {
  several = await startSeveral({
    deadlines: 'headers: 300ms, first_token: 300ms, idle: 300ms, total: 500ms, total_whole: 300ms',
  })
})
beforeEach(async () => {
  several.calm()
  rows = await several.app.count()
})
afterAll(() => endWell(several))

const lastRow = async () => (await several.app.settled(rows + 1)).at(-1)
const ask = (body: object = {}, options = {}) => several.chat({ model: 'acme/only', ...body }, options)

/** A linear congruential generator, so each run has the same noise. */
function toNoise(bytes: number): Buffer {
  let state = 1
  const next = () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return state >>> 16
  }
  return Buffer.from(Array.from({ length: bytes }, next))
}

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n'
const EVENTS = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n'
const raw = (end: 'close' | 'reset' | 'hang', ...pieces: (string | Uint8Array)[]): Behaviour => ({
  kind: 'raw',
  pieces,
  end,
})

/** More levels than can be written back. */
const DEEP = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
const message = `{"role":"assistant","content":"hi","reasoning_details":[{"deep":${DEEP}}]}`

interface Fault {
  name: string
  script?: Script
  model?: string
  status?: 502 | 504
  /** Default: both ways. */
  stream?: boolean
}

const FAULTS: Fault[] = [
  { name: 'has a name that does not resolve', model: 'acme/lost', stream: false },
  { name: 'sends noise', script: raw('hang', toNoise(4_096)) },
  {
    name: 'sends an endless head',
    script: raw('hang', 'HTTP/1.1 200 OK\r\n', ...Array(2_000).fill(`x: ${'y'.repeat(1_000)}\r\n`)),
  },
  { name: 'resets in its status line', script: raw('reset', 'HTTP/1.1 2') },
  { name: 'closes in its head', script: raw('close', HEAD) },
  { name: 'resets after its head', script: raw('reset', `${HEAD}content-length: 100\r\n\r\n`) },
  { name: 'closes in its body', script: raw('close', `${HEAD}content-length: 100\r\n\r\n{"choices":`) },
  { name: 'keeps silent after its head', script: raw('hang', `${HEAD}content-length: 100\r\n\r\n`), status: 504 },
  {
    name: 'sends a byte now and then',
    script: {
      kind: 'raw',
      pieces: [`${HEAD}content-length: 100\r\n\r\n`, ...'{'.repeat(100)],
      paceMs: 20,
      end: 'hang',
    },
    status: 504,
    stream: false,
  },
  { name: 'breaks its own chunks', script: raw('close', `${EVENTS}transfer-encoding: chunked\r\n\r\nzzz\r\ndata`) },
  { name: 'says nothing at all with 200', script: { kind: 'whole', body: '' } },
  { name: 'says null', script: { kind: 'whole', headers: { 'content-type': 'application/json' }, body: 'null' } },
  {
    name: 'sends noise for JSON',
    script: { kind: 'whole', headers: { 'content-type': 'application/json' }, body: toNoise(4_096) },
  },
  {
    name: 'sends noise for gzip',
    script: {
      kind: 'whole',
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      body: toNoise(4_096),
    },
  },
  {
    name: 'nests its answer too deeply',
    script: {
      kind: 'whole',
      headers: { 'content-type': 'application/json' },
      body: `{"choices":[{"message":${message},"finish_reason":"stop"}]}`,
    },
  },
  {
    name: 'nests a chunk too deeply',
    script: { kind: 'stream', steps: [`data: {"choices":[{"delta":${message}}]}\n\n`] },
  },
  { name: 'sends noise for a stream', script: { kind: 'stream', steps: [toNoise(4_096)], end: 'eof' } },
  {
    name: 'sends noise for a compressed stream',
    script: { kind: 'stream', headers: { 'content-encoding': 'gzip' }, steps: [toNoise(4_096)], end: 'eof' },
  },
]

const BOTH = FAULTS.flatMap((row) =>
  (row.stream === undefined ? [true, false] : [row.stream]).map((stream) => ({ ...row, stream })),
)

describe('an upstream that', () => {
  test.each(BOTH)('$name is reported as failed, stream: $stream', async ({ script, model, status, stream }) => {
    if (script) several.first.script(script)
    const response = await ask({ model: model ?? 'acme/only', stream })
    const text = await response.text()
    const code = status === 504 ? 'upstream_timeout' : 'upstream_failed'
    expect({ status: response.status, text }).toMatchObject({ status: status ?? 502 })
    expectEnvelope(response, text, { type: 'server_error', code, param: null })
    // No noise reaches the answer or the log.
    expect(text).toMatch(/^[ -~]+$/)
    const row = await lastRow()
    expect(row).toMatchObject({ status: 'failed', http_status: status ?? 502, error_code: code, attempts: 1 })
    // An upstream that timed out may have worked, so its prompt is billed.
    const tokens = status === 504 ? HELLO_COUNTED : 0
    expect(row).toMatchObject({ prompt_tokens: tokens, completion_tokens: 0, estimated: tokens > 0 ? 1 : 0 })
  })

  test('responds more slowly than a stream may take is interrupted, and billed for its output', async () => {
    const slow = { tokens: Array(100).fill('word '), paceMs: 20, usage: null }
    several.first.script(streamAnswer(slow))
    const { done, error, content } = toFrames(await (await ask({ stream: true })).text())
    expect({ done, code: error?.code }).toEqual({ done: false, code: 'upstream_timeout' })
    expect(error?.message).toContain('total timeout (0.5 s)')
    await several.first.waitFor((all) => all.at(-1)?.abortedAtMs !== null, 'its end')
    const row = await lastRow()
    const words = content.split('word ').length - 1
    expect(row).toMatchObject({ status: 'cut', estimated: 1, prompt_tokens: HELLO_COUNTED })
    expect(row?.completion_tokens).toBeGreaterThanOrEqual(words)
    expect(row?.completion_tokens).toBeLessThanOrEqual(words + 2)
  })
})
