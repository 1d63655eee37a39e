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

export const VERTEX_VERSION = 'vertex-2023-10-16'

/** Such an address ends in its publisher's name. */
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
