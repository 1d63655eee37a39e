/** Owners (keys) take turns, so that others wait for at most one item of an owner, however much it queues. */
export class Turns<Work> {
  protected readonly waiting = new Map<string, Set<Work>>()

  add(owner: string, work: Work): void {
    this.waiting.getOrInsertComputed(owner, () => new Set()).add(work)
  }

  count(owner: string): number {
    return this.waiting.get(owner)?.size ?? 0
  }

  hasOthers(owner: string): boolean {
    return this.waiting.size > (this.waiting.has(owner) ? 1 : 0)
  }

  first(): Work | undefined {
    for (const works of this.waiting.values()) for (const work of works) return work
    return undefined
  }

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

  /** Removes an item out of turn; false if it isn't queued. */
  delete(owner: string, work: Work): boolean {
    const works = this.waiting.get(owner)
    if (!works?.delete(work)) return false
    if (works.size === 0) this.waiting.delete(owner)
    return true
  }

  takeAll(owner?: string): Work[] {
    const owners = owner === undefined ? [...this.waiting.keys()] : [owner]
    return owners.flatMap((each) => {
      const works = [...(this.waiting.get(each) ?? [])]
      this.waiting.delete(each)
      return works
    })
  }
}

export interface QueueEntry {
  owner: string
  sinceMs: number
}

/** When the queue is full, the owner with the most items loses the last one to an owner with fewer, so that no owner can fill it. */
export class FairQueue<Entry extends QueueEntry> extends Turns<Entry> {
  constructor(private readonly most: number) {
    super()
  }

  get length(): number {
    let length = 0
    for (const { size } of this.waiting.values()) length += size
    return length
  }

  /** Returns the item dropped for lack of capacity: an earlier one, or itself; null if there was room. */
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

  leave(one: Entry): boolean {
    return this.delete(one.owner, one)
  }

  /** In turns from now, from 1; 0 if it isn't queued. */
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

  /** The longest wait's start; null if empty. */
  sinceMs(): number | null {
    const times = [...this.waiting.values()].flatMap((entries) => [...entries]).map(({ sinceMs }) => sinceMs)
    return times.length === 0 ? null : Math.min(...times)
  }
}
