/** Keys that something holds for, each for a fixed time from when it was noted last. Time comes in. */
export class MarkedKeys {
  readonly #forMs: number
  /** Until when, the one that was noted first at the beginning. */
  readonly #untilMs = new Map<string, number>()

  constructor(forMs: number) {
    this.#forMs = forMs
  }

  note(keyId: string, nowMs: number): void {
    this.#dropExpired(nowMs)
    this.#untilMs.delete(keyId)
    this.#untilMs.set(keyId, nowMs + this.#forMs)
  }

  has(keyId: string, nowMs: number): boolean {
    return (this.#untilMs.get(keyId) ?? nowMs) > nowMs
  }

  forget(keyId: string): void {
    this.#untilMs.delete(keyId)
  }

  /** How many it holds for now. */
  count(nowMs: number): number {
    this.#dropExpired(nowMs)
    return this.#untilMs.size
  }

  #dropExpired(nowMs: number): void {
    for (const [id, untilMs] of this.#untilMs) {
      if (untilMs > nowMs) break
      this.#untilMs.delete(id)
    }
  }
}
