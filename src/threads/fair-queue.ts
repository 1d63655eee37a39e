/**
 * Work that waits, fairly: owners (keys) take turns, and of each the first that came is the next, so that however much one owner has
 * waiting, another one waits for one piece of it at most. `FairQueue` is bounded, too. Pure.
 */
export class Turns<Work> {
  /** Whose turn is next stands first. Nobody is in it who has nothing waiting. */
  protected readonly waiting = new Map<string, Set<Work>>()

  add(owner: string, work: Work): void {
    this.waiting.getOrInsertComputed(owner, () => new Set()).add(work)
  }

  /** How much waits for one owner. */
  count(owner: string): number {
    return this.waiting.get(owner)?.size ?? 0
  }

  /** Whether something waits for anybody else. */
  hasOthers(owner: string): boolean {
    return this.waiting.size > (this.waiting.has(owner) ? 1 : 0)
  }

  /** What is next; undefined where nothing waits. */
  first(): Work | undefined {
    for (const works of this.waiting.values()) for (const work of works) return work
    return undefined
  }

  /** Takes what is next; undefined where nothing waits. */
  next(): Work | undefined {
    for (const [owner, works] of this.waiting) {
      this.waiting.delete(owner)
      for (const work of works) {
        works.delete(work)
        if (works.size > 0) this.waiting.set(owner, works)
        return work
      }
    }
    return undefined
  }

  /** Takes one that waits out of its turn; false where it does not wait. */
  delete(owner: string, work: Work): boolean {
    const works = this.waiting.get(owner)
    if (!works?.delete(work)) return false
    if (works.size === 0) this.waiting.delete(owner)
    return true
  }

  /** Takes all that waits, or all of one owner. */
  takeAll(owner?: string): Work[] {
    const owners = owner === undefined ? [...this.waiting.keys()] : [owner]
    return owners.flatMap((each) => {
      const works = [...(this.waiting.get(each) ?? [])]
      this.waiting.delete(each)
      return works
    })
  }
}

/** Who waits in a queue. */
export interface QueueEntry {
  owner: string
  /** When it came, on a clock that never steps. */
  sinceMs: number
}

/**
 * The queue of requests that wait for one thing, such as a model. Where it is full, whoever has the most in it gives up the last of it for
 * somebody who has less: no owner can fill it for others.
 */
export class FairQueue<Entry extends QueueEntry> extends Turns<Entry> {
  /** @param most how many may wait. */
  constructor(private readonly most: number) {
    super()
  }

  get length(): number {
    let length = 0
    for (const { size } of this.waiting.values()) length += size
    return length
  }

  /** Takes one in. Returns the one that there is no room for: an earlier one, or itself; null where there is room for all. */
  join(one: Entry): Entry | null {
    let dropped: Entry | null = null
    if (this.length >= this.most) {
      const [longest = []] = [...this.waiting.values()]
        .map((entries) => [...entries])
        .sort((a, b) => b.length - a.length)
      const last = longest.at(-1)
      if (last === undefined || longest.length <= this.count(one.owner) + 1) return one
      this.leave(last)
      dropped = last
    }
    this.add(one.owner, one)
    return dropped
  }

  /** Takes one out that waits no longer; false where it did not wait. */
  leave(one: Entry): boolean {
    return this.delete(one.owner, one)
  }

  /** Which turn from now on is that of one, from 1 on; 0 where it does not wait. */
  positionOf(one: Entry): number {
    const own = [...(this.waiting.get(one.owner) ?? [])].indexOf(one)
    if (own === -1) return 0
    let position = own + 1
    let isBefore = true
    for (const [other, { size }] of this.waiting) {
      if (other === one.owner) isBefore = false
      else position += Math.min(size, isBefore ? own + 1 : own)
    }
    return position
  }

  /** Since when somebody has waited; null where nobody does. */
  sinceMs(): number | null {
    const times = [...this.waiting.values()].flatMap((entries) => [...entries]).map(({ sinceMs }) => sinceMs)
    return times.length === 0 ? null : Math.min(...times)
  }
}
