/**
 * Where the API is: at its own address, or at one that has its paths; or at Google's Vertex, whose path names the model
 * (docs.cloud.google.com/vertex-ai, Claude models). Pure.
 */
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { Target, Upstream } from '../../../domain/snapshot.ts'
import { toAuthHeaders } from '../../auth.ts'
import type { WireRequest } from '../../backend.ts'
import { toChatPath } from '../../chat-path.ts'
import { toBody, VERSION } from './request.ts'

const VERTEX_VERSION = 'vertex-2023-10-16'

/** Such an address ends in its publisher's name. */
const isVertex = ({ baseUrl }: Pick<Upstream, 'baseUrl'>) => baseUrl?.endsWith('/publishers/anthropic') === true

export function toWireRequest(body: CanonicalRequest, target: Target): WireRequest {
  const { upstream } = target
  const sent = toBody(body, target)
  if (!isVertex(upstream))
    return {
      path: toChatPath(upstream.options, sent.model, toPath(upstream, '/messages')),
      body: JSON.stringify(sent),
    }
  const { model, ...rest } = sent
  const method = body.stream ? 'streamRawPredict' : 'rawPredict'
  return {
    path: `/models/${encodeURIComponent(model).replaceAll('%40', '@')}:${method}`,
    body: JSON.stringify({ anthropic_version: VERTEX_VERSION, ...rest }),
  }
}

/** A path of the API below the base URL, which may end in `/v1`. */
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
