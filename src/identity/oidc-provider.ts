/**
 * An OpenID Connect provider, through `openid-client`: sign-in URLs and claims. No call takes longer than 10 s. Metadata (Discovery 1.0) is loaded on first use
 * and refreshed hourly in the background.
 */

import type { Configuration, CustomFetchOptions } from 'openid-client'
import { ServiceError } from '../domain/service-error.ts'
import { readUpTo } from '../domain/text.ts'
import type { Log, LogFields } from '../log.ts'
import { type Claims, findClaim, type OidcSettings } from './oidc.ts'

const WAIT_MS = 10_000
const REFRESH_MS = 3_600_000
/** Pause after a failure: anyone can begin a sign-in, and each would send a request and write a log line. */
const PAUSE_MS = 5_000
const SKEW_SECONDS = 60

/** A sign-in waiting for the browser to return. */
export interface PendingSignIn {
  /** Expected back from the browser, in the ID token, and at the token endpoint (RFC 7636). */
  state: string
  nonce: string
  codeVerifier: string
  redirectUri: string
  sessionId: string | null
}

export interface ProviderDeps {
  settings: OidcSettings
  log: Log
  now(): number
  waitMs?: number
}

export interface Provider {
  /** Throws `provider_unavailable` and `provider_wrong`. */
  toSignInUrl(signIn: PendingSignIn): Promise<URL>
  /**
   * Redeems the code with which a browser returned for claims.
   * @param url the URL it returned to. Throws `provider_unavailable`, `provider_wrong`, and `sign_in_failed`.
   */
  redeem(url: URL, signIn: PendingSignIn): Promise<Claims>
}

interface Discovery {
  answer: Promise<Configuration>
  failedMs: number | null
}

export function createProvider({ settings, log, now, waitMs = WAIT_MS }: ProviderDeps): Provider {
  const { issuer, clientId, clientSecret, claim } = settings
  let kept: { configuration: Configuration; atMs: number } | null = null
  let asked: Discovery | null = null

  async function discover(): Promise<Configuration> {
    const client = await import('openid-client')
    const [basic, post] = [client.ClientSecretBasic(clientSecret), client.ClientSecretPost(clientSecret)]
    const configuration = await client.discovery(
      new URL(issuer),
      clientId,
      { [client.clockTolerance]: SKEW_SECONDS },
      // Default authentication method if the metadata names none: Discovery 1.0, section 3.
      (server, ...rest) =>
        (server.token_endpoint_auth_methods_supported?.includes('client_secret_basic') === false ? post : basic)(
          server,
          ...rest,
        ),
      {
        timeout: waitMs / 1_000,
        [client.customFetch]: fetchBounded,
        execute: [
          client.enableNonRepudiationChecks,
          ...(issuer.startsWith('http://') ? [client.allowInsecureRequests] : []),
        ],
      },
    )
    kept = { configuration, atMs: now() }
    return configuration
  }

  function configured(): Promise<Configuration> {
    if (kept !== null && now() - kept.atMs < REFRESH_MS) return Promise.resolve(kept.configuration)
    if (asked === null || (asked.failedMs !== null && Math.abs(now() - asked.failedMs) >= PAUSE_MS)) asked = begin()
    if (kept === null) return asked.answer
    return Promise.resolve(kept.configuration)
  }

  /** Concurrent callers share the request, and for a while its failure. */
  function begin(): Discovery {
    const begun: Discovery = { answer: asking(() => within(waitMs, discover())), failedMs: null }
    begun.answer.then(
      () => {
        asked = null
      },
      () => {
        begun.failedMs = now()
      },
    )
    return begun
  }

  async function ask(url: URL, { state, nonce, codeVerifier, redirectUri }: PendingSignIn): Promise<Claims> {
    const client = await import('openid-client')
    const configuration = await configured()
    const cameBack = new URL(redirectUri)
    cameBack.search = url.search
    const tokens = await client.authorizationCodeGrant(configuration, cameBack, {
      ...{ expectedState: state, expectedNonce: nonce, pkceCodeVerifier: codeVerifier, idTokenExpected: true },
    })
    const claims = tokens.claims()
    if (claims === undefined) throw new Error('the response has no ID token')
    if (isWhole(claims, claim) || !configuration.serverMetadata().userinfo_endpoint) return claims
    const more = await client.fetchUserInfo(configuration, tokens.access_token, claims.sub)
    return { ...more, ...claims }
  }

  /** Converts failures to an error for the user, and logs the cause once, no matter how many wait. */
  async function asking<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (error instanceof ServiceError) throw error
      if (wasRefused(error)) throw new ServiceError({ kind: 'sign_in_failed' }, REFUSED)
      log.warn('oidc_failed', FAILED, toCause(error))
      throw isUnavailable(error)
        ? new ServiceError({ kind: 'provider_unavailable' }, UNAVAILABLE)
        : new ServiceError({ kind: 'provider_wrong' }, WRONG)
    }
  }

  return {
    toSignInUrl: ({ state, nonce, codeVerifier, redirectUri }) =>
      asking(async () => {
        const client = await import('openid-client')
        const configuration = await configured()
        const { scopes_supported: scopes = [] } = configuration.serverMetadata()
        return client.buildAuthorizationUrl(configuration, {
          redirect_uri: redirectUri,
          // Some providers send groups only if the scope names them.
          scope: ['openid', 'profile', 'email', ...scopes.filter((scope) => scope === claim)].join(' '),
          ...{ state, nonce, code_challenge_method: 'S256' },
          code_challenge: await client.calculatePKCECodeChallenge(codeVerifier),
        })
      }),
    redeem: (url, signIn) => asking(() => within(waitMs, ask(url, signIn))),
  }
}

