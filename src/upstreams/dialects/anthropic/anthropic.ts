/**
 * The Anthropic dialect: the Messages API (platform.claude.com/docs/en/api/messages), of Anthropic and of those who speak it.
 * Pure. Loaded where an upstream speaks it.
 */
import { asObject } from '../../../domain/json.ts'
import type { Dialect } from '../../backend.ts'
import { toListReadiness, toRetryAfterMs } from '../../failure.ts'
import { AnswerDecoder } from './decoder.ts'
import { toFailure } from './error.ts'
import { toHeaders, toPath, toWireRequest } from './hosts.ts'
import { readModels } from './models.ts'
import { messages } from './native.ts'

export const anthropic: Dialect = {
  probe: { path: (upstream) => toPath(upstream, '/models'), readiness: toListReadiness },

  models: {
    path: (upstream, after) =>
      toPath(upstream, `/models?limit=1000${after === null ? '' : `&after_id=${encodeURIComponent(after)}`}`),
    read: readModels,
  },

  headers: toHeaders,

  requestIdHeader: 'request-id',

  request: toWireRequest,

  whole: (json, expected) => new AnswerDecoder(expected).whole(asObject(json) ?? {}),

  decoder: (expected) => new AnswerDecoder(expected),

  native: { messages },

  failure: (status, body, headers, target) => toFailure(status, body, target, toRetryAfterMs(headers)),
}
