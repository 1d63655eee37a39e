/** The cookie of a session (RFC 6265bis): scripts of a page cannot read it, and no other site's request brings it. */
import type { Place } from './origins.ts'

/** With the prefix `__Host-` a browser takes it from this host alone, over TLS alone, for every path. */
const nameOf = ({ isSecure }: Place) => (isSecure ? '__Host-tollgate' : 'tollgate')

/** The secret that a request brings; null where it brings none. */
export function readCookie(headers: Headers, place: Place): string | null {
  const prefix = `${nameOf(place)}=`
  const found = (headers.get('cookie') ?? '').split(/; */).find((pair) => pair.startsWith(prefix))
  return found === undefined ? null : found.slice(prefix.length)
}

export const toCookie = (secret: string, place: Place) =>
  `${nameOf(place)}=${secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${30 * 86_400}${place.isSecure ? '; Secure' : ''}`

/** Has the browser forget it. */
export const endCookie = (place: Place) =>
  `${nameOf(place)}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0${place.isSecure ? '; Secure' : ''}`
