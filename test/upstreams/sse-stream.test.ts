/** The stream of one call, over a real socket: reading, interruption, and cancellation. */
import { expect, test } from 'bun:test'
import { DEFAULT_DEADLINES } from '../../src/domain/deadlines.ts'
import type { AnswerEvent, AnswerStream } from '../../src/domain/events.ts'
import { openai } from '../../src/upstreams/dialects/openai/openai.ts'
import { createHttpBackend, type HttpOptions } from '../../src/upstreams/http-call.ts'
import { createHttp1Transport } from '../../src/upstreams/http1/transport.ts'
import { testAnswerStream } from '../support/answer-stream.ts'
import { forAllTests } from '../support/lifetime.ts'
import { toTarget } from '../support/snapshot.ts'
import { type Script, startUpstream } from '../support/upstream.ts'
import { streamAnswer } from '../support/upstream-answers.ts'

const transport = createHttp1Transport()
const upstream = forAllTests(startUpstream)

const client = new AbortController()

async function open(script: Script, deadlines = {}, options: HttpOptions = {}, fields = {}): Promise<AnswerStream> {
  upstream.script(script)
  const target = toTarget({ baseUrl: upstream.url, deadlines: { ...DEFAULT_DEADLINES, ...deadlines } })
  const answer = await createHttpBackend(openai, transport, options).call({
    body: { model: 'm', messages: [{ role: 'user', content: 'Hi' }], stream: true, ...fields },
    passthrough: null,
    target,
    signal: client.signal,
    observer: { sent() {}, left: () => 0 },
    deadlines: target.upstream.deadlines,
    callId: 'x-1',
    hops: 'a',
    take: () => null,
    inTurn: async (work) => work(),
  })
  if (answer.rest === null) throw new Error('the answer is no stream')
  return answer.rest
}

async function read(stream: AnswerStream): Promise<AnswerEvent[]> {
  const events: AnswerEvent[] = []
  await stream.pump((batch) => events.push(...batch) > 0)
  return events
}

const textOf = (events: readonly AnswerEvent[]) =>
  events.map((event) => (event.kind === 'text' ? event.text : '')).join('')

testAnswerStream((tokens) => open(streamAnswer({ tokens, paceMs: 5 })))

test('an upstream whose response is canceled sees its connection close', async () => {
  const stream = await open({ ...streamAnswer({ tokens: 100_000 }), paceMs: 1 })
  await stream.pump(() => false)
  stream.close()
  await upstream.waitFor((all) => all.at(-1)?.abortedAtMs !== null, 'the end of the call')
})

test('events before a failure are handed over before it', async () => {
  const { steps } = streamAnswer({ tokens: ['a', 'b'], finish: null, usage: null })
  const stream = await open({ kind: 'stream', steps: [...steps, { waitMs: 20 }], end: 'reset' })
  const events = await read(stream)
  expect(textOf(events)).toBe('ab')
  expect(events.at(-1)).toMatchObject({ kind: 'failure', error: { kind: 'connection' } })
})

test('events in the same piece as a too large one are handed over before the failure', async () => {
  const whole = [...streamAnswer({ tokens: ['a', 'b'], finish: null, usage: null }).steps].map(
    (step) => `data: ${JSON.stringify(step)}\n\n`,
  )
  const steps = [`${whole.join('')}data: ${'x'.repeat(5_000)}`]
  const events = await read(await open({ kind: 'stream', steps, end: 'hang' }, {}, { maxEventBytes: 4_096 }))
  expect(events.at(-1)).toMatchObject({ kind: 'failure', error: { kind: 'broken' } })
  expect(textOf(events)).toBe('ab')
})

test("silence ends it, but not its reader's own delay", async () => {
  const { steps } = streamAnswer({ tokens: ['a'], finish: null, usage: null })
  const stream = await open({ kind: 'stream', steps, end: 'hang' }, { idle: 150 })
  await stream.pump(() => false)
  await Bun.sleep(400)
  const events = await read(stream)
  expect(events.at(-1)).toMatchObject({ kind: 'failure', error: { kind: 'deadline', deadline: 'idle' } })
})

test.each<[string, Record<string, unknown>, string, boolean]>([
  [
    '256 levels',
    { x: JSON.parse(`${'['.repeat(9_000)}${']'.repeat(9_000)}`) },
    'is nested more than 256 levels deep',
    false,
  ],
  [
    '64,000 names',
    Object.fromEntries(Array.from({ length: 64_001 }, (_, i) => [`k${i}`, 0])),
    'has too many values',
    true,
  ],
  ['500,000 values', { x: Array(500_001).fill(0) }, 'has too many values', true],
])(
  'an event of more than %s ends it before that is parsed, and what had come stays',
  async (_, more, message, isTooLong) => {
    const { steps } = streamAnswer({ tokens: ['a'], finish: null, usage: null })
    const events = await read(await open({ kind: 'stream', steps: [...steps, more], end: 'done' }))
    expect(textOf(events)).toBe('a')
    expect(events.at(-1)).toMatchObject({
      kind: 'failure',
      error: { kind: 'broken', isTooLong, retryable: !isTooLong, message: expect.stringContaining(message) },
    })
  },
)

test('an event may have many numbers, and as many names as requested log probabilities need', async () => {
  const token = { token: 'a', logprob: -1, bytes: [97] }
  const content = Array(1_200).fill({ ...token, top_logprobs: Array(20).fill(token) })
  const choice = { index: 0, delta: { content: 'a' }, logprobs: { content }, finish_reason: 'stop' }
  const script: Script = { kind: 'stream', steps: [{ choices: [choice], ids: Array(200_000).fill(1) }], end: 'done' }
  expect(textOf(await read(await open(script, {}, {}, { logprobs: true })))).toBe('a')
})
