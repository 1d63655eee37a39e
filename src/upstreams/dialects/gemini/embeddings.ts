/**
 * Embeddings of Gemini: `batchEmbedContents` of Google AI Studio (ai.google.dev/api/embeddings) and `predict` of Vertex
 * (cloud.google.com/vertex-ai/generative-ai/docs/embeddings/get-text-embeddings). Texts only.
 */

import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent } from '../../../domain/events.ts'
import { asList, asObject, type JsonObject } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import type { EmbeddingInput, EmbeddingsRequest } from '../../../domain/task.ts'
import { NO_USAGE } from '../../../domain/usage.ts'
import type { WireRequest } from '../dialect.ts'
import { asCount, toVectors } from '../readings.ts'
import { geminiErrors } from './errors.ts'
import { speaksVertex, toResource } from './request.ts'
import { toUsage } from './usage.ts'

/** See `EmbeddingFormat`. Clients set the purpose with `task_type`, as in Gemini's API. */
export function toEmbeddingRequest(
  { inputs, dimensions, extras }: EmbeddingsRequest,
  { upstream, upstreamModel }: Target,
): WireRequest {
  const texts = inputs.map(toText)
  const model = toResource(upstreamModel)
  const taskType = typeof extras.task_type === 'string' ? extras.task_type : undefined
  const outputDimensionality = dimensions ?? undefined
  if (!speaksVertex(upstream)) {
    const requests = texts.map((text) => ({ model, content: { parts: [{ text }] }, taskType, outputDimensionality }))
    return { path: `/${model}:batchEmbedContents`, body: JSON.stringify({ requests }) }
  }
  const instances = texts.map((content) => ({ content, task_type: taskType }))
  // Otherwise long texts would be truncated silently.
  const parameters = { autoTruncate: false, outputDimensionality }
  return { path: `/${model}:predict`, body: JSON.stringify({ instances, parameters }) }
}

function toText(input: EmbeddingInput): string {
  if (typeof input === 'string') return input
  throw new UpstreamError('status', 'This model does not accept token IDs.', {
    status: 400,
    code: 'unsupported_parameter',
    param: 'input',
  })
}

export function readEmbeddings(json: unknown, embedding: EmbeddingsRequest, target: Target): AnswerEvent[] {
  const answer = asObject(json) ?? {}
  const error = geminiErrors.find(answer)
  if (error) throw geminiErrors.read(null, error, target)
  const isVertex = speaksVertex(target.upstream)
  const items = asList(isVertex ? answer.predictions : answer.embeddings).map(asObject)
  const found = isVertex ? items.map((item) => asObject(item?.embeddings)) : items
  const vectors = toVectors(
    found.map((item) => item?.values),
    embedding,
  )
  const usage = isVertex ? toSum(found) : toUsage(answer.usageMetadata)
  return [{ kind: 'embeddings', vectors }, ...(usage ? [{ kind: 'usage', usage } as const] : []), { kind: 'done' }]
}

/** Vertex counts per input; null unless it counts all. */
function toSum(found: readonly (JsonObject | null)[]) {
  let prompt = 0
  for (const item of found) {
    const count = asCount(asObject(item?.statistics)?.token_count)
    if (count === null) return null
    prompt += count
  }
  return { ...NO_USAGE, prompt }
}
