/** The Anthropic dialect: the Messages API (platform.claude.com/docs/en/api/messages), of Anthropic and compatible servers. */
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { Target, Upstream } from '../../../domain/snapshot.ts'
import { toAuthHeaders, toChatPath } from '../../auth.ts'
import { toListReadiness } from '../../failure.ts'
import type { WireFormat, WireRequest } from '../dialect.ts'
import { AnswerDecoder } from './decoder.ts'
import { anthropicErrors } from './errors.ts'
import { messages } from './messages.ts'
import { readModels } from './models.ts'
import { toBody, VERSION } from './request.ts'

export const anthropic: WireFormat = {
  probe: { path: (upstream) => toPath(upstream, '/models'), readiness: toListReadiness },

  models: {
    path: (upstream, after) =>
      toPath(upstream, `/models?limit=1000${after === null ? '' : `&after_id=${encodeURIComponent(after)}`}`),
    read: readModels,
  },

  headers: toHeaders,

  requestIdHeader: 'request-id',

  request: toWireRequest,

  whole: (json, expected, text) => new AnswerDecoder(expected).whole(json, text),

  decoder: (expected) => new AnswerDecoder(expected),

  framing: 'events',

  passthrough: { messages },

  embeddings: null,

  errors: anthropicErrors,
}

/**
 * Paths of the API: at Anthropic or a compatible server, or at Google's Vertex, whose path names the model
 * (docs.cloud.google.com/vertex-ai, Claude models).
 */
export const VERTEX_VERSION = 'vertex-2023-10-16'

/** A Vertex base URL ends in the publisher's name. */
export const isVertex = ({ baseUrl }: Pick<Upstream, 'baseUrl'>) => baseUrl?.endsWith('/publishers/anthropic') === true

export function toWireRequest(body: CanonicalRequest, target: Target): WireRequest {
  const path = toMessagesPath(target, body.stream === true)
  const sent = toBody(body, target)
  if (!isVertex(target.upstream)) return { path, body: JSON.stringify(sent) }
  const { model: _, ...rest } = sent
  return { path, body: JSON.stringify({ anthropic_version: VERTEX_VERSION, ...rest }) }
}

export function toMessagesPath({ upstream, upstreamModel }: Target, isStream: boolean): string {
  if (!isVertex(upstream)) return toChatPath(upstream.options, upstreamModel, toPath(upstream, '/messages'))
  const method = isStream ? 'streamRawPredict' : 'rawPredict'
  return `/models/${encodeURIComponent(upstreamModel).replaceAll('%40', '@')}:${method}`
}

export const toPath = (upstream: Upstream, path: string): string =>
  upstream.baseUrl?.endsWith('/v1') || isVertex(upstream) ? path : `/v1${path}`

export function toHeaders(upstream: Upstream): Record<string, string> {
  const { options } = upstream
  return {
    ...(isVertex(upstream) ? {} : { 'anthropic-version': options.api_version ?? VERSION }),
    ...(options.betas?.length ? { 'anthropic-beta': options.betas.join(',') } : {}),
    ...toAuthHeaders(upstream, isVertex(upstream) ? 'bearer' : (options.auth ?? 'x-api-key')),
  }
}
