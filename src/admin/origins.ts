/**
 * Where a browser believes to be, and the cookies (RFC 6265bis) that it keeps for there. The dashboard answers under the addresses of
 * `--public-url` and this machine's own: a page that has had its name resolved to this address anew (DNS rebinding) comes with another host,
 * one of another site with another origin. Pure.
 */
import { isIn, toIp, toIpRange } from '../domain/ip.ts'
import type { RelyingParty } from '../identity/passkeys.ts'
import { PENDING_MS } from '../identity/pending.ts'

const SAFE_METHODS = ['GET', 'HEAD', 'OPTIONS']
const LOOPBACK = ['127.0.0.0/8', '::1'].map(toIpRange).filter((range) => 'bits' in range)

/** Where a browser believes to be. */
export interface OwnOrigin {
  /** Such as `https://gateway.example.com`. */
  origin: string
  /** Whether nobody between can read along: a cookie may be kept to that. */
  isSecure: boolean
}

/** @param publicUrls origins, all of them https. Returns null for a host that is none of ours. */
export function toOwnOrigin(host: string | null, publicUrls: readonly string[]): OwnOrigin | null {
  const named = publicUrls.find((url) => new URL(url).host === host?.toLowerCase())
  if (named !== undefined) return { origin: named, isSecure: true }
  const url = host === null ? null : URL.parse(`http://${host}`)
  return url !== null && url.host === host?.toLowerCase() && isLoopback(url.hostname)
    ? { origin: url.origin, isSecure: false }
    : null
}

/**
 * For whom passkeys are that are made or used there; null where browsers know none: they take names alone, and a name over plain HTTP only
 * where that is this machine's (W3C WebAuthn, 5.1.3 and 13.4.9).
 */
export function toRelyingParty({ origin, isSecure }: OwnOrigin): RelyingParty | null {
  const { hostname } = new URL(origin)
  const isName = toIp(hostname.replace(/^\[(.*)\]$/, '$1')) === null
  return isName && (isSecure || hostname === 'localhost') ? { id: hostname, origin } : null
}

function isLoopback(hostname: string): boolean {
  const ip = toIp(hostname.replace(/^\[(.*)\]$/, '$1'))
  return ip === null ? /^(.+\.)?localhost$/.test(hostname) : LOOPBACK.some((range) => isIn(range, ip))
}

/** Whether a request may come from a page of another origin, or from none that a browser would tell of. */
export function isForeign(method: string, headers: Headers, own: OwnOrigin): boolean {
  const origin = headers.get('origin')
  if (origin !== null) return origin !== own.origin
  const site = headers.get('sec-fetch-site')
  if (site !== null && site !== 'same-origin' && site !== 'none')
    return !(SAFE_METHODS.includes(method) && isOpening(headers))
  return !SAFE_METHODS.includes(method)
}

/** A link from elsewhere to a page of ours may be followed. */
const isOpening = (headers: Headers) =>
  headers.get('sec-fetch-mode') === 'navigate' && headers.get('sec-fetch-dest') === 'document'

/** What another site's request brings: nothing of a session; of a sign-in, what must come back when a provider sends the browser. */
const COOKIES = {
  session: { name: 'tollgate', sameSite: 'Strict', seconds: 30 * 86_400 },
  passkey: { name: 'tollgate-passkey', sameSite: 'Strict', seconds: PENDING_MS / 1_000 },
  signIn: { name: 'tollgate-sign-in', sameSite: 'Lax', seconds: PENDING_MS / 1_000 },
} as const
type Kind = keyof typeof COOKIES

/**
 * With the prefix `__Host-` a browser takes it from this host alone, over TLS alone, for every path. Browsers send cookies to every
 * port of a host: with the port in its name, servers beside each other do not sign each other's people out.
 */
export function nameOf(kind: Kind, { origin, isSecure }: OwnOrigin): string {
  const { port } = new URL(origin)
  return `${isSecure ? '__Host-' : ''}${COOKIES[kind].name}${port === '' ? '' : `-${port}`}`
}

/** The secret that a request brings; null where it brings none. */
export function readCookie(kind: Kind, headers: Headers, own: OwnOrigin): string | null {
  const prefix = `${nameOf(kind, own)}=`
  const found = (headers.get('cookie') ?? '').split(/; */).find((pair) => pair.startsWith(prefix))
  return found === undefined ? null : found.slice(prefix.length)
}

export const toCookie = (kind: Kind, secret: string, own: OwnOrigin) => write(kind, secret, COOKIES[kind].seconds, own)

/** Has the browser forget it. */
export const endCookie = (kind: Kind, own: OwnOrigin) => write(kind, '', 0, own)

const write = (kind: Kind, value: string, seconds: number, own: OwnOrigin) =>
  // Whatever else is served on this machine is sent it below `/admin` alone.
  `${nameOf(kind, own)}=${value}; Path=${own.isSecure ? '/' : '/admin'}; HttpOnly; SameSite=${COOKIES[kind].sameSite}; Max-Age=${seconds}${own.isSecure ? '; Secure' : ''}`
