/** A clock that a test moves. */
import type { Clock } from '../../src/processes/supervisor.ts'

export interface TestClock extends Clock {
  /** Advances the time, and runs each timer at its own time. */
  pass(ms: number): Promise<void>
}

/** Lets pending work continue as far as it can without time. */
export const settle = () => Bun.sleep(0)

export function createClock(): TestClock {
  let nowMs = 1_000
  const pending = new Set<{ atMs: number; then(): void }>()
  return {
    nowMs: () => nowMs,
    after(ms, then) {
      const one = { atMs: nowMs + ms, then }
      pending.add(one)
      return () => void pending.delete(one)
    },
    async pass(ms) {
      const endMs = nowMs + ms
      for (;;) {
        await settle()
        const [next] = [...pending].filter(({ atMs }) => atMs <= endMs).toSorted((a, b) => a.atMs - b.atMs)
        if (!next) break
        pending.delete(next)
        nowMs = Math.max(nowMs, next.atMs)
        next.then()
      }
      nowMs = endMs
      await settle()
    },
  }
}
