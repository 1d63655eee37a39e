/** Failed sign-ins in memory. */
import { FAILURE_WINDOW_MS, type FailureSubject, type SignInFailures } from '../domain/sign-in-failures.ts'

/** Oldest entries are dropped first, except those of accounts. */
export const MAX_REMEMBERED = 10_000

export class MemoryFailures implements SignInFailures {
  /** Times by name; the latest last. */
  readonly #failures = new Map<string, number[]>()
  /** Separate, so that no flood displaces them. */
  readonly #ofAccounts = new Map<string, number[]>()

  get size(): number {
    return this.#failures.size + this.#ofAccounts.size
  }

  async begin(subjects: readonly FailureSubject[], nowMs: number): Promise<number> {
    const waitMs = this.#toWaitMs(subjects, nowMs)
    if (waitMs > 0) return waitMs
    for (const subject of subjects) this.#count(subject, nowMs)
    return 0
  }

  async waitMs(subjects: readonly FailureSubject[], nowMs: number): Promise<number> {
    return this.#toWaitMs(subjects, nowMs)
  }

  async takeBack(subjects: readonly FailureSubject[], atMs: number): Promise<void> {
    for (const subject of subjects) {
      const all = this.#of(subject)
      const times = all.get(subject.name) ?? []
      const at = times.lastIndexOf(atMs)
      if (at < 0) continue
      if (times.length === 1) all.delete(subject.name)
      else all.set(subject.name, times.toSpliced(at, 1))
    }
  }

  async reset(name: string): Promise<void> {
    this.#failures.delete(name)
  }

  #of({ isAccount }: FailureSubject): Map<string, number[]> {
    return isAccount ? this.#ofAccounts : this.#failures
  }

  #recent(subject: FailureSubject, nowMs: number): number[] {
    return (this.#of(subject).get(subject.name) ?? []).filter((ms) => ms > nowMs - FAILURE_WINDOW_MS)
  }

  #toWaitMs(subjects: readonly FailureSubject[], nowMs: number): number {
    const waits = subjects.map((subject) => {
      const decides = this.#recent(subject, nowMs).at(-subject.most)
      return decides === undefined ? 0 : decides + FAILURE_WINDOW_MS - nowMs
    })
    return Math.max(...waits)
  }

  #count(subject: FailureSubject, nowMs: number): void {
    const times = this.#recent(subject, nowMs)
    const all = this.#of(subject)
    all.delete(subject.name)
    all.set(subject.name, [...times, nowMs])
    forget(this.#failures, MAX_REMEMBERED)
  }
}

export function forget(kept: Map<string, unknown> | Set<string>, most: number): void {
  for (const oldest of kept.keys()) {
    if (kept.size <= most) break
    kept.delete(oldest)
  }
}
