/**
 * What ends a call from our side: its deadlines, and a client that leaves. One ticker looks at all calls under way,
 * because a timer and a listener of its own cost a call more than the rest of its bookkeeping: an end comes up to
 * TICK_MS late, and a chunk costs one assignment.
 */
import { clientLeft, UpstreamError } from '../domain/error.ts'

const TICK_MS = 50

export interface Deadline {
  /** Enters a phase: from now on, silence of more than `ms` ends the call. */
  enter(name: string, ms: number): void
  /** Something arrived: the phase begins anew. */
  touch(): void
  /** While we are the ones who keep the upstream waiting, its silence does not count. */
  pause(paused: boolean): void
  stop(): void
}

interface Running {
  /** Looks at the clock and the client; true once the call was ended. */
  check(nowMs: number): boolean
}

const running = new Set<Running>()
let ticker: ReturnType<typeof setInterval> | null = null

function tick(): void {
  const nowMs = performance.now()
  for (const deadline of running) if (deadline.check(nowMs)) running.delete(deadline)
  if (running.size > 0 || ticker === null) return
  clearInterval(ticker)
  ticker = null
}

/**
 * Watches one call. `end` is called at most once, with the error that tells what ended it: a deadline that passed, or
 * the client's signal.
 */
export function createDeadline(
  name: string,
  ms: number,
  totalMs: number,
  end: (error: UpstreamError) => void,
  client?: AbortSignal,
): Deadline {
  const startedMs = performance.now()
  let phase = { name, ms }
  let touched = false
  let paused = false
  let since = startedMs

  const self: Running = {
    check(nowMs) {
      if (client?.aborted) {
        end(clientLeft())
        return true
      }
      if (touched || paused) since = nowMs
      touched = false
      const isTotal = nowMs - startedMs >= totalMs
      if (!isTotal && nowMs - since < phase.ms) return false
      const passed = isTotal ? { name: 'total', ms: totalMs } : phase
      end(
        new UpstreamError('deadline', `the ${passed.name} deadline of ${passed.ms / 1000} s passed`, {
          deadline: passed.name,
          retryable: true,
        }),
      )
      return true
    },
  }
  running.add(self)
  ticker ??= setInterval(tick, TICK_MS)

  return {
    enter(nextName, nextMs) {
      phase = { name: nextName, ms: nextMs }
      since = performance.now()
      touched = false
    },
    touch() {
      touched = true
    },
    pause(value) {
      // The clock of the phase starts when we ask again.
      if (paused && !value) touched = true
      paused = value
    },
    stop() {
      running.delete(self)
    },
  }
}
