/**
 * The line of requests that wait for one thing, such as a model: bounded, and fair. Owners take turns; where the line is full, whoever
 * has the most in it gives up the last of it for somebody who has less. So no owner can fill the line for others. Pure.
 */
import { Turns } from './turns.ts'

/** A place in the line. */
export interface Waiting {
  /** Whose turns it takes. */
  owner: string
  /** When it came, on a clock that never steps. */
  sinceMs: number
}

export class Line<W extends Waiting> {
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
