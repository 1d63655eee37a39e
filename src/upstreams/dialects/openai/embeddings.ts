/** Embeddings in the OpenAI format: nearly the client's request, and vectors in any encoding. */

import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent } from '../../../domain/events.ts'
import { asObject, type JsonObject } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import type { EmbeddingsRequest } from '../../../domain/task.ts'
import { toVectors } from '../readings.ts'
import { openAiErrors } from './errors.ts'
import { toEndpointBody } from './field-changes.ts'
import { findCharge, findUsage } from './usage.ts'

/** The body according to the upstream's settings; unknown fields are forwarded. */
export function toEmbeddingBody(
  { inputs, dimensions, encoding, user, extras }: EmbeddingsRequest,
  { upstream: { options }, upstreamModel }: Target,
): JsonObject {
  const sent: JsonObject = { model: upstreamModel, input: inputs, encoding_format: encoding }
  if (dimensions !== null) sent.dimensions = dimensions
  if (user && options.user) sent.user = user
  return toEndpointBody(sent, extras, options)
}

export function readEmbeddings(
  json: unknown,
  embedding: EmbeddingsRequest,
  target: Target,
  text: string,
): AnswerEvent[] {
  const answer = asObject(json) ?? {}
  const { data } = answer
  const error = Array.isArray(data) ? null : openAiErrors.find(answer)
  if (error) throw openAiErrors.read(null, error, target)
  if (!Array.isArray(data)) throw new UpstreamError('broken', 'returned 200 with invalid embeddings')
  const vectors = toVectors(inOrder(data), embedding)
  const events: AnswerEvent[] = [{ kind: 'embeddings', vectors }]
  const usage = findUsage(answer)
  const nanoUsd = findCharge(answer, text, target.upstream.options.cost)
  if (usage !== null) events.push({ kind: 'usage', usage })
  if (nanoUsd !== null) events.push({ kind: 'charged', nanoUsd })
  events.push({ kind: 'done' })
  return events
}

function inOrder(data: readonly unknown[]): unknown[] {
  const items = data.map((item) => asObject(item) ?? {})
  if (items.every(({ index }) => index === undefined)) return items.map(({ embedding }) => embedding)
  const ordered = new Map(items.map(({ index, embedding }) => [index, embedding]))
  const vectors = items.map((_, at) => ordered.get(at))
  if (ordered.size !== items.length || vectors.includes(undefined))
    throw new UpstreamError('broken', 'returned vectors whose indexes do not match the inputs')
  return vectors
}
