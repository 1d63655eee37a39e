/**
 * Keys whose requests failed while those of other keys went well: what fails for them may be of their own making, and for
 * some time it says nothing about a target for other keys. Kept by one breaker; time comes in.
 */

/** A key that means harm is back at once; an outage in the meantime, others find out, too. */
const SUSPECT_MS = 10 * 60_000

export class Suspects {
  /** Until when, the one that was noted first at the beginning. */
  readonly #untilMs = new Map<string, number>()

  note(keyId: string, nowMs: number): void {
    for (const [id, untilMs] of this.#untilMs) {
      if (untilMs > nowMs) break
      this.#untilMs.delete(id)
    }
    this.#untilMs.delete(keyId)
    this.#untilMs.set(keyId, nowMs + SUSPECT_MS)
  }

  has(keyId: string, nowMs: number): boolean {
    return (this.#untilMs.get(keyId) ?? nowMs) > nowMs
  }
}
