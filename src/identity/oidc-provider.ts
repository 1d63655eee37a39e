/**
 * An OpenID Connect provider, as `openid-client` asks it: where browsers are sent, and what it says of those who come back. Nothing
 * waits for it longer than ten seconds. What it is (its metadata, Discovery 1.0) is asked when it is first needed, and again every
 * hour, while what was known serves on.
 */

import type { Configuration, CustomFetchOptions } from 'openid-client'
import { ServiceError } from '../domain/service-error.ts'
import { readUpTo } from '../domain/text.ts'
import type { Log, LogFields } from '../log.ts'
import { type Claims, findClaim, type OidcSettings } from './oidc.ts'

const WAIT_MS = 10_000
const REFRESH_MS = 3_600_000
/** Not asked again for so long after it failed: anybody may begin a sign-in, and each would ask it, and be in the log. */
const PAUSE_MS = 5_000
/** How far its clock may be from ours. */
const SKEW_SECONDS = 60

/** One that was begun, and that the browser is to come back to. */
export interface PendingSignIn {
  /** What must come back with the browser, in the ID token, and to the provider's token endpoint (RFC 7636). */
  state: string
  nonce: string
  codeVerifier: string
  /** Where the provider sends the browser back to. */
  redirectUri: string
  /** Of the session that the browser had. */
  sessionId: string | null
}

export interface ProviderDeps {
  settings: OidcSettings
  log: Log
  now(): number
  waitMs?: number
}

export interface Provider {
  /** Where the browser goes to sign in. Throws `provider_unavailable` and `provider_wrong`. */
  toSignInUrl(signIn: PendingSignIn): Promise<URL>
  /**
   * Has the provider take the code with which a browser came back, and tells of whom it is.
   * @param url where the browser came back to. Throws `provider_unavailable`, `provider_wrong` and `sign_in_failed`.
   */
  redeem(url: URL, signIn: PendingSignIn): Promise<Claims>
}

/** That it is being asked what it is, or was in vain. */
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
      // What a provider takes that does not say: Discovery 1.0, section 3.
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

  /** Whoever comes while it is asked waits for the same answer; one that failed is theirs, too, who come soon after. */
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
    if (claims === undefined) throw new Error('there is no ID token')
    if (isWhole(claims, claim) || !configuration.serverMetadata().userinfo_endpoint) return claims
    const more = await client.fetchUserInfo(configuration, tokens.access_token, claims.sub)
    return { ...more, ...claims }
  }

  /** Puts whatever goes wrong into a sentence for who signs in, and the cause into the log, once however many wait. */
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
          // Some give groups to those alone who ask for them by name.
          scope: ['openid', 'profile', 'email', ...scopes.filter((scope) => scope === claim)].join(' '),
          ...{ state, nonce, code_challenge_method: 'S256' },
          code_challenge: await client.calculatePKCECodeChallenge(codeVerifier),
        })
      }),
    redeem: (url, signIn) => asking(() => within(waitMs, ask(url, signIn))),
  }
}

/** Whether an ID token says all that is asked of it; many providers say it at their userinfo endpoint alone. */
const isWhole = (claims: Claims, claim: string) =>
  findClaim(claims, claim) !== undefined && (claims.email !== undefined || claims.preferred_username !== undefined)

/** Rejects once the time is over, whatever becomes of the work. */
async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new DOMException('it took too long', 'TimeoutError')), ms)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

const FAILED = 'nobody can sign in through the identity provider: it cannot be asked, or what it says is wrong'
const UNAVAILABLE = 'The identity provider does not answer. Try again in a while.'
const WRONG =
  'What the identity provider says cannot be used. Begin again; whoever runs this server finds the cause in its log.'
const REFUSED = 'The identity provider has not signed you in. Begin again.'

const MAX_BYTES = 1024 ** 2

/** There was no answer, or not all of it. */
class Unreachable extends Error {}

async function fetchBounded(url: string, { body, ...options }: CustomFetchOptions): Promise<Response> {
  // The token endpoint alone is sent one (RFC 6749, section 3.2).
  const form = body instanceof URLSearchParams ? body : null
  try {
    const response = await fetch(url, { ...options, body: form })
    const { text, isWhole } = await readUpTo(response.body, MAX_BYTES)
    if (!isWhole) throw new Error('the answer is longer than a megabyte')
    const { status, headers } = response
    return new Response(text === '' ? null : text, { status, headers })
  } catch (cause) {
    throw new Unreachable('no answer', { cause })
  }
}

/** OAuth's own words (RFC 6749, sections 4.1.2.1 and 5.2) for what passes by itself, and for somebody who was not signed in. */
const PASSING = new Set(['server_error', 'temporarily_unavailable'])
const REFUSING = new Set([
  'access_denied',
  'invalid_grant',
  'login_required',
  'interaction_required',
  'consent_required',
])

/** Whether it may do well again by itself. */
function isUnavailable(error: unknown): boolean {
  const { name, code, error: word = '', cause } = toParts(error)
  if (name === 'TimeoutError' || code === 'OAUTH_TIMEOUT' || PASSING.has(word)) return true
  return cause instanceof Unreachable || (cause instanceof Response && cause.status >= 500)
}

/** Whether the provider works and has not signed somebody in, or not with this code. */
const wasRefused = (error: unknown): boolean => REFUSING.has(toParts(error).error ?? '')

/** Fixed sentences and codes: answers, claims and tokens hang deeper. */
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
