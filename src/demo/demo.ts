/**
 * The built-in demo backend, stateless and without I/O. Streams send one token per batch at the upstream's `pace_ms`. Embeddings hash words
 * and their three-letter parts to a dimension and a sign, so that similar texts have similar vectors.
 */

import type { EndSignal } from '../domain/end-signal.ts'
import { EndpointRequest } from '../domain/endpoint-request.ts'
import { UpstreamError } from '../domain/error.ts'
import type { AnswerEvent, AnswerStream, Logprobs, TokenLogprob } from '../domain/events.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import { type EmbeddingInput, EmbeddingsRequest } from '../domain/task.ts'
import { NO_USAGE } from '../domain/usage.ts'
import type { Backend } from '../upstreams/backend.ts'
import { countTokens, type Part, type Reply, toReply } from './reply.ts'

const DEFAULT_PACE_MS = 15

/** One instance serves all demo upstreams. */
export function createDemoBackend(): Backend {
  return {
    async call({ body, target, signal, callId, observer }) {
      if (signal.aborted) throw aborted()
      observer.sent()
      if (body instanceof EmbeddingsRequest) return { events: toEmbeddings(body), rest: null, upstreamRequestId: null }
      if (body instanceof EndpointRequest) throw new Error('the demo has no such endpoint')
      const wanted = body.max_completion_tokens ?? body.max_tokens ?? target.maxOutputLength
      const reply = toReply(body, Math.min(wanted, target.maxOutputLength))
      // Unique across calls, since a conversation may contain several.
      const toId = (choice: number, index: number) =>
        `call_${Bun.hash(`${callId}/${choice}/${index}`).toString(16).padStart(16, '0')}`
      const batches = toEvents(reply, body, toId)
      if (!body.stream) return { events: batches.flat(), rest: null, upstreamRequestId: null }
      const rest = createPacedStream(batches, target.upstream.options.pace_ms ?? DEFAULT_PACE_MS, signal)
      return { events: [], rest, upstreamRequestId: null }
    },
    probe: async () => ({ state: 'ready' }),
  }
}

/** Alternative tokens; one more than `top_logprobs` allows besides the token itself. */
const ALTERNATIVES =
  ' the, a, demo, model, it, is, and, says, what, you, wrote, token, gate, this, that, of, to, in, not, or'.split(',')

type Request = Pick<CanonicalRequest, 'stream' | 'logprobs' | 'top_logprobs'>

/** ID of a tool call. */
type ToId = (choice: number, index: number) => string

/** Batches of events: one per token of a stream, or one for a whole response. The last ends with finishes, usage, and `done`. */
export function toEvents({ choices, usage }: Reply, request: Request, toId: ToId): AnswerEvent[][] {
  const steps = choices.map(({ parts }, choice) => toSteps(parts, choice, request, toId))
  const longest = Math.max(0, ...steps.map(({ length }) => length))
  const batches = Array.from({ length: longest }, (_, at) => steps.flatMap((step) => step[at] ?? []))
  const ends = choices.map(({ finish }, choice): AnswerEvent => ({ kind: 'finish', choice, reason: finish }))
  batches.push([...ends, { kind: 'usage', usage }, { kind: 'done' }])
  return request.stream ? batches : [batches.flat()]
}

/** Events of one choice by step. The start of a tool call comes with its first arguments. */
function toSteps(parts: readonly Part[], choice: number, request: Request, toId: ToId): AnswerEvent[][] {
  let index = -1
  return parts.flatMap((part) => {
    const written = part.tokens.map((token) => token.toWellFormed())
    const pieces = request.stream ? written.map((token) => [token]) : written.length > 0 ? [written] : []
    if (!('name' in part))
      return pieces.map((tokens): AnswerEvent[] => [
        { kind: part.kind, choice, text: tokens.join(''), ...toLogprobs(request, part, tokens) },
      ])
    index += 1
    const { kind: type, name } = part
    const begun: AnswerEvent = { kind: 'tool', choice, index, id: toId(choice, index), name, type }
    const [first = [], ...rest] = pieces.map((tokens): AnswerEvent[] => [
      { kind: 'arguments', choice, index, text: tokens.join('') },
    ])
    return [[begun, ...first], ...rest]
  })
}

