/** Writes responses of bytes, such as speech, with their end held back until it is settled. */
import type { AnswerEvent } from '../domain/events.ts'
import type { Writer } from './format.ts'

/** The last byte waits for the ledger: without it the response is incomplete. */
const HELD_BYTES = 1

export class BytesWriter implements Writer {
  readonly keepAlive = null
  #held: Uint8Array = new Uint8Array(0)

  /** @param usual content type, if the upstream says none. */
  constructor(private readonly usual: string) {}

  headers(contentType: string | undefined): Record<string, string> {
    return { 'content-type': contentType ?? this.usual, 'cache-control': 'no-cache, no-transform' }
  }

  take(events: readonly AnswerEvent[]): Uint8Array {
    const pieces = [this.#held]
    for (const event of events) if (event.kind === 'bytes') pieces.push(event.bytes)
    if (pieces.length === 1) return new Uint8Array(0)
    const all = Buffer.concat(pieces)
    this.#held = all.subarray(Math.max(0, all.length - HELD_BYTES))
    return all.subarray(0, all.length - this.#held.length)
  }

  tail(): Uint8Array {
    return this.#held
  }

  failure(): null {
    return null
  }
}
