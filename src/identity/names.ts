/** Names by which people sign in, such as addresses of mail. Pure. */
import { ServiceError } from '../domain/service-error.ts'
import { isVisible } from '../domain/text.ts'

const MOST_CHARS = 200

/** A name as it is kept and compared: without case, and in one form of what looks the same (Unicode: NFKC). */
export const toSignInName = (typed: string): string => typed.trim().normalize('NFKC').toLowerCase().slice(0, MOST_CHARS)

/** The name of somebody new. Throws `invalid`. */
export function requireSignInName(typed: string): string {
  const name = toSignInName(typed)
  if (name !== '' && typed.trim().length <= MOST_CHARS && !/\s/.test(name) && isVisible(name)) return name
  const message = 'The name must have 1 to 200 characters, none of them invisible, and no spaces.'
  throw new ServiceError({ kind: 'invalid', field: 'name' }, message)
}

/**
 * Whether a name that somebody else vouches for is that of one who is known here, letter by letter. Forms and cases of other letters
 * than A to Z are kept apart: the Kelvin sign becomes a k in lower case, and a mailbox with it is another one.
 */
export const isSameMailbox = (name: string, vouched: string): boolean =>
  name === vouched.trim().replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase())
