/**
 * Checks an HTTP upstream for free and explains why a host is unreachable. Uses only status and error code, since messages may quote the
 * request.
 */
import { nameOf, UpstreamError } from '../domain/error.ts'
import type { Upstream } from '../domain/snapshot.ts'
import type { Authority, Readiness } from './backend.ts'
import type { WireFormat } from './dialects/dialect.ts'
import { toReadiness } from './failure.ts'
import { isOurShortage } from './shortage.ts'

/**
 * Never throws. Only an unreachable upstream is down: one that is late or closes the connection may still chat. The check uses a proxy
 * if calls do.
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
  if (url === null) return { state: 'down', reason: 'base_url is not a valid URL' }
  let asked = path
  try {
    const granting = authority?.headers(upstream, { path, body: '' })
    if (granting instanceof Promise) asked = 'token endpoint'
    const granted = granting instanceof Promise ? await whileWanted(granting, signal) : granting
    asked = path
    const response = await fetch(url, {
      headers: { accept: 'application/json', ...toOwnHeaders(upstream), ...dialect.headers(upstream), ...granted },
      redirect: 'manual',
      // The check must open a new connection.
      keepalive: false,
      signal,
    })
    response.body?.cancel().catch(() => {})
    if (response.status === 401) authority?.refused(upstream)
    return probe === undefined ? dialect.probe.readiness(response.status) : toHealth(response.status, path)
  } catch (error) {
    if (signal.aborted) return { state: 'timeout', reason: `${asked} timed out` }
    if (error instanceof UpstreamError) {
      const { message: reason, status } = error
      return status === 401 ? { state: 'refused', reason, isWrong: true } : { state: 'degraded', reason }
    }
    if (isOurShortage(error))
      return { state: 'not_made', reason: 'Tollgate has no file descriptors or ports left for the check' }
    return { state: WORDS[nameOf(error)] === RESET ? 'degraded' : 'down', reason: toReason(error) }
  }
}

/** Root URL of a server, for its endpoints outside OpenAI's API. */
export const toRoot = ({ baseUrl }: Pick<Upstream, 'baseUrl'>): string => (baseUrl ?? '').replace(/\/v1$/, '')

/** Health endpoints of local servers return 503 while they load. */
const toHealth = (status: number, path: string): Readiness =>
  status === 503
    ? { state: 'degraded', reason: `${path} returned 503: loading, or no model` }
    : toReadiness(path, status)

/** Headers that the catalog adds to every request to an upstream. */
export const toOwnHeaders = ({ options: { headers = {} } }: Upstream): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

/** The other side had accepted the connection before it broke. */
const RESET = 'connection reset'
const UNKNOWN_SIGNER = 'certificate signed by an unknown authority'

const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: RESET,
  ECONNABORTED: RESET,
  EPIPE: RESET,
  EHOSTUNREACH: 'no route to host',
  EHOSTDOWN: 'host is down',
  ENETUNREACH: 'no route to network',
  ETIMEDOUT: 'connection timed out',
  CERT_HAS_EXPIRED: 'certificate has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'certificate is for another name',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'self-signed certificate',
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_SIGNER,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_SIGNER,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_SIGNER,
}

/** Codes of a resolver that can't resolve a name, permanently or temporarily. */
const RESOLVER = /^(ENOTFOUND|ENODATA|ENONAME|EAI_\w+|DNS_\w+|ESERVFAIL|EREFUSED|ETIMEOUT|EBADNAME)$/

/** Names no host, since clients may read it; operators see the URL next to it. */
export function toReason(error: unknown): string {
  const code = nameOf(error)
  return RESOLVER.test(code) ? 'host name does not resolve' : (WORDS[code] ?? `unreachable (${code})`)
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
