/**
 * Which keys have had checks ended because they took too long, in the last minute: what `checker.ts` goes by. A key and a
 * schema begin anew when a minute has passed. Pure; time comes in, from a clock that never steps.
 */

/** So long is remembered what was too slow. */
const MEMORY_MS = 60_000
/** A key that has had so many checks ended waits until the first of them is forgotten. */
export const MAX_ENDED = 5

interface Ended {
  atMs: number
  /** Hash of the schema that it had all of its time for; null where it had not, or where there was none. */
  schema: number | bigint | null
}

export class SlowKeys {
  /** By key, the oldest first; at most `MAX_ENDED` and those that were under way at once. */
  readonly #ended = new Map<string, Ended[]>()

  constructor(private readonly nowMs: () => number) {}

  /** Notes that a check was ended. @param schema where it had all the time that a check may have. */
  note(keyId: string, schema: string | null): void {
    const ended = { atMs: this.nowMs(), schema: schema === null ? null : Bun.hash(schema) }
    this.#ended.set(keyId, [...this.#of(keyId), ended])
  }

  /** Whether any was. */
  isSlow(keyId: string): boolean {
    // Nearly always there is none.
    return this.#ended.has(keyId) && this.#of(keyId).length > 0
  }

  /** Whether one against this schema was, after all the time that a check may have. */
  isTimedOut(keyId: string, schema: string | null): boolean {
    if (schema === null || !this.#ended.has(keyId)) return false
    const hash = Bun.hash(schema)
    return this.#of(keyId).some((each) => each.schema === hash)
  }

  /** How long until the key may have anything checked; 0 where it may now. */
  waitMs(keyId: string): number {
    if (!this.#ended.has(keyId)) return 0
    const ended = this.#of(keyId)
    const first = ended.at(-MAX_ENDED)
    return first ? first.atMs + MEMORY_MS - this.nowMs() : 0
  }

  /** Those that are remembered. */
  #of(keyId: string): Ended[] {
    const all = this.#ended.get(keyId) ?? []
    const sinceMs = this.nowMs() - MEMORY_MS
    const recent = all.filter(({ atMs }) => atMs > sinceMs)
    if (recent.length === 0) this.#ended.delete(keyId)
    return recent
  }
}
