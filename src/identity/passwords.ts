/**
 * Passwords of those who sign in: what one must be, and its hash: argon2id with OWASP's first choice of parameters (Password Storage
 * Cheat Sheet: 19 MiB, two passes), on a thread of the runtime's.
 */
import { ServiceError } from '../domain/service-error.ts'

const PARAMETERS = { algorithm: 'argon2id', memoryCost: 19_456, timeCost: 2 } as const

/** NIST SP 800-63B: long rather than mixed; a longer one is hashed all the same, up to here. */
const LENGTHS = { min: 12, max: 1_000 }

/** Throws `invalid` for one that would be guessed. */
export function requireGoodPassword(password: string, name: string): void {
  const { length } = password
  if (length < LENGTHS.min || length > LENGTHS.max) throw invalid(`it must have ${LENGTHS.min} characters or more`)
  if (new Set(password).size < 5) throw invalid('it repeats itself too much')
  if (password.toLowerCase().includes(name)) throw invalid('it must not contain the name')
}

const invalid = (rule: string) =>
  new ServiceError({ kind: 'invalid', field: 'password' }, `The password is too weak: ${rule}.`)

export const hashPassword = (password: string): Promise<string> => inTurn(() => Bun.password.hash(password, PARAMETERS))

/** The hash of a password that nobody knows. */
const DECOY =
  '$argon2id$v=19$m=19456,t=2,p=1$IaH3dyL+wErOkuWyFVZ/5jVFopYEaqf4KxvoPmhTnyU$XOFHJJ14S+amQ4lK/27DdSd/4f2Nh3CvpukLHBvkTuM'

/** Takes as long where there is no such person, or no password, as where there is one. */
export async function isPassword(password: string, hash: string | null): Promise<boolean> {
  const isRight = await inTurn(() => Bun.password.verify(password.slice(0, LENGTHS.max + 1), hash ?? DECOY))
  return isRight && hash !== null
}

/** One at a time: each takes 19 MiB and a core, which requests want, too. */
let last: Promise<unknown> = Promise.resolve()
let waiting = 0
const MOST_WAITING = 20

async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (waiting >= MOST_WAITING)
    throw new ServiceError({ kind: 'too_many_attempts', retryAfterMs: 5_000 }, 'Too many are signing in right now.')
  waiting++
  const turn = last.then(work)
  last = turn.catch(() => {})
  try {
    return await turn
  } finally {
    waiting--
  }
}
