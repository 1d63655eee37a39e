/** Writes binary responses, such as speech. Holds back the end until the outcome is settled. */
import type { AnswerEvent } from '../domain/events.ts'
import type { Writer } from './format.ts'

export class BytesWriter implements Writer {
  readonly keepAlive = null
  #held: number | null = null

  /** @param usual content type if the upstream sends none. */
  constructor(private readonly usual: string) {}

  headers(contentType: string | undefined): Record<string, string> {
    return { 'content-type': contentType ?? this.usual, 'cache-control': 'no-cache, no-transform' }
  }

  /** Holds back the last byte until the ledger has the outcome. Without that byte, the response is incomplete. */
  take(events: readonly AnswerEvent[]): Uint8Array {
    const pieces = events.flatMap((event) => (event.kind === 'bytes' ? [event.bytes] : []))
    const [only] = pieces
    const all = pieces.length === 1 && only ? only : Buffer.concat(pieces)
    const last = all.at(-1)
    if (last === undefined) return all
    const held = this.#held
    this.#held = last
    if (held === null) return all.subarray(0, -1)
    // Changed in place: the writer owns the events, and copying each piece would be most of the work.
    all.copyWithin(1, 0, all.length - 1)
    all[0] = held
    return all
  }

  tail(): Uint8Array {
    return this.#held === null ? new Uint8Array(0) : Uint8Array.of(this.#held)
  }

  failure(): null {
    return null
  }
}
