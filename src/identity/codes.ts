/** Codes that let somebody in once: 128 bits, typed or pasted as `4h2k-…`; only a hash is kept. */
import { hashToken } from '../keys/token.ts'

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
