/**
 * What came in within the last 60 seconds: an exact sliding window, so that no minute, wherever it begins, sees more
 * than a limit allows. What comes within 100 ms of each other is one entry, so that a window has some 600 of them
 * whatever the limit; an entry leaves with the last of what it holds, so nothing ever leaves early. Times are ms of a
 * clock that never steps. Pure.
 */
export const WINDOW_MS = 60_000
const GRAIN_MS = 100

export type Unit = 'requests' | 'tokens'

/** What came within one grain. Only its window changes it. */
export interface Entry {
  readonly firstMs: number
  lastMs: number
  requests: number
  tokens: number
  /** Whether it has left the window: what is said of it from then on changes nothing. */
  gone: boolean
}

export interface Window {
  /** Counts one request. Returns the entry that it became part of. */
  add(tokens: number, nowMs: number): Entry
  /** Changes what an entry holds by so much, up or down, as long as it is in the window. */
  correct(entry: Entry, requests: number, tokens: number): void
  used(unit: Unit, nowMs: number): number
  /** Tells in how many ms at most `most` is left in the window: 0 for now, Infinity where `most` is below 0. */
  waitMs(unit: Unit, most: number, nowMs: number): number
  /** Tells in how many ms nothing is left in the window; 0 where nothing is. */
  emptyMs(unit: Unit, nowMs: number): number
}

export function createWindow(): Window {
  /** Oldest first. */
  const entries: Entry[] = []
  const sums = { requests: 0, tokens: 0 }

  const advance = (nowMs: number) => {
    let left = 0
    for (const entry of entries) {
      if (entry.lastMs + WINDOW_MS > nowMs) break
      entry.gone = true
      sums.requests -= entry.requests
      sums.tokens -= entry.tokens
      left++
    }
    if (left > 0) entries.splice(0, left)
  }

  const correct = (entry: Entry, requests: number, tokens: number) => {
    if (entry.gone) return
    entry.requests += requests
    entry.tokens += tokens
    sums.requests += requests
    sums.tokens += tokens
  }

  return {
    add(tokens, nowMs) {
      advance(nowMs)
      let entry = entries.at(-1)
      // What is said to be older than the newest entry counts as that one does: it may stay longer, never leave early.
      const atMs = Math.max(nowMs, entry?.lastMs ?? nowMs)
      if (entry === undefined || atMs - entry.firstMs >= GRAIN_MS) {
        entry = { firstMs: atMs, lastMs: atMs, requests: 0, tokens: 0, gone: false }
        entries.push(entry)
      }
      entry.lastMs = atMs
      correct(entry, 1, tokens)
      return entry
    },
    correct,
    used(unit, nowMs) {
      advance(nowMs)
      return sums[unit]
    },
    waitMs(unit, most, nowMs) {
      advance(nowMs)
      // Written so that a figure that is no number waits for ever, too.
      if (!(most >= 0)) return Number.POSITIVE_INFINITY
      let left = sums[unit]
      let waitMs = 0
      for (const entry of entries) {
        if (left <= most) break
        left -= entry[unit]
        waitMs = entry.lastMs + WINDOW_MS - nowMs
      }
      return waitMs
    },
    emptyMs(unit, nowMs) {
      advance(nowMs)
      // From the newest: this is asked for every answer. One that was taken back holds nothing and is passed over.
      const last = entries.findLast((entry) => entry[unit] > 0)
      return last === undefined ? 0 : last.lastMs + WINDOW_MS - nowMs
    },
  }
}
