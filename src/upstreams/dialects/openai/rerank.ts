/**
 * Reranking in the formats of OpenAI-compatible servers, Cohere, Jina, Voyage, TEI, and DeepInfra. Requests differ only in field names,
 * and responses are read in any of their shapes. Requests the scores of all documents. The client's `top_n` is applied later.
 */

import type { RankedDocument } from '../../../domain/endpoint-results.ts'
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent } from '../../../domain/events.ts'
import { asList, asObject, type JsonObject } from '../../../domain/json.ts'
import { byScore, type RerankRequest } from '../../../domain/rerank.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { NO_USAGE, type Usage } from '../../../domain/usage.ts'
import { toEndpointPath } from '../../auth.ts'
import type { EndpointFormat, EndpointWire } from '../dialect.ts'
import { asCount } from '../readings.ts'
import { openAiErrors } from './errors.ts'
import { toEndpointBody } from './field-changes.ts'
import { findCharge } from './usage.ts'

export const rerank: EndpointFormat<RerankRequest> = { request: toRequest, whole: readRanking }

function toRequest(asked: RerankRequest, target: Target): EndpointWire {
  const body = toEndpointBody(toFields(asked, target), asked.extras, target.upstream.options)
  return { path: toPath(target), body: JSON.stringify(body) }
}

function toFields({ query, documents }: RerankRequest, { upstream: { options }, upstreamModel: model }: Target) {
  const fields: JsonObject =
    options.rerank === 'texts'
      ? { query, texts: documents }
      : options.rerank === 'queries'
        ? { queries: documents.map(() => query), documents }
        : { model, query, documents }
  return fields
}

/** DeepInfra's path is the model, after the base URL `https://api.deepinfra.com/v1/inference`. */
const toPath = (target: Target): string =>
  target.upstream.options.rerank === 'queries'
    ? `/${target.upstreamModel.split('/').map(encodeURIComponent).join('/')}`
    : toEndpointPath(target, '/rerank')

function readRanking(json: unknown, asked: RerankRequest, target: Target, text: string): AnswerEvent[] {
  const answer = asObject(json) ?? {}
  const items = itemsOf(json, answer)
  const error = items === null ? openAiErrors.find(answer) : null
  if (error) throw openAiErrors.read(null, error, target)
  if (items === null) throw new UpstreamError('broken', 'returned 200 with an invalid ranking')
  const documents = toDocuments(items, asked.documents.length)
  const events: AnswerEvent[] = [{ kind: 'result', result: { of: 'rerank', documents } }]
  const usage = toUsage(answer)
  if (usage) events.push({ kind: 'usage', usage })
  const nanoUsd = findCharge(answer, text, target.upstream.options.cost)
  if (nanoUsd !== null) events.push({ kind: 'charged', nanoUsd })
  events.push({ kind: 'done' })
  return events
}

/** Null if the response has no ranking. */
function itemsOf(json: unknown, { results, data, scores }: JsonObject): unknown[] | null {
  if (Array.isArray(scores)) return scores.map((score, index) => ({ index, score }))
  return [json, results, data].find(Array.isArray) ?? null
}

function toDocuments(items: readonly unknown[], count: number): RankedDocument[] {
  if (items.length !== count)
    throw new UpstreamError('broken', `returned ${items.length} results for ${count} documents`)
  const seen = new Set<number>()
  const documents = items.map((item): RankedDocument => {
    const { index, relevance_score: relevance, score = relevance } = asObject(item) ?? {}
    const isIndex = typeof index === 'number' && Number.isInteger(index) && index >= 0 && index < count
    if (!isIndex || seen.has(index)) throw new UpstreamError('broken', 'returned an invalid or repeated index')
    if (typeof score !== 'number' || !Number.isFinite(score))
      throw new UpstreamError('broken', 'returned an invalid score')
    seen.add(index)
    return { index, score }
  })
  return byScore(documents)
}

/** The first count that isn't 0. Servers write 0 for unknown. */
const firstCount = (...values: unknown[]): number => values.map(asCount).find((count) => count) ?? 0

function toUsage(answer: JsonObject): Usage | null {
  const [usage, meta] = [asObject(answer.usage), asObject(answer.meta)]
  const [billed, tokens] = [asObject(meta?.billed_units), asObject(meta?.tokens)]
  const prompt = firstCount(
    ...[usage?.prompt_tokens, usage?.input_tokens, usage?.total_tokens, billed?.input_tokens, tokens?.input_tokens],
    ...asList(answer.input_tokens),
    answer.input_tokens,
  )
  const searchUnits = firstCount(billed?.search_units, usage?.search_units)
  if (prompt + searchUnits === 0) return null
  return { ...NO_USAGE, prompt, ...(searchUnits > 0 ? { searchUnits } : {}), countedBy: 'upstream' }
}
