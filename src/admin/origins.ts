/**
 * Which addresses the dashboard answers under: those of `--public-url`, and this machine's own. A page that has had its name resolved
 * to this address anew (DNS rebinding) comes with another host, one of another site with another origin. Pure.
 */
import { isIn, toIp, toIpRange } from '../domain/ip.ts'
import type { RelyingParty } from '../identity/passkeys.ts'

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
