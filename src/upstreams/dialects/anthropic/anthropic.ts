/**
 * The Anthropic dialect: the Messages API (platform.claude.com/docs/en/api/messages), of Anthropic and of those who speak it.
 * Pure. Its base URL is the provider's address, with `/v1` or without.
 */
import { asObject } from '../../../domain/json.ts'
import type { Upstream } from '../../../domain/snapshot.ts'
import type { Dialect } from '../../backend.ts'
import { toListReadiness, toRetryAfterMs } from '../../failure.ts'
import { AnswerDecoder } from './decoder.ts'
import { toFailure } from './error.ts'
import { toBody, VERSION } from './request.ts'

export const anthropic: Dialect = {
  probe: { path: (upstream) => below(upstream, '/models'), readiness: toListReadiness },

  headers: ({ credential, options }) => ({
    'anthropic-version': options.api_version ?? VERSION,
    ...(options.betas?.length ? { 'anthropic-beta': options.betas.join(',') } : {}),
    ...(credential === null ? {} : toAuth(credential, options.auth)),
  }),

  requestIdHeader: 'request-id',

  request: (body, target) => ({
    path: target.upstream.options.path ?? below(target.upstream, '/messages'),
    body: JSON.stringify(toBody(body, target)),
  }),

  whole: (json, expected) => new AnswerDecoder(expected).whole(asObject(json) ?? {}),

  decoder: (expected) => new AnswerDecoder(expected),

  failure: (status, body, headers, target) => toFailure(status, body, target, toRetryAfterMs(headers)),
}

const below = ({ baseUrl }: Upstream, path: string) => (baseUrl?.endsWith('/v1') ? path : `/v1${path}`)

const toAuth = (credential: string, auth: Upstream['options']['auth']): Record<string, string> =>
  auth === 'bearer' ? { authorization: `Bearer ${credential}` } : { 'x-api-key': credential }
