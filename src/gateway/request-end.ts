/**
 * Ends one request: when its client leaves, or before that, when the server stops. A client's own signal that anybody listens to costs
 * 4 us of 65 a request (a controller of its own with a listener at it, `bun run bench`), so that of this one only those pay who listen.
 */
import type { EndSignal } from '../domain/end-signal.ts'
import type { GatewayError } from '../domain/error.ts'

export class RequestEnd implements EndSignal {
  readonly #client: AbortSignal
  #stopped: GatewayError | null = null
  #listeners: Set<() => void> | null = null

  constructor(client: AbortSignal) {
    this.#client = client
  }

  get aborted(): boolean {
    return this.#stopped !== null || this.#client.aborted
  }

  /** The GatewayError that the client is to be told, or why it has left. */
  get reason(): unknown {
    return this.#stopped ?? this.#client.reason
  }

  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void {
    this.#listeners ??= new Set()
    this.#listeners.add(listener)
    this.#client.addEventListener(type, listener, options)
  }

  removeEventListener(type: 'abort', listener: () => void): void {
    this.#listeners?.delete(listener)
    this.#client.removeEventListener(type, listener)
  }

  /** Ends it. Does nothing where its client has left already. */
  stop(why: GatewayError): void {
    if (this.aborted) return
    this.#stopped = why
    for (const listener of this.#listeners ?? []) {
      this.#client.removeEventListener('abort', listener)
      listener()
    }
  }
}
