/**
 * Work that waits, by whose it is: owners take turns, and of each the first that came is the next. So however much one
 * owner has waiting, another one waits for one piece of it at most. Pure.
 */
export class Turns<Work> {
  /** Whose turn is next stands first. Nobody is in it who has nothing waiting. */
  readonly #waiting = new Map<string, Set<Work>>()

  add(owner: string, work: Work): void {
    this.#waiting.getOrInsertComputed(owner, () => new Set()).add(work)
  }

  /** How much waits for one owner. */
  count(owner: string): number {
    return this.#waiting.get(owner)?.size ?? 0
  }

  /** All that waits, in no order that means anything. */
  *all(): Generator<Work> {
    for (const works of this.#waiting.values()) yield* works
  }

  /** Which turn from now on is that of a piece of work, from 1 on; 0 where it does not wait. */
  position(owner: string, work: Work): number {
    const own = [...(this.#waiting.get(owner) ?? [])].indexOf(work)
    if (own === -1) return 0
    let position = own + 1
    let isBefore = true
    for (const [other, works] of this.#waiting) {
      if (other === owner) isBefore = false
      else position += Math.min(works.size, isBefore ? own + 1 : own)
    }
    return position
  }

  /** Who has the most waiting, and what of it came last; undefined where nothing waits. */
  longest(): { owner: string; last: Work; count: number } | undefined {
    let found: { owner: string; last: Work; count: number } | undefined
    for (const [owner, works] of this.#waiting) {
      const last = [...works].at(-1)
      if (last !== undefined && works.size > (found?.count ?? 0)) found = { owner, last, count: works.size }
    }
    return found
  }

  /** Whether something waits for anybody else. */
  hasOthers(owner: string): boolean {
    return this.#waiting.size > (this.#waiting.has(owner) ? 1 : 0)
  }

  /** What is next; undefined where nothing waits. */
  first(): Work | undefined {
    for (const works of this.#waiting.values()) for (const work of works) return work
    return undefined
  }

  /** Takes what is next; undefined where nothing waits. */
  next(): Work | undefined {
    for (const [owner, works] of this.#waiting) {
      this.#waiting.delete(owner)
      for (const work of works) {
        works.delete(work)
        if (works.size > 0) this.#waiting.set(owner, works)
        return work
      }
    }
    return undefined
  }

  /** Takes one that waits out of its turn; false where it does not wait. */
  delete(owner: string, work: Work): boolean {
    const works = this.#waiting.get(owner)
    if (!works?.delete(work)) return false
    if (works.size === 0) this.#waiting.delete(owner)
    return true
  }

  /** Takes all that waits, or all of one owner. */
  takeAll(owner?: string): Work[] {
    const owners = owner === undefined ? [...this.#waiting.keys()] : [owner]
    return owners.flatMap((each) => {
      const works = [...(this.#waiting.get(each) ?? [])]
      this.#waiting.delete(each)
      return works
    })
  }
}
