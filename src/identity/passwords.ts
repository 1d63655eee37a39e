/**
 * Passwords and codes. A password is hashed with argon2id, by OWASP's first choice of parameters (Password Storage Cheat Sheet: 19 MiB,
 * two passes), on a thread of the runtime's; a code lets somebody in once: 128 bits, typed or pasted as `4h2k-…`; only a hash is kept.
 */
import { ServiceError } from '../domain/service-error.ts'
import { hashToken } from '../keys/token.ts'

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
const MAX_WAITING = 20

async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (waiting >= MAX_WAITING)
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

/** Crockford's base 32: nothing in it is taken for something else. */
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'
const BITS = 128
const GROUP = 5

export function mintCode(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(BITS / 8))
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const digits = bits.match(/.{1,5}/g)?.map((five) => ALPHABET[Number.parseInt(five.padEnd(5, '0'), 2)]) ?? []
  return (
    digits
      .join('')
      .match(new RegExp(`.{1,${GROUP}}`, 'g'))
      ?.join('-') ?? ''
  )
}

/** The hash of a code, however it was typed. */
export const hashCode = (code: string) => hashToken(code.toLowerCase().replaceAll(/[\s-]/g, ''))

const SETUP_MS = 15 * 60_000

/**
 * The code by which the first owner is made: in the server's memory alone, for a quarter of an hour. Wrong ones do not end it, or anybody
 * could keep the owner out; no number of them finds it (`attempts.ts` says how many an address may try).
 */
export class SetupCode {
  #made: { hash: string; endsMs: number } | null = null

  /** Makes one in place of the one before. */
  make(nowMs: number): string {
    const code = mintCode()
    this.#made = { hash: hashCode(code), endsMs: nowMs + SETUP_MS }
    return code
  }

  isRight(code: string, nowMs: number): boolean {
    return this.#made !== null && nowMs < this.#made.endsMs && hashCode(code) === this.#made.hash
  }

  end(): void {
    this.#made = null
  }
}
