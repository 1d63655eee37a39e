/**
 * Probes an HTTP upstream by the request of its dialect that costs nothing, and says in words why a host could not be
 * reached, from statuses and codes only: messages may quote what was sent. Called by the prober and by whoever tests an
 * upstream by hand.
 */
import { nameOf, UpstreamError } from '../domain/error.ts'
import type { Upstream } from '../domain/snapshot.ts'
import type { Authority, Readiness } from './backend.ts'
import type { WireFormat } from './dialects/dialect.ts'
import { toReadiness } from './failure.ts'
import { isOurShortage } from './shortage.ts'

/**
 * Never throws. A signal that aborts counts as no answer in time. Down is only what cannot be reached: one that is late, or
 * breaks off, may chat all the same. Behind a proxy the proxy is asked, as it is for calls.
 */
export async function askReadiness(
  dialect: WireFormat,
  upstream: Upstream,
  signal: AbortSignal,
  authority: Authority | null,
): Promise<Readiness> {
  const { probe } = upstream.options
  const path = probe ?? dialect.probe.path(upstream)
  const url = URL.parse(`${probe === undefined ? upstream.baseUrl : toRoot(upstream)}${path}`)
  if (url === null) return { state: 'down', reason: 'its base_url is no address' }
  let asked = path
  try {
    const granting = authority?.headers(upstream, { path, body: '' })
    if (granting instanceof Promise) asked = 'token endpoint'
    const granted = granting instanceof Promise ? await whileWanted(granting, signal) : granting
    asked = path
    const response = await fetch(url, {
      headers: { accept: 'application/json', ...toOwnHeaders(upstream), ...dialect.headers(upstream), ...granted },
      redirect: 'manual',
      // Whether a new connection comes about is part of what it asks.
      keepalive: false,
      signal,
    })
    response.body?.cancel().catch(() => {})
    if (response.status === 401) authority?.refused(upstream)
    return probe === undefined ? dialect.probe.readiness(response.status) : toHealth(response.status, path)
  } catch (error) {
    if (signal.aborted) return { state: 'timeout', reason: `its ${asked} did not answer in time` }
    if (error instanceof UpstreamError) {
      const { message: reason, status } = error
      return status === 401 ? { state: 'refused', reason, isWrong: true } : { state: 'degraded', reason }
    }
    if (isOurShortage(error)) return { state: 'not_made', reason: 'this process has no files or ports left to ask it' }
    return { state: WORDS[nameOf(error)] === RESET ? 'degraded' : 'down', reason: toReason(error) }
  }
}

/** The address of what a server has beside OpenAI's API. */
export const toRoot = ({ baseUrl }: Pick<Upstream, 'baseUrl'>): string => (baseUrl ?? '').replace(/\/v1$/, '')

/** What servers say of themselves alone: 503 while they load. */
const toHealth = (status: number, path: string): Readiness =>
  status === 503
    ? { state: 'degraded', reason: `its ${path} answered 503: it is loading, or has no model` }
    : toReadiness(path, status)

/** Headers that the catalogue gives every request to an upstream. */
export const toOwnHeaders = ({ options: { headers = {} } }: Upstream): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

/** The other side had taken the connection before it broke. */
const RESET = 'the connection was reset'
const UNKNOWN_SIGNER = 'its certificate is signed by nobody who is known here'

const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: RESET,
  ECONNABORTED: RESET,
  EPIPE: RESET,
  EHOSTUNREACH: 'there is no route to its host',
  EHOSTDOWN: 'its host is down',
  ENETUNREACH: 'there is no route to its network',
  ETIMEDOUT: 'the connection timed out',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is signed by itself',
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_SIGNER,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_SIGNER,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_SIGNER,
}

/** What a resolver says of a name that it cannot find, or not now. */
const RESOLVER = /^(ENOTFOUND|ENODATA|ENONAME|EAI_\w+|DNS_\w+|ESERVFAIL|EREFUSED|ETIMEOUT|EBADNAME)$/

/** Names no host: clients may read it, and who runs this sees the address beside it. */
export function toReason(error: unknown): string {
  const code = nameOf(error)
  return RESOLVER.test(code) ? 'its name does not resolve' : (WORDS[code] ?? `it could not be reached (${code})`)
}

export async function whileWanted<T>(pending: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  try {
    return await Promise.race([pending, aborted])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
