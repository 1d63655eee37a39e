/**
 * Sign-ins in progress at an identity provider or authenticator: for ten minutes, bound to the browser, single-use. In
 * memory, or in a cluster's PostgreSQL.
 */

import { MAX_NOTES, type SignInNote, type SignInNotes } from '../domain/sign-in-notes.ts'
import { hashToken } from '../keys/token.ts'
import { toNetwork } from './attempts.ts'

export const PENDING_MS = 10 * 60_000

export class Pending<What> {
  readonly #notes: SignInNotes

  constructor(notes: SignInNotes = new MemoryNotes()) {
    this.#notes = notes
  }

  /** Returns the cookie. */
  async begin(what: What, address: string, nowMs: number): Promise<string> {
    const secret = mintSecret()
    const note = { name: hashToken(secret), network: toNetwork(address), text: JSON.stringify(what) }
    await this.#notes.put({ ...note, endsMs: nowMs + PENDING_MS }, nowMs)
    return secret
  }

  /** Takes what was begun with this cookie; null if there is nothing, or if `isMeant` rejects it, which keeps it. */
  async take(secret: string | null, nowMs: number, isMeant: (what: What) => boolean): Promise<What | null> {
    if (secret === null) return null
    const name = hashToken(secret)
    const text = await this.#notes.find(name, nowMs)
    if (text === null) return null
    const what: What = JSON.parse(text)
    return isMeant(what) && (await this.#notes.remove(name)) ? what : null
  }
}

export class MemoryNotes implements SignInNotes {
  /** Oldest first. */
  readonly #kept = new Map<string, SignInNote>()

  get size(): number {
    return this.#kept.size
  }

  async put(note: SignInNote, nowMs: number): Promise<void> {
    for (const [name, { endsMs }] of this.#kept) {
      if (endsMs > nowMs) break
      this.#kept.delete(name)
    }
    this.#makeRoom(note.network)
    this.#kept.set(note.name, note)
  }

  #makeRoom(network: string): void {
    let count = 0
    let oldest = ''
    for (const [name, kept] of this.#kept) {
      if (kept.network !== network) continue
      oldest ||= name
      count++
    }
    if (count >= MAX_NOTES.network) this.#kept.delete(oldest)
    if (this.#kept.size >= MAX_NOTES.all) this.#kept.delete(this.#kept.keys().next().value ?? '')
  }

  async find(name: string, nowMs: number): Promise<string | null> {
    const found = this.#kept.get(name)
    return found === undefined || found.endsMs <= nowMs ? null : found.text
  }

  async remove(name: string): Promise<boolean> {
    return this.#kept.delete(name)
  }
}

/** 256 bits. */
export const mintSecret = () => Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url')
