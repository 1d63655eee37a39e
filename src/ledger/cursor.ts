/**
 * Position of a consumer outside this process in the journal, by segment. Each consumer has a cursor. A segment is released once all its consumers have
 * passed it.
 */

/** End and number of a segment's complete records. */
export interface Written {
  bytes: number
  records: number
}

/** End of one write. */
interface Mark extends Written {
  atMs: number
}

interface Reach extends Written {
  passedBytes: number
  /** Marks not passed yet, oldest first. */
  marks: Mark[]
  isNew: boolean
}

/** Per segment. Further writes are merged, so that a long backlog takes little memory. */
const MAX_MARKS = 1_000

export class Cursor {
  readonly #segments = new Map<string, Reach>()
  #waiting = 0
  #passed = 0

  /** Records that the consumer hasn't passed yet. */
  get waiting(): number {
    return this.#waiting
  }

  /** Records that the consumer has passed since the start. */
  get passed(): number {
    return this.#passed
  }

  /** Age of the oldest record that the consumer hasn't passed, ms. */
  waitsMs(nowMs: number): number {
    let oldestMs = nowMs
    for (const { marks } of this.#segments.values()) oldestMs = Math.min(oldestMs, marks[0]?.atMs ?? nowMs)
    return nowMs - oldestMs
  }

  wrote(segment: string, bytes: number, records: number, atMs: number): void {
    const reach = this.#segments.get(segment) ?? { bytes: 0, records: 0, passedBytes: 0, marks: [], isNew: true }
    this.#segments.set(segment, reach)
    const last = reach.marks.at(-1)
    if (last && reach.marks.length >= MAX_MARKS) Object.assign(last, { bytes, records: last.records + records })
    else reach.marks.push({ bytes, records, atMs })
    reach.bytes = bytes
    reach.records += records
    reach.isNew = true
    this.#waiting += records
  }

  /** Segments that have grown since the last call. */
  takeNews(): Record<string, Written> {
    const news: Record<string, Written> = {}
    for (const [segment, reach] of this.#segments) {
      if (reach.isNew) news[segment] = { bytes: reach.bytes, records: reach.records }
      reach.isNew = false
    }
    return news
  }

  /** Call once the consumer has all records of the segment up to `bytes`. */
  pass(segment: string, bytes: number): void {
    const reach = this.#segments.get(segment)
    if (reach === undefined || bytes <= reach.passedBytes) return
    reach.passedBytes = bytes
    while (reach.marks[0] && reach.marks[0].bytes <= bytes) {
      const records = reach.marks.shift()?.records ?? 0
      this.#waiting -= records
      this.#passed += records
    }
  }

  hasPassed(segment: string): boolean {
    const reach = this.#segments.get(segment)
    return reach === undefined || reach.passedBytes >= reach.bytes
  }

  removed(segment: string): void {
    this.#segments.delete(segment)
  }
}