/** Invented but consistent: each token has a probability of 1/2, the next likeliest 1/4, and so on. */
function toLogprobs(
  { logprobs, top_logprobs }: Request,
  { kind }: Part,
  tokens: readonly string[],
): { logprobs?: Logprobs } {
  if (!logprobs || tokens.length === 0) return {}
  const rated = tokens.map((token) => rate(token, top_logprobs ?? 0))
  if (kind === 'text') return { logprobs: { content: rated, refusal: null } }
  return kind === 'refusal' ? { logprobs: { content: null, refusal: rated } } : {}
}

function rate(token: string, count: number): TokenLogprob {
  const likeliest = [token, ...ALTERNATIVES.filter((other) => other !== token)].slice(0, count)
  return { ...toRanked(token, 0), top_logprobs: likeliest.map(toRanked) }
}

const toRanked = (token: string, rank: number) => ({
  token,
  logprob: -(rank + 1) * Math.LN2,
  bytes: [...Buffer.from(token)],
})

const aborted = () =>
  new UpstreamError('aborted', 'The call to the demo model was canceled.', {
    retryable: false,
  })

/**
 * Sends the first batch immediately and the others `paceMs` apart. At 0, the event loop runs between two batches. An abort ends the stream
 * with a `failure`, and `close()` ends it silently. Both act immediately and leave no timer.
 */
export function createPacedStream(
  batches: readonly (readonly AnswerEvent[])[],
  paceMs: number,
  signal: EndSignal,
): AnswerStream {
  let at = 0
  let isOver = false
  let timer: Timer | undefined
  let goOn = () => {}

  const pause = () =>
    new Promise<void>((resolve) => {
      goOn = resolve
      if (signal.aborted) resolve()
      else if (paceMs > 0) timer = setTimeout(resolve, paceMs)
      else setImmediate(resolve)
    })
  const wake = () => {
    clearTimeout(timer)
    goOn()
  }
  const next = (): readonly AnswerEvent[] => {
    const batch = signal.aborted ? [{ kind: 'failure' as const, error: aborted() }] : (batches[at] ?? [])
    at += 1
    isOver = signal.aborted || at >= batches.length
    return batch
  }

  return {
    async pump(take) {
      signal.addEventListener('abort', wake)
      try {
        while (!isOver) {
          if (at > 0) await pause()
          if (isOver || !(await take(next()))) return
        }
      } finally {
        signal.removeEventListener('abort', wake)
      }
    },
    close() {
      isOver = true
      wake()
    },
  }
}

const DEFAULT_DIMENSIONS = 256
const WORD = /[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu
/** Weight of a three-letter part; a word has 1. */
const PART_WEIGHT = 0.25

export function toEmbeddings({ inputs, dimensions }: EmbeddingsRequest): AnswerEvent[] {
  const length = dimensions ?? DEFAULT_DIMENSIONS
  const prompt = inputs.reduce((sum, input) => sum + tokensOf(input), 0)
  return [
    { kind: 'embeddings', vectors: inputs.map((input) => toVector(input, length)) },
    { kind: 'usage', usage: { ...NO_USAGE, prompt } },
    { kind: 'done' },
  ]
}

const tokensOf = (input: EmbeddingInput) => (typeof input === 'string' ? countTokens(input) : input.length)

function toVector(input: EmbeddingInput, length: number): Float32Array {
  const vector = new Float32Array(length)
  for (const word of wordsOf(input)) {
    add(vector, word, 1)
    for (let at = 0; at + 3 <= word.length; at++) add(vector, word.slice(at, at + 3), PART_WEIGHT)
  }
  let squares = 0
  for (const number of vector) squares += number * number
  // Signs may cancel out, and blank texts have no words.
  if (squares === 0) vector[0] = squares = 1
  const size = Math.sqrt(squares)
  return vector.map((number) => number / size)
}

/** Token IDs are treated as words: the demo model has no vocabulary. */
function wordsOf(input: EmbeddingInput): Iterable<string> {
  return typeof input === 'string' ? (input.toLowerCase().match(WORD) ?? []) : input.map(String)
}

function add(vector: Float32Array, word: string, weight: number): void {
  const hash = Bun.hash.xxHash32(word)
  const at = (hash >>> 1) % vector.length
  vector[at] = (vector[at] ?? 0) + (hash % 2 === 0 ? weight : -weight)
}
