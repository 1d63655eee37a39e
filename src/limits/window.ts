/**
 * What came in within the last 60 seconds: no minute, wherever it begins, sees more than a limit allows. What comes within
 * 100 ms of each other is one grain, so that a window has some 600 of them whatever the limit; a grain leaves with the last
 * of what it holds, so nothing ever leaves early. `rates.ts` has one for each key, team and upstream. Times are ms of a clock
 * that never steps. Pure.
 */

export const WINDOW_MS = 60_000
/** What comes within this time of each other is counted as one grain. */
const GRAIN_MS = 100

export type Unit = 'requests' | 'tokens'

/** What came within 100 ms of each other. Only its window changes it. */
export interface Grain {
  readonly firstMs: number
  lastMs: number
  requests: number
  tokens: number
  /** Whether it has left the window: what is said of it from then on changes nothing. */
  gone: boolean
}

export class Window {
  /** Oldest first. */
  readonly #grains: Grain[] = []
  readonly #sums = { requests: 0, tokens: 0 }

  /** Counts so much in. Returns the grain that it became part of. */
  add(requests: number, tokens: number, nowMs: number): Grain {
    this.#advance(nowMs)
    let grain = this.#grains.at(-1)
    // What is said to be older than the newest grain counts as that one does: it may stay longer, never leave early.
    const atMs = Math.max(nowMs, grain?.lastMs ?? nowMs)
    if (grain === undefined || atMs - grain.firstMs >= GRAIN_MS) {
      grain = { firstMs: atMs, lastMs: atMs, requests: 0, tokens: 0, gone: false }
      this.#grains.push(grain)
    }
    grain.lastMs = atMs
    this.correct(grain, requests, tokens)
    return grain
  }

  /** Changes what a grain holds by so much, up or down, as long as it is in the window. */
  correct(grain: Grain, requests: number, tokens: number): void {
    if (grain.gone) return
    grain.requests += requests
    grain.tokens += tokens
    this.#sums.requests += requests
    this.#sums.tokens += tokens
  }

  used(unit: Unit, nowMs: number): number {
    this.#advance(nowMs)
    return this.#sums[unit]
  }

  /** Tells in how many ms at most `most` is left in the window: 0 for now, Infinity where `most` is below 0. */
  waitMs(unit: Unit, most: number, nowMs: number): number {
    this.#advance(nowMs)
    // Written so that a figure that is no number waits for ever, too.
    if (!(most >= 0)) return Number.POSITIVE_INFINITY
    let left = this.#sums[unit]
    let waitMs = 0
    for (const grain of this.#grains) {
      if (left <= most) break
      left -= grain[unit]
      waitMs = grain.lastMs + WINDOW_MS - nowMs
    }
    return waitMs
  }

  /** Tells in how many ms nothing is left in the window; 0 where nothing is. */
  emptyMs(unit: Unit, nowMs: number): number {
    this.#advance(nowMs)
    // From the newest: this is asked for every answer. One that was taken back holds nothing and is passed over.
    for (let at = this.#grains.length - 1; at >= 0; at--) {
      const grain = this.#grains[at] as Grain
      if (grain[unit] > 0) return grain.lastMs + WINDOW_MS - nowMs
    }
    return 0
  }

  #advance(nowMs: number): void {
    let left = 0
    for (const grain of this.#grains) {
      if (grain.lastMs + WINDOW_MS > nowMs) break
      grain.gone = true
      this.#sums.requests -= grain.requests
      this.#sums.tokens -= grain.tokens
      left++
    }
    if (left > 0) this.#grains.splice(0, left)
  }
}
