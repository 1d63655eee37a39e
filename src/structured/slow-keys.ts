/**
 * Which keys have had slow checks in the last minute, and what these took: what `checker.ts` goes by. A key and a schema
 * begin anew when a minute has passed. Pure; time comes in, from a clock that never steps.
 */

/** So long is remembered what was slow. */
const MEMORY_MS = 60_000

interface Slow {
  atMs: number
  tookMs: number
  /** Hash of the schema that all the time there is was not enough for; null where it was, or where there was none. */
  schema: number | bigint | null
}

export class SlowKeys {
  /** By key, the oldest first. */
  readonly #slow = new Map<string, Slow[]>()

  /** @param mostMs a key whose slow checks have taken so long in the last minute waits until enough of it is forgotten. */
  constructor(
    private readonly mostMs: number,
    private readonly nowMs: () => number,
  ) {}

  /** Notes a slow check. @param schema where it was ended after all the time that there is. */
  note(shareId: string, tookMs: number, schema: string | null): void {
    const slow = { atMs: this.nowMs(), tookMs, schema: schema === null ? null : Bun.hash(schema) }
    this.#slow.set(shareId, [...this.#of(shareId), slow])
  }

  /** Whether a check of the key was slow. */
  isSlow(shareId: string): boolean {
    // Nearly always there is none.
    return this.#slow.has(shareId) && this.#of(shareId).length > 0
  }

  /** Whether all the time there is was not enough for this schema. */
  isTimedOut(shareId: string, schema: string | null): boolean {
    if (schema === null || !this.#slow.has(shareId)) return false
    const hash = Bun.hash(schema)
    return this.#of(shareId).some((each) => each.schema === hash)
  }

  /** How long until the key may have anything checked; 0 where it may now. */
  waitMs(shareId: string): number {
    if (!this.#slow.has(shareId)) return 0
    let leftMs = this.mostMs
    // What was last is forgotten last: with which one is there too much?
    for (const { atMs, tookMs } of this.#of(shareId).reverse()) {
      leftMs -= tookMs
      if (leftMs <= 0) return atMs + MEMORY_MS - this.nowMs()
    }
    return 0
  }

  /** Those that are remembered. */
  #of(shareId: string): Slow[] {
    const all = this.#slow.get(shareId) ?? []
    const sinceMs = this.nowMs() - MEMORY_MS
    const recent = all.filter(({ atMs }) => atMs > sinceMs)
    if (recent.length === 0) this.#slow.delete(shareId)
    return recent
  }
}
