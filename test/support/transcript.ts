/** Passes an upstream's bytes, in any pieces, through API format and writer without a socket. */

import { UpstreamError } from '../../src/domain/error.ts'
import type { AnswerEvent } from '../../src/domain/events.ts'
import { parseJson } from '../../src/domain/json.ts'
import { NO_USAGE, type Receipt, type Usage } from '../../src/domain/usage.ts'
import { ChatWriter } from '../../src/formats/chat/answer.ts'
import { chat, toTask } from '../../src/formats/chat/chat.ts'
import { toGatewayError } from '../../src/gateway/delivery.ts'
import type { Expected, WireFormat } from '../../src/upstreams/dialects/dialect.ts'
import { DEFAULT_OPTIONS } from '../../src/upstreams/dialects/dialects.ts'
import { openai } from '../../src/upstreams/dialects/openai/openai.ts'
import { SseReader } from '../../src/upstreams/framing.ts'
import { toTarget } from './snapshot.ts'

export const MODEL = 'acme/large'

export interface Shape {
  /** The client's `stream_options.include_usage`. */
  includeUsage: boolean
  choices: number
  logprobs: boolean
  /** The upstream's `think_tags`. */
  thinkTags: boolean
}

export const toShape = (shape: Partial<Shape> = {}): Shape => ({
  includeUsage: false,
  choices: 1,
  logprobs: true,
  thinkTags: false,
  ...shape,
})

export const toExpected = ({ choices, logprobs, thinkTags }: Shape = toShape()): Expected => ({
  target: toTarget({ options: { ...DEFAULT_OPTIONS, think_tags: thinkTags } }),
  choices,
  logprobs,
  callId: '0199-1',
  body: {},
})

const IDENTITY = { id: '0199', created: 1_763_726_400, model: MODEL }

export const writeWhole = (events: readonly AnswerEvent[], receipt: Receipt) =>
  chat.whole(toTask({ model: 'a/b', messages: [] }), IDENTITY, events, receipt)

export const createWriter = ({ includeUsage }: Pick<Shape, 'includeUsage'> = toShape()) =>
  new ChatWriter(
    toTask({
      model: MODEL,
      messages: [{ role: 'user', content: 'Hello' }],
      stream_options: { include_usage: includeUsage },
    }),
    IDENTITY,
  )

export interface Played {
  /** Everything the client reads, with the end or the error frame. */
  text: string
  failure: UpstreamError | null
  /** The upstream's reported usage. */
  usage: Usage | null
}

export function decodeStream(pieces: Iterable<Uint8Array>, shape: Shape, dialect: WireFormat = openai): AnswerEvent[] {
  const decoder = dialect.decoder(toExpected(shape))
  const sse = new SseReader(1_000_000)
  const utf8 = new TextDecoder()
  const events: AnswerEvent[] = []
  const decode = (text: string) => {
    const taken = sse.isBetweenEvents() ? decoder.take(text, events) : 0
    for (const event of sse.feed(text.slice(taken))) decoder.event(event, events)
  }
  for (const piece of pieces) decode(utf8.decode(piece, { stream: true }))
  decode(utf8.decode())
  for (const event of sse.end()) decoder.event(event, events)
  decoder.end(events)
  return events
}

/** Throws an UpstreamError if the response has none. */
export function decodeWhole(body: Uint8Array, shape: Shape): AnswerEvent[] {
  return openai.whole(readJson(body), toExpected(shape))
}

export const playStream = (pieces: Iterable<Uint8Array>, shape: Shape, dialect: WireFormat = openai): Played =>
  playEvents(decodeStream(pieces, shape, dialect), shape)

export const playWhole = (body: Uint8Array, shape: Shape): Played =>
  withWhole(body, shape, (events) => {
    const usage = usageOf(events)
    const text = writeWhole(events, { usage: usage ?? NO_USAGE, costNanoUsd: 0, durationMs: 0 })
    return { text, failure: null, usage }
  })

export const playWholeAsStream = (body: Uint8Array, shape: Shape): Played =>
  withWhole(body, shape, (events) => playEvents(events, shape))

function withWhole(body: Uint8Array, shape: Shape, play: (events: AnswerEvent[]) => Played): Played {
  try {
    return play(decodeWhole(body, shape))
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error
    return { text: toErrorFrame(error), failure: error, usage: null }
  }
}

function readJson(body: Uint8Array): unknown {
  try {
    return parseJson(new TextDecoder().decode(body))
  } catch (cause) {
    throw new UpstreamError('broken', 'returned 200 with something that is not JSON', { cause })
  }
}

const toErrorFrame = (failure: UpstreamError) => createWriter().failure(toGatewayError(failure, 'paid'))

const usageOf = (events: readonly AnswerEvent[]): Usage | null => {
  const last = events.findLast((event) => event.kind === 'usage')
  return last?.kind === 'usage' ? last.usage : null
}

function playEvents(events: readonly AnswerEvent[], shape: Shape): Played {
  const writer = createWriter(shape)
  const usage = usageOf(events)
  const text = writer.take(events)
  const last = events.at(-1)
  if (last?.kind === 'failure') return { text: text + toErrorFrame(last.error), failure: last.error, usage }
  if (last?.kind !== 'done') throw new Error('the stream has neither an end nor a failure')
  return { text: text + writer.tail({ usage: usage ?? NO_USAGE, costNanoUsd: 0, durationMs: 0 }), failure: null, usage }
}
