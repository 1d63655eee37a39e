/**
 * Whether requests are refused for want of room, and why: for as long as that goes on, and some seconds more, so that a
 * server that is full for an hour says so once and not with each request.
 */

/** So long nobody must have been refused before there is room again. */
const QUIET_MS = 10_000

export interface FullnessOptions {
  /** Told the reason when it begins, and null when it is over. */
  onChange(reason: string | null): void
  /** Calls back after so many ms. */
  after?(ms: number, then: () => void): void
}

export class Fullness {
  /** Why requests are refused; null where none is. */
  reason: string | null = null
  readonly #onChange: FullnessOptions['onChange']
  readonly #after: (ms: number, then: () => void) => void
  #wasNoted = false

  constructor({ onChange, after = (ms, then) => setTimeout(then, ms).unref() }: FullnessOptions) {
    this.#onChange = onChange
    this.#after = after
  }

  /** Notes that there is no room for another request, or for more of one. */
  note(reason: string): void {
    this.#wasNoted = true
    if (this.reason !== null) return
    this.reason = reason
    this.#onChange(reason)
    this.#wait()
  }

  #wait(): void {
    this.#wasNoted = false
    this.#after(QUIET_MS, () => {
      if (this.#wasNoted) {
        this.#wait()
        return
      }
      this.reason = null
      this.#onChange(null)
    })
  }
}
