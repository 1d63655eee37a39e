/**
 * Embeddings of more inputs than an upstream takes in one call: as many calls as that takes, several at once, joined into one answer
 * in the inputs' order. Each call is recorded and metered by `dispatch`, so their usage sums up by itself.
 */

import { UpstreamError } from '../domain/error.ts'
import type { Answer } from '../domain/events.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import { type EmbeddingInput, EmbeddingsRequest, type Vector } from '../domain/task.ts'
import type { Dispatch } from './calls.ts'
import { toFan } from './fan-out.ts'

/** To read so many numbers at once holds the event loop for some 40 ms; in decimals they are long. */
const MAX_NUMBERS = { float: 200_000, base64: 1_500_000 }
/** Where nobody says how long a vector is, it may be so long. */
const MAX_DIMENSIONS = 3_072
/** No text has more tokens than one for so many bytes, or nearly none: what is split by a guess must not be too much. */
const BYTES_PER_TOKEN = 2

/** The requests that a request becomes on its way to a target: itself, where that takes all of it at once. */
export function toBatches(body: AnyRequest, { upstream: { options } }: Target): readonly AnyRequest[] {
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

/** Wraps a dispatch. The first call that fails fails them all; the others are aborted, and paid for as far as they came. */
export const inBatches =
  (dispatch: Dispatch): Dispatch =>
  async (planned) => {
    const batches = toBatches(planned.body, planned.target)
    if (batches.length === 1) return dispatch(planned)
    // Together they hold what the request does.
    const answers = await toFan(dispatch, planned, batches, 1).answers()
    return {
      events: [{ kind: 'embeddings', vectors: join(answers) }, { kind: 'done' }],
      rest: null,
      upstreamRequestId: answers[0]?.upstreamRequestId ?? null,
    }
  }

function join(answers: readonly Answer[]): Vector[] {
  const vectors = answers
    .flatMap(({ events }) => events)
    .flatMap((event) => (event.kind === 'embeddings' ? event.vectors : []))
  const length = vectors[0]?.length
  if (vectors.every((vector) => vector.length === length)) return vectors
  throw new UpstreamError('broken', 'answered with vectors of several lengths')
}
