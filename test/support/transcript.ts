/**
 * Carries an upstream's bytes to what a client reads, without a socket: events, dialect and normaliser as `events.ts`
 * and `stream.ts` put them together. Bytes may come in any pieces.
 */
import { toEvents } from '../../src/delivery/events.ts'
import { toGatewayError } from '../../src/delivery/failure.ts'
import type { AnswerEvent, Completion } from '../../src/domain/answer.ts'
import { UpstreamError } from '../../src/domain/error.ts'
import { parseJson } from '../../src/domain/json.ts'
import { NO_USAGE, toUsageJson, type Usage } from '../../src/domain/usage.ts'
import {
  createStreamNormaliser,
  errorFrame,
  type Shape,
  toCompletion,
  toCompletionJson,
} from '../../src/formats/chat/normalise.ts'
import { openai } from '../../src/upstreams/dialects/openai/openai.ts'
import { createSseReader } from '../../src/upstreams/sse.ts'
import { toTarget } from './snapshot.ts'

export const MODEL = 'acme/large'

export const toShape = (shape: Partial<Shape> = {}): Shape => ({
  identity: { id: 'chatcmpl-0199', created: 1_763_726_400, model: MODEL },
  includeUsage: false,
  choices: 1,
  logprobs: true,
  thinkTags: false,
  ...shape,
})

export interface Played {
  /** All that the client reads, with its tail or its error frame. */
  text: string
  failure: UpstreamError | null
  /** What the upstream reported. */
  usage: Usage | null
}

const target = toTarget()

/** Plays a stream that arrives in these pieces and then ends. */
export function playStream(pieces: Iterable<Uint8Array>, shape: Shape): Played {
  const player = createPlayer(shape)
  const decoder = openai.decoder(target)
  const sse = createSseReader(1_000_000)
  const utf8 = new TextDecoder()
  const decode = (text: string) => player.take(sse.feed(text).flatMap((event) => decoder.event(event)))
  for (const piece of pieces) decode(utf8.decode(piece, { stream: true }))
  decode(utf8.decode())
  player.take(sse.end().flatMap((event) => decoder.event(event)))
  player.take(decoder.end())
  return player.end()
}

/** Plays a whole answer to a client that did not ask for a stream. */
export function playWhole(body: Uint8Array, shape: Shape): Played {
  return withCompletion(body, (completion, usage) => {
    const text = toCompletionJson(toCompletion(shape, completion), toUsageJson(usage ?? NO_USAGE, 0))
    return { text, failure: null, usage }
  })
}

/** Plays a whole answer to a client that asked for a stream. */
export function playWholeAsStream(body: Uint8Array, shape: Shape): Played {
  return withCompletion(body, (completion, usage) => {
    const player = createPlayer(shape)
    player.take(usage ? [{ usage }, ...toEvents(completion)] : toEvents(completion))
    return player.end()
  })
}

function withCompletion(body: Uint8Array, play: (completion: Completion, usage: Usage | null) => Played): Played {
  try {
    const { completion, usage } = openai.completion(readJson(body), target)
    return play(completion, usage ?? null)
  } catch (error) {
    if (error instanceof UpstreamError) return { text: toErrorFrame(error), failure: error, usage: null }
    throw error
  }
}

function readJson(body: Uint8Array): unknown {
  try {
    return parseJson(new TextDecoder().decode(body))
  } catch (cause) {
    throw new UpstreamError('broken', 'answered 200 with something that is not JSON', { cause })
  }
}

const toErrorFrame = (failure: UpstreamError) => errorFrame(toGatewayError(failure, 'paid').toBody())

interface Player {
  take(events: AnswerEvent[]): void
  end(): Played
}

function createPlayer(shape: Shape): Player {
  const normaliser = createStreamNormaliser(shape)
  let text = ''
  let usage: Usage | null = null
  return {
    take(events) {
      for (const event of events) if ('usage' in event) usage = { ...NO_USAGE, ...usage, ...event.usage }
      text += normaliser.take(events)
    },
    end() {
      const outcome = normaliser.outcome()
      if (outcome === null) throw new Error('the stream has neither an end nor a failure')
      if (outcome === 'done') {
        return { text: text + normaliser.tail(toUsageJson(usage ?? NO_USAGE, 0)), failure: null, usage }
      }
      return { text: text + toErrorFrame(outcome), failure: outcome, usage }
    },
  }
}

/** Cuts bytes into pieces of one byte each. */
export const inBytes = (bytes: Uint8Array): Uint8Array[] => inPieces(bytes, [...bytes.keys()])

/** Cuts bytes before each of these places, which are in order. */
export function inPieces(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const edges = [0, ...places.filter((place) => place > 0 && place < bytes.length), bytes.length]
  return edges.slice(1).map((edge, at) => bytes.subarray(edges[at], edge))
}

/** A small generator of numbers below a bound, the same for the same seed. */
export function createRandom(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}
