/** Calls the demo backend like `dispatch`, and assembles its streams like a client. */

import { createDemoBackend } from '../../src/demo/demo.ts'
import { DEFAULT_DEADLINES } from '../../src/domain/deadlines.ts'
import type { AnswerEvent, AnswerStream } from '../../src/domain/events.ts'
import { NO_LIMITS } from '../../src/domain/limits.ts'
import type { CanonicalRequest } from '../../src/domain/request.ts'
import { NO_USAGE } from '../../src/domain/usage.ts'
import type { ChatCompletion, Delta } from '../../src/formats/chat/answer.ts'
import type { BackendCall } from '../../src/upstreams/backend.ts'
import { DEFAULT_OPTIONS } from '../../src/upstreams/dialects/dialects.ts'
import { createWriter, writeWhole } from '../support/transcript.ts'

export const demo = createDemoBackend()

/** A request with known fields and any others. */
export type Asked = Partial<CanonicalRequest> & Record<string, unknown>

export const toCall = (
  body: Asked,
  more: { paceMs?: number; signal?: AbortSignal } = {},
): BackendCall & { body: CanonicalRequest } => ({
  body: { model: 'tollgate/demo', messages: [{ role: 'user', content: 'Say hello, please.' }], ...body },
  passthrough: null,
  target: {
    origin: 'builtin',
    model: 'tollgate/demo',
    upstream: {
      id: 'demo',
      dialect: 'demo',
      baseUrl: null,
      local: true,
      deadlines: DEFAULT_DEADLINES,
      disconnectGraceMs: null,
      limits: NO_LIMITS,
      prices: new Map(),
      options: { ...DEFAULT_OPTIONS, pace_ms: more.paceMs ?? 0 },
      variable: null,
      hasStoredCredential: false,
      credential: null,
      credentialNumber: 1,
      secrets: [],
      credentials: [],
      each: null,
      process: null,
      notReady: null,
    },
    upstreamModel: 'demo',
    priority: 0,
    weight: 1,
    pricing: [],
    priceId: null,
    maxOutputLength: 4096,
    contextLength: 8_192,
    options: {},
    features: [],
  },
  signal: more.signal ?? new AbortController().signal,
  deadlines: DEFAULT_DEADLINES,
  callId: '0123456789abcdef0123456789abcdef-1',
  hops: '',
  observer: { sent() {}, left: () => 0 },
  take: () => null,
  inTurn: async (work) => work(),
})

export const say = (content: string): CanonicalRequest['messages'] => [{ role: 'user', content }]

export async function askWhole(body: Asked) {
  const { events, rest } = await demo.call(toCall(body))
  if (rest) throw new Error('expected a whole answer')
  return join(events)
}

/** Returns the first choice of a whole response, and its usage. */
export async function ask(body: Asked) {
  const { choices, usage } = await askWhole(body)
  const [choice] = choices
  if (!choice) throw new Error('expected a choice')
  return { ...choice, usage: usage.at(-1) }
}

export async function openStream(body: Asked, more: Parameters<typeof toCall>[1] = {}): Promise<AnswerStream> {
  const { rest } = await demo.call(toCall({ ...body, stream: true }, more))
  if (!rest) throw new Error('expected a stream')
  return rest
}

/** The next batch of a stream; null at its end. */
export async function nextOf(stream: AnswerStream): Promise<readonly AnswerEvent[] | null> {
  let next: readonly AnswerEvent[] | null = null
  await stream.pump((events) => {
    next = events
    return false
  })
  return next
}

export async function readStream(body: Asked): Promise<AnswerEvent[]> {
  const events: AnswerEvent[] = []
  const stream = await openStream(body)
  await stream.pump((batch) => {
    events.push(...batch)
    return true
  })
  return events
}

const RECEIPT = { usage: NO_USAGE, costNanoUsd: 0, durationMs: 0 }

/** Assembles events to a whole response, as a client reads it. */
export const join = (events: readonly AnswerEvent[]) => ({
  choices: (JSON.parse(writeWhole(events, RECEIPT)) as ChatCompletion).choices,
  usage: events.flatMap((event) => (event.kind === 'usage' ? [event.usage] : [])),
})

/** The choices of each chunk of a stream, as a client reads them. */
export function chunksOf(events: readonly AnswerEvent[]): { index: number; delta: Delta }[] {
  const writer = createWriter({ includeUsage: false })
  const text = writer.take(events) + writer.tail(RECEIPT)
  return text
    .split('\n\n')
    .filter((frame) => frame.startsWith('data: {'))
    .flatMap((frame) => JSON.parse(frame.slice('data: '.length)).choices)
}
