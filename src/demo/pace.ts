/** Hands out the demo model's stream at its pace. Does no I/O but its timer. */
import type { EndSignal } from '../domain/end-signal.ts'
import { UpstreamError } from '../domain/error.ts'
import type { AnswerEvent, AnswerStream } from '../domain/events.ts'

export const aborted = () =>
  new UpstreamError('aborted', 'The call to the demo model was aborted.', {
    retryable: false,
  })

/**
 * Creates a stream of at least one batch, the first at once and each other one `paceMs` later; at a pace of 0 the loop
 * turns between two. An abort ends it with a `failure`, `close()` without a word; either at once and without a timer left.
 */
export function createPacedStream(
  batches: readonly (readonly AnswerEvent[])[],
  paceMs: number,
  signal: EndSignal,
): AnswerStream {
  let at = 0
  let isOver = false
  let timer: Timer | undefined
  let goOn = () => {}

  const pause = () =>
    new Promise<void>((resolve) => {
      goOn = resolve
      if (signal.aborted) resolve()
      else if (paceMs > 0) timer = setTimeout(resolve, paceMs)
      else setImmediate(resolve)
    })
  const wake = () => {
    clearTimeout(timer)
    goOn()
  }
  const next = (): readonly AnswerEvent[] => {
    const batch = signal.aborted ? [{ kind: 'failure' as const, error: aborted() }] : (batches[at] ?? [])
    at += 1
    isOver = signal.aborted || at >= batches.length
    return batch
  }

  return {
    async pump(take) {
      signal.addEventListener('abort', wake)
      try {
        while (!isOver) {
          if (at > 0) await pause()
          if (isOver || !(await take(next()))) return
        }
      } finally {
        signal.removeEventListener('abort', wake)
      }
    },
    close() {
      isOver = true
      wake()
    },
  }
}
