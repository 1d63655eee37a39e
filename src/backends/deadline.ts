/**
 * The deadlines of one call. One timer a call, re-armed only when it fires: a chunk costs a clock reading, not a timer.
 */
import { UpstreamError } from '../error.ts'

export interface Deadline {
  /** Enters a phase: from now on, silence of more than `ms` aborts. */
  enter(name: string, ms: number): void
  /** Something arrived: the phase begins anew. */
  touch(): void
  stop(): void
}

/** @param expire is called once, with the error that tells which deadline passed. */
export function createDeadline(
  name: string,
  ms: number,
  totalMs: number,
  expire: (error: UpstreamError) => void,
): Deadline {
  const startedAt = performance.now()
  let since = startedAt
  let phase = { name, ms }
  let timer: ReturnType<typeof setTimeout>

  const check = () => {
    const now = performance.now()
    const left = Math.min(since + phase.ms, startedAt + totalMs) - now
    if (left > 0) return arm(left)
    const isTotal = startedAt + totalMs <= now
    const passed = isTotal ? { name: 'total', ms: totalMs } : phase
    expire(
      new UpstreamError('deadline', `the ${passed.name} deadline of ${passed.ms / 1000} s passed`, {
        deadline: passed.name,
        retryable: true,
      }),
    )
  }
  const arm = (left: number) => {
    timer = setTimeout(check, Math.ceil(left))
  }
  arm(Math.min(ms, totalMs))

  return {
    enter(nextName, nextMs) {
      const shorter = nextMs < phase.ms
      phase = { name: nextName, ms: nextMs }
      since = performance.now()
      if (!shorter) return
      clearTimeout(timer)
      arm(nextMs)
    },
    touch() {
      since = performance.now()
    },
    stop() {
      clearTimeout(timer)
    },
  }
}
