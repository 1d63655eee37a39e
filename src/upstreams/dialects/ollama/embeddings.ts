/** Embeddings of Ollama (`POST /api/embed`): of texts alone, of which none loses its end without a word. Pure. */
import type { EmbeddingInput, EmbeddingRequest } from '../../../domain/embedding.ts'
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent } from '../../../domain/events.ts'
import { asList, asObject } from '../../../domain/json.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { NO_USAGE } from '../../../domain/usage.ts'
import type { WireRequest } from '../../backend.ts'
import { asCount } from '../count.ts'
import { unsupportedValue } from '../refuse.ts'
import { toVectors } from '../vectors.ts'
import { toSentence, toUpstreamError } from './error.ts'

/** See `Dialect.embeddings`. */
export function toEmbeddingRequest(
  _: CanonicalRequest,
  { inputs, dimensions }: EmbeddingRequest,
  { upstreamModel }: Target,
): WireRequest {
  // JSON leaves out what is undefined.
  const asked = {
    model: upstreamModel,
    input: inputs.map(toText),
    truncate: false,
    dimensions: dimensions ?? undefined,
  }
  return { path: '/api/embed', body: JSON.stringify(asked) }
}

function toText(input: EmbeddingInput): string {
  if (typeof input === 'string') return input
  throw unsupportedValue('input', 'it takes texts, and no numbers of tokens.')
}

/** See `Dialect.embeddings`. */
export function readEmbeddings(json: unknown, embedding: EmbeddingRequest, target: Target): AnswerEvent[] {
  const sentence = toSentence(json)
  if (sentence !== '') throw toUpstreamError(null, sentence, target)
  const answer = asObject(json)
  if (!Array.isArray(answer?.embeddings))
    throw new UpstreamError('broken', 'answered 200 with something that is no embedding')
  const vectors = toVectors(asList(answer.embeddings), embedding)
  const prompt = asCount(answer.prompt_eval_count)
  const usage: AnswerEvent[] = prompt === null ? [] : [{ kind: 'usage', usage: { ...NO_USAGE, prompt } }]
  return [{ kind: 'embeddings', vectors }, ...usage, { kind: 'done' }]
}
