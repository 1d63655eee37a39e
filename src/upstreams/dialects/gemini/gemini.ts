/**
 * The Gemini dialect: generateContent and streamGenerateContent, as Google AI Studio (v1beta) and Vertex serve them. Pure.
 * Loaded where an upstream speaks it.
 */
import type { Dialect, Readiness } from '../../backend.ts'
import { toRetryAfterMs, toStatusRefusal } from '../../failure.ts'
import { isServiceAccount } from '../../google/credential.ts'
import { AnswerDecoder } from './decoder.ts'
import { readEmbeddings, toEmbeddingRequest } from './embeddings.ts'
import { toBodyError } from './error.ts'
import { readModels } from './models.ts'
import { toWireRequest } from './request.ts'

export const gemini: Dialect = {
  probe: { path: () => '/models?pageSize=1', readiness: toReadiness },

  models: {
    path: (_, after) => `/models?pageSize=1000${after === null ? '' : `&pageToken=${encodeURIComponent(after)}`}`,
    read: readModels,
  },

  // In the address, where Google's own examples have it, it would be in logs.
  headers: (upstream) =>
    // A service account gets a token for each request.
    upstream.credential === null || isServiceAccount(upstream) ? {} : { 'x-goog-api-key': upstream.credential },

  requestIdHeader: 'x-request-id',

  request: toWireRequest,

  whole: (json, expected) => new AnswerDecoder(expected).whole(json),

  decoder: (expected) => new AnswerDecoder(expected),

  embeddings: { request: toEmbeddingRequest, whole: readEmbeddings },

  failure: (status, body, headers, target) => toBodyError(status, body, target, toRetryAfterMs(headers)),
}

/** A wrong key is a 400 there, and nothing else of so plain a question is. */
function toReadiness(status: number): Readiness {
  if (status === 200) return { state: 'ready' }
  if (status >= 500 && status !== 501) return { state: 'degraded', reason: `its /models answered ${status}` }
  const isWrong = status === 400 || status === 401
  const refusal = toStatusRefusal(isWrong ? 401 : status)
  if (refusal?.of !== 'upstream') return { state: 'unknown' }
  return { state: 'refused', reason: `its /models answered ${status}: ${refusal.why}`, isWrong }
}
