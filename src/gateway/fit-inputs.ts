/**
 * Which targets of a model can take a request for embeddings: by the kind of its inputs, by how many calls it becomes, and by how
 * long each input is. `admit.ts` asks before anything is reserved.
 */

import { EMBEDDING, type EmbeddingInput, type EmbeddingRequest } from '../domain/embedding.ts'
import { type Decision, GatewayError } from '../domain/error.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Counter } from '../tokens/count.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import { contextOverflow, TOLERANCE } from './fit.ts'
import { toParts } from './parts.ts'

/** Each is on record, and paid for: a request that becomes more of them was meant for another upstream. */
const MAX_CALLS = 256
/** So many inputs are counted where it is in doubt whether they fit: the longest ones. */
const MAX_COUNTED = 8

/** Keeps the targets that can take all of it, or refuses it. */
export async function fitInputs(
  counter: Counter,
  shareId: string,
  body: CanonicalRequest,
  embedding: EmbeddingRequest,
  targets: readonly Target[],
): Promise<Decision<readonly Target[]>> {
  const unable = targets.map((target) => checkKind(embedding, target) ?? checkCalls(body, embedding, target))
  const able = targets.filter((_, at) => unable[at] === null)
  const [why] = unable
  if (able.length === 0 && why) return why
  const lengths = able.map(({ contextLength }) => contextLength)
  let longest: Counted = { tokens: 0, least: 0 }
  for (const { input, at } of toDoubtful(embedding.inputs, Math.min(...lengths))) {
    const counted = await count(counter, shareId, body, embedding, input)
    const most = Math.max(...lengths)
    if (counted.least > most) return contextOverflow(most, counted.tokens, toParam(embedding, at))
    if (counted.least > longest.least) longest = counted
  }
  return able.filter(({ contextLength }) => longest.least <= contextLength)
}

interface Counted {
  tokens: number
  /** As few as they may be in the model's own vocabulary. */
  least: number
}

function checkKind({ inputs }: EmbeddingRequest, { model, upstream }: Target): GatewayError | null {
  const { embeds: reads } = dialectOf(upstream)
  if (reads === 'texts and tokens') return null
  const at = inputs.findIndex((input) => typeof input !== 'string')
  if (reads === 'texts' && at < 0) return null
  const [why, param] =
    reads === 'nothing'
      ? [`its upstream \`${upstream.id}\` makes no embeddings`, 'model']
      : [`its upstream \`${upstream.id}\` takes no token numbers. Send texts`, 'input']
  return new GatewayError(
    'invalid_request',
    `Embeddings of this kind are not made by the model \`${model}\`: ${why}.`,
    {
      code: reads === 'nothing' ? 'unsupported_endpoint' : 'unsupported_parameter',
      param,
    },
  )
}

function checkCalls(body: CanonicalRequest, { inputs }: EmbeddingRequest, target: Target): GatewayError | null {
  const { id, limits } = target.upstream
  const calls = toParts(body, target).length
  const most = Math.min(MAX_CALLS, limits.requestsPerMinute ?? Infinity)
  if (calls <= most) return null
  return new GatewayError(
    'invalid_request',
    `Invalid 'input': array too long for the model \`${target.model}\`: ${inputs.length} inputs are ${calls} calls to its upstream \`${id}\`, and ${most} are made at most. Send fewer.`,
    { param: 'input', code: 'array_above_max_length' },
  )
}

interface Doubtful {
  input: EmbeddingInput
  at: number
}

/** The inputs that may be too long: with a token a byte. The longest ones first. */
function toDoubtful(inputs: readonly EmbeddingInput[], contextLength: number): Doubtful[] {
  const found: (Doubtful & { most: number })[] = []
  for (const [at, input] of inputs.entries()) {
    const most = typeof input === 'string' ? Buffer.byteLength(input) : input.length
    if (most > contextLength) found.push({ input, at, most })
  }
  return found.sort((a, b) => b.most - a.most).slice(0, MAX_COUNTED)
}

/** What cannot be counted in time is left to its upstream. */
async function count(
  counter: Counter,
  shareId: string,
  body: CanonicalRequest,
  embedding: EmbeddingRequest,
  input: EmbeddingInput,
): Promise<Counted> {
  if (typeof input !== 'string') return { tokens: input.length, least: input.length }
  const one = { ...body, messages: [], [EMBEDDING]: { ...embedding, inputs: [input] } }
  const tokens = (await counter.prompt(shareId, one)) ?? 0
  return { tokens, least: tokens / TOLERANCE }
}

const toParam = ({ inputs }: EmbeddingRequest, at: number) => (inputs.length === 1 ? 'input' : `input[${at}]`)
