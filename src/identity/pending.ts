/**
 * Sign-ins in progress at an identity provider or authenticator: in memory, for ten minutes, bound to the browser, single-use. Too many from one address
 * displace their own first.
 */
import { hashToken } from '../keys/token.ts'
import { toNetwork } from './attempts.ts'

export const PENDING_MS = 10 * 60_000
const MAX = { network: 100, all: 10_000 }

interface Kept<What> {
  what: What
  network: string
  endsMs: number
}

export class Pending<What> {
  /** By hash of the cookie, oldest first. */
  readonly #kept = new Map<string, Kept<What>>()

  get size(): number {
    return this.#kept.size
  }

  /** Returns the cookie. */
  begin(what: What, address: string, nowMs: number): string {
    const network = toNetwork(address)
    for (const [hash, { endsMs }] of this.#kept) {
      if (endsMs > nowMs) break
      this.#kept.delete(hash)
    }
    this.#makeRoom(network)
    const secret = mintSecret()
    this.#kept.set(hashToken(secret), { what, network, endsMs: nowMs + PENDING_MS })
    return secret
  }

  #makeRoom(network: string): void {
    let count = 0
    let oldest = ''
    for (const [hash, kept] of this.#kept) {
      if (kept.network !== network) continue
      oldest ||= hash
      count++
    }
    if (count >= MAX.network) this.#kept.delete(oldest)
    if (this.#kept.size >= MAX.all) this.#kept.delete(this.#kept.keys().next().value ?? '')
  }

  /** Takes what was begun with this cookie; null if there is nothing, or if `isMeant` rejects it, which keeps it. */
  take(secret: string | null, nowMs: number, isMeant: (what: What) => boolean): What | null {
    const hash = hashToken(secret ?? '')
    const found = this.#kept.get(hash)
    if (found === undefined || found.endsMs <= nowMs || !isMeant(found.what)) return null
    this.#kept.delete(hash)
    return found.what
  }
}

/** 256 bits. */
export const mintSecret = () => Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url')