/** True if the ID token has all needed claims; many providers send them only at the userinfo endpoint. */
const isWhole = (claims: Claims, claim: string) =>
  findClaim(claims, claim) !== undefined && (claims.email !== undefined || claims.preferred_username !== undefined)

/** Rejects after the timeout; the work continues. */
async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new DOMException('timed out', 'TimeoutError')), ms)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

const FAILED = 'identity provider sign-in failed: the provider is unreachable, or its response is invalid'
const UNAVAILABLE = 'The identity provider is not responding. Try again later.'
const WRONG = "The identity provider's response is invalid. Try again; the server log has the cause."
const REFUSED = 'The identity provider did not sign you in. Try again.'

const MAX_BYTES = 1024 ** 2

/** No response, or an incomplete one. */
class Unreachable extends Error {}

async function fetchBounded(url: string, { body, ...options }: CustomFetchOptions): Promise<Response> {
  // Only the token endpoint gets a body (RFC 6749, section 3.2).
  const form = body instanceof URLSearchParams ? body : null
  try {
    const response = await fetch(url, { ...options, body: form })
    const { text, isWhole } = await readUpTo(response.body, MAX_BYTES)
    if (!isWhole) throw new Error('the response exceeds 1 MiB')
    const { status, headers } = response
    return new Response(text === '' ? null : text, { status, headers })
  } catch (cause) {
    throw new Unreachable('no response', { cause })
  }
}

/** OAuth errors (RFC 6749, sections 4.1.2.1 and 5.2) that are temporary, and those that mean the user was not signed in. */
const PASSING = new Set(['server_error', 'temporarily_unavailable'])
const REFUSING = new Set([
  'access_denied',
  'invalid_grant',
  'login_required',
  'interaction_required',
  'consent_required',
])

function isUnavailable(error: unknown): boolean {
  const { name, code, error: word = '', cause } = toParts(error)
  if (name === 'TimeoutError' || code === 'OAUTH_TIMEOUT' || PASSING.has(word)) return true
  return cause instanceof Unreachable || (cause instanceof Response && cause.status >= 500)
}

/** True if the provider works but refused the user or the code. */
const wasRefused = (error: unknown): boolean => REFUSING.has(toParts(error).error ?? '')

/** Only fixed messages and codes: responses, claims, and tokens are nested deeper. */
export function toCause(error: unknown): LogFields {
  const { message, code, error: word, cause } = toParts(error)
  const below = cause instanceof Unreachable ? cause.cause : cause
  const { name, message: why, code: whyCode } = toParts(below)
  const reason = [message, ...(name === 'SyntaxError' || why === undefined ? [] : [why])].join(': ')
  const http = cause instanceof Response ? cause.status : undefined
  return { error: reason.slice(0, 300), code: code ?? whyCode, oauth_error: word?.slice(0, 100), http }
}

interface Parts {
  name?: string
  message?: string
  code?: string
  error?: string
  cause?: unknown
}

function toParts(error: unknown): Parts {
  if (!(error instanceof Error)) return {}
  const text = (field: 'code' | 'error') => {
    const value: unknown = field in error ? error[field as keyof Error] : undefined
    return typeof value === 'string' ? { [field]: value } : {}
  }
  return { name: error.name, message: error.message, cause: error.cause, ...text('code'), ...text('error') }
}
