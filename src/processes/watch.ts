/**
 * Watches a model server by looking at it again and again: while it starts, until it can be asked; and where a call could not reach it,
 * whether it answers after all. What follows from that `supervisor.ts` decides.
 */
import { type Clock, sleep } from './clock.ts'
import type { Look } from './look.ts'

/** For how long a server has said nothing: neither where it was looked at, nor in an answer. */
export class Silence {
  #sinceMs: number | null = null

  end(): void {
    this.#sinceMs = null
  }

  /** Notes that nothing was said just now. Returns whether that has been so for `mostMs`. */
  lasts(nowMs: number, mostMs: number): boolean {
    this.#sinceMs ??= nowMs
    return nowMs - this.#sinceMs >= mostMs
  }
}

export interface WatchDeps {
  clock: Clock
  look(): Promise<Look>
  /** Whether nobody wants to know any more. */
  isOver(): boolean
}

/** While it starts: at first often, since small ones are quick. */
const FIRST_LOOK_MS = 25
const LAST_LOOK_MS = 500
/** One whose port was taken has ended by then (llama-server: within 0.1 s). */
const UNSURE_MS = 500
/** Where it could not be reached. */
const DOUBT_LOOKS = 8
const DOUBT_MS = 250

/** Resolves once a server that starts can be asked, or another one answers in its place; to null where nobody wants to know any more. */
export async function untilReady({ clock, look, isOver }: WatchDeps): Promise<'ready' | 'sleeping' | 'foreign' | null> {
  let unsureSinceMs: number | null = null
  for (let pauseMs = FIRST_LOOK_MS; ; pauseMs = Math.min(pauseMs * 2, LAST_LOOK_MS)) {
    const { state } = await look()
    if (isOver()) return null
    const nowMs = clock.nowMs()
    if (state === 'unsure') unsureSinceMs ??= nowMs
    if (state === 'ready' || state === 'sleeping' || state === 'foreign') return state
    if (unsureSinceMs !== null && nowMs - unsureSinceMs >= UNSURE_MS) return 'ready'
    await sleep(clock, pauseMs)
    if (isOver()) return null
  }
}

/** Resolves to whether a server that could not be reached answers after all; to null where nobody wants to know any more. */
export async function answersAfterAll({ clock, look, isOver }: WatchDeps): Promise<boolean | null> {
  for (let looks = 0; looks < DOUBT_LOOKS; looks++) {
    const { state } = await look()
    if (isOver()) return null
    if (state !== 'loading' && state !== 'foreign') return true
    await sleep(clock, DOUBT_MS)
    if (isOver()) return null
  }
  return false
}
