/**
 * Splits embeddings of more inputs, and rankings of more documents, than an upstream takes per call into parallel calls,
 * each recorded and metered by `dispatch`.
 */

import type { PlannedCall } from '../accounting/call.ts'
import { type RankedDocument, resultOf } from '../domain/endpoint-results.ts'
import { UpstreamError } from '../domain/error.ts'
import type { Answer, AnswerEvent } from '../domain/events.ts'
import type { AnyRequest } from '../domain/request.ts'
import { byScore, RerankRequest } from '../domain/rerank.ts'
import type { Target } from '../domain/snapshot.ts'
import { type EmbeddingInput, EmbeddingsRequest, type Vector } from '../domain/task.ts'
import type { Dispatch } from './calls.ts'
import { toFan } from './fan-out.ts'

/** Parsing this many numbers blocks the event loop for some 40 ms; decimals are longer than base64. */
const MAX_NUMBERS = { float: 200_000, base64: 1_500_000 }
const MAX_DIMENSIONS = 3_072
/** Nearly no text has more than one token per this many bytes. */
const BYTES_PER_TOKEN = 2

export function toBatches(body: AnyRequest, { upstream: { options } }: Target): readonly AnyRequest[] {
  // Only TEI limits the documents of a ranking, to as many as of embeddings.
  if (body instanceof RerankRequest && options.rerank === 'texts') return body.split(options.embedding_inputs)
  if (!(body instanceof EmbeddingsRequest)) return [body]
  const { inputs, encoding, dimensions } = body
  const mostRead = Math.floor(MAX_NUMBERS[encoding] / (dimensions ?? MAX_DIMENSIONS))
  const mostInputs = Math.min(options.embedding_inputs, mostRead)
  const mostTokens = options.embedding_tokens ?? Infinity
  const lists: EmbeddingInput[][] = []
  let list: EmbeddingInput[] = []
  let tokens = 0
  for (const input of inputs) {
    const more = typeof input === 'string' ? Math.ceil(Buffer.byteLength(input) / BYTES_PER_TOKEN) : input.length
    if (list.length > 0 && (list.length >= mostInputs || tokens + more > mostTokens)) {
      lists.push(list)
      list = []
      tokens = 0
    }
    list.push(input)
    tokens += more
  }
  if (lists.length === 0) return [body]
  return [...lists, list].map((inputs) => body.of(inputs))
}

/** The first failed call fails all; the others are aborted, and charged as far as they came. */
export const inBatches =
  (dispatch: Dispatch): Dispatch =>
  async (planned) => {
    const batches = toBatches(planned.body, planned.target)
    if (batches.length === 1) return dispatch(planned)
    // Together they hold as much memory as the request.
    const answers = await toFan(dispatch, planned, batches, 1).answers()
    const joined: AnswerEvent =
      planned.body instanceof RerankRequest
        ? { kind: 'result', result: { of: 'rerank', documents: joinRankings(answers, planned) } }
        : { kind: 'embeddings', vectors: joinVectors(answers) }
    return {
      events: [joined, { kind: 'done' }],
      rest: null,
      upstreamRequestId: answers[0]?.upstreamRequestId ?? null,
    }
  }

function joinVectors(answers: readonly Answer[]): Vector[] {
  const vectors = answers
    .flatMap(({ events }) => events)
    .flatMap((event) => (event.kind === 'embeddings' ? event.vectors : []))
  const length = vectors[0]?.length
  if (vectors.every((vector) => vector.length === length)) return vectors
  throw new UpstreamError('broken', 'returned vectors of different lengths')
}

const joinRankings = (answers: readonly Answer[], { target }: Pick<PlannedCall, 'target'>): RankedDocument[] =>
  byScore(
    answers.flatMap(({ events }, at) =>
      resultOf('rerank', events).documents.map(({ index, score }) => ({
        index: index + at * target.upstream.options.embedding_inputs,
        score,
      })),
    ),
  )
