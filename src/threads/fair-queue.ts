/**
 * Work that waits, fairly: owners (keys) take turns, and of each the first that came is the next, so that however much one owner has
 * waiting, another one waits for one piece of it at most. `FairQueue` is bounded, too. Pure.
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

/** A place in the line. */
export interface QueueEntry {
  /** Whose turns it takes. */
  owner: string
  /** When it came, on a clock that never steps. */
  sinceMs: number
}

export class FairQueue<W extends QueueEntry> {
  readonly #turns = new Turns<W>()
  readonly #most: number
  #count = 0

  /** @param most how many may wait. */
  constructor(most: number) {
    this.#most = most
  }

  get length(): number {
    return this.#count
  }

  /** Takes one in. Returns the one that there is no place for: an earlier one, or itself; null where there is place for all. */
  join(one: W): W | null {
    if (this.#count >= this.#most) {
      const longest = this.#turns.longest()
      if (longest === undefined || longest.count <= this.#turns.count(one.owner) + 1) return one
      this.#turns.delete(longest.owner, longest.last)
      this.#turns.add(one.owner, one)
      return longest.last
    }
    this.#turns.add(one.owner, one)
    this.#count++
    return null
  }

  /** Whose turn it is; undefined where nobody waits. */
  first = (): W | undefined => this.#turns.first()

  /** Takes whose turn it is out of the line; undefined where nobody waits. */
  next(): W | undefined {
    const one = this.#turns.next()
    if (one !== undefined) this.#count--
    return one
  }

  /** Takes one out that waits no longer; false where it did not wait. */
  leave(one: W): boolean {
    const left = this.#turns.delete(one.owner, one)
    if (left) this.#count--
    return left
  }

  /** Takes out all of them. */
  empty(): W[] {
    this.#count = 0
    return this.#turns.takeAll()
  }

  /** Which turn is its own, from 1 on. */
  positionOf = (one: W): number => this.#turns.position(one.owner, one)

  /** Since when somebody has waited; null where nobody does. */
  sinceMs(): number | null {
    let since: number | null = null
    for (const { sinceMs } of this.#turns.all()) since = Math.min(since ?? sinceMs, sinceMs)
    return since
  }
}
