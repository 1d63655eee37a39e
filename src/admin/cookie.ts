/** The cookie of a session (RFC 6265bis): scripts of a page cannot read it, and no other site's request brings it. */
import type { OwnOrigin } from './origins.ts'

/** With the prefix `__Host-` a browser takes it from this host alone, over TLS alone, for every path. */
const nameOf = ({ isSecure }: OwnOrigin) => (isSecure ? '__Host-tollgate' : 'tollgate')

/** The secret that a request brings; null where it brings none. */
export function readCookie(headers: Headers, own: OwnOrigin): string | null {
  const prefix = `${nameOf(own)}=`
  const found = (headers.get('cookie') ?? '').split(/; */).find((pair) => pair.startsWith(prefix))
  return found === undefined ? null : found.slice(prefix.length)
}

export const toCookie = (secret: string, own: OwnOrigin) =>
  `${nameOf(own)}=${secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${30 * 86_400}${own.isSecure ? '; Secure' : ''}`

/** Has the browser forget it. */
export const endCookie = (own: OwnOrigin) =>
  `${nameOf(own)}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0${own.isSecure ? '; Secure' : ''}`
