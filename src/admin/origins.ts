/**
 * Allowed hosts and origins, and cookies (RFC 6265bis). Only the hosts of `--public-url` and loopback are served: DNS rebinding shows as
 * another host, cross-site requests as another origin.
 */
import { isLoopback, toIp } from '../domain/ip.ts'
import type { RelyingParty } from '../identity/passkeys.ts'
import { PENDING_MS } from '../identity/pending.ts'

const SAFE_METHODS = ['GET', 'HEAD', 'OPTIONS']

export interface OwnOrigin {
  /** `https://gateway.example.com` */
  origin: string
  /** True for https: cookies get `Secure`. */
  isSecure: boolean
}

/** Null for a host that is not ours. @param publicUrls https origins */
export function toOwnOrigin(host: string | null, publicUrls: readonly string[]): OwnOrigin | null {
  const named = publicUrls.find((url) => new URL(url).host === host?.toLowerCase())
  if (named !== undefined) return { origin: named, isSecure: true }
  const url = host === null ? null : URL.parse(`http://${host}`)
  return url !== null && url.host === host?.toLowerCase() && isLoopback(url.hostname)
    ? { origin: url.origin, isSecure: false }
    : null
}

/**
 * Relying party of passkeys; null if browsers don't support them there: they need a host name, and https except on localhost (W3C
 * WebAuthn, 5.1.3 and 13.4.9).
 */
export function toRelyingParty({ origin, isSecure }: OwnOrigin): RelyingParty | null {
  const { hostname } = new URL(origin)
  const isName = toIp(hostname.replace(/^\[(.*)\]$/, '$1')) === null
  return isName && (isSecure || hostname === 'localhost') ? { id: hostname, origin } : null
}

/** True if a request may come from another origin, or a change has no origin. */
export function isForeign(method: string, headers: Headers, own: OwnOrigin): boolean {
  const origin = headers.get('origin')
  if (origin !== null) return origin !== own.origin
  const site = headers.get('sec-fetch-site')
  if (site !== null && site !== 'same-origin' && site !== 'none')
    return !(SAFE_METHODS.includes(method) && isOpening(headers))
  return !SAFE_METHODS.includes(method)
}

/** Links from other sites to our pages are allowed. */
const isOpening = (headers: Headers) =>
  headers.get('sec-fetch-mode') === 'navigate' && headers.get('sec-fetch-dest') === 'document'

/** Cross-site requests never carry the session; the sign-in cookie must survive the provider's redirect. */
const COOKIES = {
  session: { name: 'tollgate', sameSite: 'Strict', seconds: 30 * 86_400 },
  passkey: { name: 'tollgate-passkey', sameSite: 'Strict', seconds: PENDING_MS / 1_000 },
  signIn: { name: 'tollgate-sign-in', sameSite: 'Lax', seconds: PENDING_MS / 1_000 },
} as const
type Kind = keyof typeof COOKIES

/**
 * The prefix `__Host-` limits it to this host, TLS, and all paths. Cookies are shared by all ports of a host, so the name includes the
 * port: otherwise servers on one host would sign out each other's users.
 */
export function nameOf(kind: Kind, { origin, isSecure }: OwnOrigin): string {
  const { port } = new URL(origin)
  return `${isSecure ? '__Host-' : ''}${COOKIES[kind].name}${port === '' ? '' : `-${port}`}`
}

/** The secret, or null. */
export function readCookie(kind: Kind, headers: Headers, own: OwnOrigin): string | null {
  const prefix = `${nameOf(kind, own)}=`
  const found = (headers.get('cookie') ?? '').split(/; */).find((pair) => pair.startsWith(prefix))
  return found === undefined ? null : found.slice(prefix.length)
}

export const toCookie = (kind: Kind, secret: string, own: OwnOrigin) => write(kind, secret, COOKIES[kind].seconds, own)

/** Deletes the cookie. */
export const endCookie = (kind: Kind, own: OwnOrigin) => write(kind, '', 0, own)

const write = (kind: Kind, value: string, seconds: number, own: OwnOrigin) =>
  // Without TLS, other servers on this machine only get it below `/admin`.
  `${nameOf(kind, own)}=${value}; Path=${own.isSecure ? '/' : '/admin'}; HttpOnly; SameSite=${COOKIES[kind].sameSite}; Max-Age=${seconds}${own.isSecure ? '; Secure' : ''}`
