/**
 * Access tokens of Google service accounts (RFC 7523), kept until five minutes before they expire and fetched once for all waiting calls.
 */
import { messageOf, nameOf, UpstreamError } from '../domain/error.ts'
import { asObject, asText, tryJson } from '../domain/json.ts'
import type { Upstream } from '../domain/snapshot.ts'
import { redact } from '../log.ts'
import { isJson, isServiceAccount, readServiceAccount, type ServiceAccount, TOKEN_URI } from './auth.ts'
import type { Authority } from './backend.ts'

export interface TokenDeps {
  /** Wall clock, ms. */
  now(): number
}

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'
const GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const LIFETIME_S = 3_600
const SPARE_MS = 5 * 60_000
const TIMEOUT_MS = 15_000
const MAX_CHARS = 64 * 1024

interface Token {
  value: string
  untilMs: number
}

export function createTokens({ now }: TokenDeps): Authority {
  const tokens = new Map<string, Token>()
  const fetching = new Map<string, Promise<Token>>()

  const renew = (credential: string, upstream: Upstream): Promise<Token> => {
    const underWay = fetching.get(credential)
    if (underWay) return underWay
    const fetched = fetchToken(credential, upstream.hasStoredCredential, now).then((token) => {
      tokens.set(credential, token)
      return token
    })
    const made = fetched.finally(() => fetching.delete(credential))
    fetching.set(credential, made)
    return made
  }

  return {
    headers(upstream) {
      const { credential } = upstream
      if (credential === null || !isServiceAccount(upstream)) return null
      const known = tokens.get(credential)
      if (known && now() < known.untilMs) return toHeaders(known)
      return renew(credential, upstream).then(toHeaders)
    },
    refused({ credential }) {
      if (credential !== null) tokens.delete(credential)
    },
  }
}

const toHeaders = ({ value }: Token) => ({ authorization: `Bearer ${value}` })

/** Throws an UpstreamError, with `status` 401 if the account is at fault. */
async function fetchToken(credential: string, hasStoredCredential: boolean, now: () => number): Promise<Token> {
  const account = await readAccount(credential, hasStoredCredential)
  const askedMs = now()
  const assertion = await toAssertion(account, Math.floor(askedMs / 1_000))
  const { status, body } = await exchange(account.tokenUri, assertion)
  const { access_token, expires_in, error, error_description } = asObject(body) ?? {}
  const value = asText(access_token)
  if (status === 200 && /^[\x21-\x7e]+$/.test(value)) {
    const lifetimeMs = 1_000 * (typeof expires_in === 'number' && expires_in > 0 ? expires_in : 0)
    return { value, untilMs: askedMs + Math.max(lifetimeMs - SPARE_MS, lifetimeMs / 2) }
  }
  if (status === 429 || status >= 500)
    throw new UpstreamError('status', `token endpoint returned ${status}`, { status: 503, retryable: true })
  const why = [asText(error), asText(error_description)].filter((each) => each !== '').join(': ')
  throw refusal(`was refused a token (${status}${why && `, ${redact(why).slice(0, 200)}`})`)
}

async function readAccount(credential: string, hasStoredCredential: boolean): Promise<ServiceAccount> {
  // A credential stored remotely must not read files of this machine, or reach any URL but Google's.
  if (hasStoredCredential && !isJson(credential))
    throw refusal('must be entered as JSON, not as a path: paste the content of its file')
  let text = credential
  try {
    if (!isJson(credential)) text = await Bun.file(credential).text()
  } catch (error) {
    throw refusal(`file cannot be read (${nameOf(error)})`)
  }
  const account = readServiceAccount(text)
  if (typeof account === 'string') throw refusal(`file ${account}`)
  if (hasStoredCredential && account.tokenUri !== TOKEN_URI) throw refusal(`must have the token_uri ${TOKEN_URI}`)
  return account
}

const refusal = (why: string) =>
  new UpstreamError('status', `service account ${why}`, { status: 401, code: 'service_account', retryable: false })

async function toAssertion({ email, privateKey, keyId, tokenUri }: ServiceAccount, iat: number): Promise<string> {
  const header = { alg: 'RS256', typ: 'JWT', ...(keyId === '' ? {} : { kid: keyId }) }
  const claims = { iss: email, scope: SCOPE, aud: tokenUri, iat, exp: iat + LIFETIME_S }
  const signed = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  try {
    const key = await importKey(privateKey)
    const signature = await crypto.subtle.sign(ALGORITHM.name, key, new TextEncoder().encode(signed))
    return `${signed}.${Buffer.from(signature).toString('base64url')}`
  } catch (error) {
    throw refusal(`has an invalid private_key (${nameOf(error)})`)
  }
}

const ALGORITHM = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }

function importKey(pem: string): Promise<CryptoKey> {
  const bytes = Buffer.from(pem.replace(/-----[A-Z ]+-----|\s/g, ''), 'base64')
  return crypto.subtle.importKey('pkcs8', new Uint8Array(bytes), ALGORITHM, false, ['sign'])
}

async function exchange(tokenUri: string, assertion: string): Promise<{ status: number; body: unknown }> {
  try {
    const response = await fetch(tokenUri, {
      method: 'POST',
      body: new URLSearchParams({ grant_type: GRANT, assertion }),
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    const text = await response.text()
    return { status: response.status, body: tryJson(text.slice(0, MAX_CHARS)) }
  } catch (error) {
    const why = `has an unreachable token endpoint (${nameOf(error)})`
    throw new UpstreamError('connection', why, { cause: messageOf(error) })
  }
}
