/**
 * The bearer token of a request. @elysiajs/bearer reads the header. It would also take a secret from the URL, where
 * logs and histories keep it: that is switched off by a parameter name that nobody can guess. It knows the scheme as
 * `Bearer` only, though the case of a scheme does not count (RFC 9110, section 11.1): others are read here.
 */
import { bearer } from '@elysiajs/bearer'
import type { RequestHeaders } from '../gateway/body.ts'

const unguessable = crypto.randomUUID()

export const bearerToken = () => bearer({ extract: { body: unguessable, query: unguessable, header: 'Bearer' } })

/** The token that the plugin found, or the one behind a scheme in another case; null where there is none. */
export function toToken(found: string | undefined, headers: RequestHeaders): string | null {
  const header = headers.authorization ?? ''
  // The plugin takes whatever follows the word, be it glued to it or behind a colon.
  if (found && header.startsWith('Bearer ')) return found.trim()
  return /^bearer +(\S+)$/i.exec(header)?.[1] ?? null
}
