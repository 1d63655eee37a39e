/**
 * The Ollama dialect: its own API, and not the one that it has in OpenAI's format, by which it shortens histories without a word and
 * cannot be told how long its context is to be (github.com/ollama/ollama/blob/main/docs/api.md). Pure. Loaded where an upstream speaks it.
 */
import { toAuthHeaders } from '../../auth.ts'
import type { Dialect } from '../../backend.ts'
import { toRetryAfterMs, toStatusRefusal } from '../../failure.ts'
import { AnswerDecoder } from './decoder.ts'
import { readEmbeddings, toEmbeddingRequest } from './embeddings.ts'
import { toBodyError } from './error.ts'
import { askFurther, readModels } from './models.ts'
import { toWireRequest } from './request.ts'

export const ollama: Dialect = {
  probe: {
    path: () => '/api/version',
    readiness: (status) => {
      if (status === 200) return { state: 'ready' }
      if (status >= 500) return { state: 'degraded', reason: `its /api/version answered ${status}` }
      const refusal = toStatusRefusal(status)
      if (refusal?.of !== 'upstream') return { state: 'unknown' }
      return {
        state: 'refused',
        reason: `its /api/version answered ${status}: ${refusal.why}`,
        isWrong: status === 401,
      }
    },
  },

  models: { path: () => '/api/tags', read: readModels, further: askFurther },

  headers: (upstream) => toAuthHeaders(upstream, 'bearer'),

  requestIdHeader: 'x-request-id',

  framing: 'lines',

  request: toWireRequest,

  whole: (json, expected) => new AnswerDecoder(expected).whole(json),

  decoder: (expected) => new AnswerDecoder(expected),

  embeddings: { request: toEmbeddingRequest, whole: readEmbeddings },

  failure: (status, body, headers, target) => toBodyError(status, body, target, toRetryAfterMs(headers)),
}
