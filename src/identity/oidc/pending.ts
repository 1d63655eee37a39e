/**
 * Sign-ins that wait for somebody to come back from their identity provider: in memory, for ten minutes, each bound to the browser
 * that began it and good for one return. Whoever begins many pushes out their own: at one address first.
 */
import { hashToken } from '../../keys/token.ts'
import { toNetwork } from '../attempts.ts'

export interface PendingSignIn {
  /** What must come back with the browser, in the ID token, and to the provider's token endpoint (RFC 7636). */
  state: string
  nonce: string
  codeVerifier: string
  /** Where the provider sends the browser back to. */
  redirectUri: string
  /** Of the session that the browser had. */
  sessionId: string | null
}

interface Kept extends PendingSignIn {
  network: string
  endsMs: number
}

export const PENDING_MS = 10 * 60_000
const MOST = { network: 100, all: 10_000 }

export class PendingSignIns {
  /** By the hash of what the browser keeps; the oldest first. */
  readonly #kept = new Map<string, Kept>()

  get size(): number {
    return this.#kept.size
  }

  /** Returns what the browser must bring back as a cookie. */
  begin(signIn: PendingSignIn, address: string, nowMs: number): string {
    const network = toNetwork(address)
    for (const [hash, { endsMs }] of this.#kept) {
      if (endsMs > nowMs) break
      this.#kept.delete(hash)
    }
    this.#makeRoom(network)
    const secret = mintSecret()
    this.#kept.set(hashToken(secret), { ...signIn, network, endsMs: nowMs + PENDING_MS })
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
    if (count >= MOST.network) this.#kept.delete(oldest)
    if (this.#kept.size >= MOST.all) this.#kept.delete(this.#kept.keys().next().value ?? '')
  }

  /**
   * The sign-in that comes back with this cookie and this state; null where there is none. A state that is wrong leaves it to whom
   * it belongs: any page could send a browser here with one.
   */
  take(secret: string, state: string, nowMs: number): PendingSignIn | null {
    const hash = hashToken(secret)
    const found = this.#kept.get(hash)
    if (found === undefined || found.endsMs <= nowMs || found.state !== state) return null
    this.#kept.delete(hash)
    return found
  }
}

/** 256 bits. */
export const mintSecret = () => Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url')
