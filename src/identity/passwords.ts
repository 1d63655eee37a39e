/**
 * Passwords are hashed with argon2id by OWASP's first choice of parameters (Password Storage Cheat Sheet: 19 MiB, two passes) on the runtime's threads. Codes
 * are single-use, 128 bits, typed or pasted as `4h2k-…`, and stored as a hash.
 */
import { ServiceError } from '../domain/service-error.ts'
import type { SignInNotes } from '../domain/sign-in-notes.ts'
import { hashToken } from '../keys/token.ts'
import { MemoryNotes } from './pending.ts'

const PARAMETERS = { algorithm: 'argon2id', memoryCost: 19_456, timeCost: 2 } as const

/** NIST SP 800-63B: length over complexity; the maximum bounds the work. */
const LENGTHS = { min: 12, max: 1_000 }

/** Throws `invalid` for the first that is empty. */
export function requireTyped(typed: Readonly<Partial<Record<'name' | 'code' | 'password', string>>>): void {
  for (const [field, text] of Object.entries(typed))
    if (text.trim() === '') throw new ServiceError({ kind: 'invalid', field }, `Enter the ${field}.`)
}

/** Throws `invalid`. @param name not empty */
export function requireGoodPassword(password: string, name: string): void {
  const { length } = password
  if (length < LENGTHS.min) throw invalid(`Use at least ${LENGTHS.min} characters.`)
  if (length > LENGTHS.max) throw invalid(`Use at most ${LENGTHS.max} characters.`)
  if (new Set(password).size < 5) throw invalid('Use at least 5 different characters.')
  if (password.toLowerCase().includes(name)) throw invalid("Don't use the name in the password.")
}

const invalid = (message: string) => new ServiceError({ kind: 'invalid', field: 'password' }, message)

export const hashPassword = (password: string): Promise<string> => inTurn(() => Bun.password.hash(password, PARAMETERS))

/** Hash of a random, unknown password. */
const DECOY =
  '$argon2id$v=19$m=19456,t=2,p=1$IaH3dyL+wErOkuWyFVZ/5jVFopYEaqf4KxvoPmhTnyU$XOFHJJ14S+amQ4lK/27DdSd/4f2Nh3CvpukLHBvkTuM'

/** Takes equally long if there is no such user, or no password. */
export async function isPassword(password: string, hash: string | null): Promise<boolean> {
  const isRight = await inTurn(() => Bun.password.verify(password.slice(0, LENGTHS.max + 1), hash ?? DECOY))
  return isRight && hash !== null
}

/** One at a time: each takes 19 MiB and a core, which requests need too. */
let last: Promise<unknown> = Promise.resolve()
let waiting = 0
const MAX_WAITING = 20

async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (waiting >= MAX_WAITING)
    throw new ServiceError(
      { kind: 'too_many_attempts', retryAfterMs: 5_000 },
      'Too many sign-ins at once. Try again in a few seconds.',
    )
  waiting++
  const turn = last.then(work)
  last = turn.catch(() => {})
  try {
    return await turn
  } finally {
    waiting--
  }
}

/** Crockford's base 32: no ambiguous characters. */
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

/** Ignores case, spaces, and dashes. */
export const hashCode = (code: string) => hashToken(code.toLowerCase().replaceAll(/[\s-]/g, ''))

const SETUP_MS = 15 * 60_000

const NAME = 'setup'

/**
 * The setup code of the first owner, valid for 15 minutes. Wrong attempts don't end it, or anyone could lock out the owner; `attempts.ts` limits them per
 * address.
 */
export class SetupCode {
  readonly #notes: SignInNotes

  constructor(notes: SignInNotes = new MemoryNotes()) {
    this.#notes = notes
  }

  async make(nowMs: number): Promise<string> {
    const code = mintCode()
    await this.#notes.put({ name: NAME, network: '', text: hashCode(code), endsMs: nowMs + SETUP_MS }, nowMs)
    return code
  }

  async isRight(code: string, nowMs: number): Promise<boolean> {
    return hashCode(code) === (await this.#notes.find(NAME, nowMs))
  }

  /** Errors are ignored: once there is an owner, the code has no effect. */
  async end(): Promise<void> {
    await this.#notes.remove(NAME).catch(() => false)
  }
}
