/** Cookies (RFC 6265bis): of sessions, and of what waits for an identity provider or an authenticator. Scripts of a page cannot read them. */
import { PENDING_MS } from '../identity/pending.ts'
import type { OwnOrigin } from './origins.ts'

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
