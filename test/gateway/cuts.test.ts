/** Streams interrupted after the first word are reported as such, and billed for the output that arrived. */
import { describe, expect, test } from 'bun:test'
import { CREDENTIAL } from '../support/app.ts'
import { toFrames } from '../support/frames.ts'
import { costOf, HELLO_COUNTED, startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import type { Script, Seen } from '../support/upstream.ts'
import { streamAnswer, toDelta } from '../support/upstream-answers.ts'

const gateway = forAllTests(() => startGateway({ deadlines: 'headers: 300ms, first_token: 300ms, idle: 300ms' }))

const echo = { error: { message: `bad key ${CREDENTIAL}`, code: 'x', param: null } }

/** The pause lets the words arrive: a broken connection loses buffered ones. */
const steps = [...streamAnswer({ tokens: ['one ', 'two '], finish: null, usage: null }).steps, { waitMs: 50 }]
const counted = {
  ...toObject(toDelta({ content: '' })),
  choices: [],
  usage: { prompt_tokens: 50, completion_tokens: 2 },
}

function toObject(step: unknown): Record<string, unknown> {
  return typeof step === 'object' && step !== null ? { ...step } : {}
}

interface Cut {
  name: string
  script: Script
  code: string
  says: string
  /** Billed tokens; default: the count of the prompt and of "one two ". */
  tokens?: [number, number]
}

const CUTS: Cut[] = [
  { name: 'stalls', script: { kind: 'stream', steps, end: 'hang' }, code: 'upstream_timeout', says: 'idle timeout' },
  { name: 'is reset', script: { kind: 'stream', steps, end: 'reset' }, code: 'upstream_failed', says: 'connection' },
  { name: 'closes in a frame', script: { kind: 'stream', steps, end: 'cut' }, code: 'upstream_failed', says: '`paid`' },
  {
    name: 'ends early',
    script: { kind: 'stream', steps, end: 'eof' },
    code: 'upstream_failed',
    says: 'ended its stream',
  },
  {
    name: 'says an error',
    script: { kind: 'stream', steps: [...steps, echo] },
    code: 'upstream_failed',
    says: '`paid`',
  },
  {
    name: 'is limited',
    script: { kind: 'stream', steps: [...steps, { error: { message: 'slow down', code: 429 } }] },
    code: 'upstream_rate_limited',
    says: 'slow down',
  },
  {
    name: 'sends an event beyond the limit',
    script: { kind: 'stream', steps: [...steps, 'data: ', 'x'.repeat(5_000_000), '\n\n'] },
    code: 'upstream_failed',
    says: 'more than 4 MiB',
  },
  {
    name: 'has counted so far',
    script: { kind: 'stream', steps: [...steps, counted], end: 'eof' },
    code: 'upstream_failed',
    says: 'ended its stream',
    tokens: [50, 3],
  },
  {
    name: 'counted before it wrote',
    script: {
      kind: 'stream',
      steps: [{ ...counted, usage: { prompt_tokens: 50, completion_tokens: 0 } }, ...steps],
      end: 'eof',
    },
    code: 'upstream_failed',
    says: 'ended its stream',
    tokens: [50, 3],
  },
]

describe('after the first token, a stream that', () => {
  test.each(CUTS)(
    '$name is reported as interrupted, and billed for its output',
    async ({ script, code, says, tokens }) => {
      const { app, upstream, chat } = gateway
      upstream.script(script)
      // Clears penalties from the previous row.
      app.pass(60_000)
      const before = await app.count()
      const response = await chat({ stream: true, stream_options: { include_usage: true } })
      expect(response.status).toBe(200)
      const { frames, done, content, error } = toFrames(await response.text())
      expect(done).toBe(false)
      expect(content).toBe('one two ')
      expect(Object.keys(error ?? {}).sort()).toEqual(['code', 'message', 'param', 'type'])
      expect(error).toMatchObject({ code })
      expect(error?.message).toContain(says)
      expect(JSON.stringify(frames)).not.toContain(CREDENTIAL)
      expect(frames.every((frame) => frame.error || frame.choices[0]?.finish_reason === null)).toBe(true)
      const [prompt, completion] = tokens ?? [HELLO_COUNTED, 3]
      expect((await app.settled(before + 1)).at(-1)).toMatchObject({
        status: 'cut',
        http_status: 200,
        error_code: code,
        estimated: 1,
        prompt_tokens: prompt,
        completion_tokens: completion,
        cost_nano_usd: costOf(prompt, completion),
      })
    },
  )
})

test('no failure left an upstream connection open or a secret in the log', async () => {
  const isOver = (seen: Seen) => seen.answeredAtMs !== null || seen.abortedAtMs !== null
  await gateway.upstream.waitFor((all) => all.every(isOver), 'the end of every call')
  const text = await gateway.app.logText()
  for (const secret of gateway.app.secrets) expect(text).not.toContain(secret)
  expect(text).not.toContain('"level":"error"')
})
