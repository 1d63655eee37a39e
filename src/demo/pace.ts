/**
 * Hands out the demo model's stream at its pace. Written by hand, because a generator could not be left in the middle
 * of a pause. Does no I/O but its timer.
 */

import type { AnswerEvent } from '../domain/answer.ts'
import { UpstreamError } from '../domain/error.ts'

export const aborted = () =>
  new UpstreamError('aborted', 'The call to the demo model was given up.', { retryable: false })

/**
 * Hands out one batch a pause, the first at once. An abort ends the iteration with a `failure`, `return()` without a
 * word; either at once and without a timer left behind.
 */
export function createPacedIterator(
  batches: Iterator<AnswerEvent[]>,
  paceMs: number,
  signal: AbortSignal,
): AsyncIterator<AnswerEvent[]> {
  const END: IteratorResult<AnswerEvent[]> = { done: true, value: undefined }
  let state: 'fresh' | 'running' | 'ended' = 'fresh'
  let waiting: ((result: IteratorResult<AnswerEvent[]>) => void) | null = null
  let timer: Timer | undefined

  const deliver = (result: IteratorResult<AnswerEvent[]>) => {
    const resolve = waiting
    waiting = null
    resolve?.(result)
  }
  const end = () => {
    state = 'ended'
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
  const onAbort = () => {
    if (waiting === null) return
    end()
    deliver({ done: false, value: [{ failure: aborted() }] })
  }
  const advance = (): IteratorResult<AnswerEvent[]> => {
    const next = batches.next()
    if (next.done) end()
    return next.done ? END : next
  }
  const onTurn = () => {
    if (waiting !== null) deliver(advance())
  }

  return {
    async next() {
      if (state === 'ended') return END
      if (signal.aborted) {
        end()
        return { done: false, value: [{ failure: aborted() }] }
      }
      if (state === 'fresh') {
        state = 'running'
        signal.addEventListener('abort', onAbort)
        return advance()
      }
      return new Promise((resolve) => {
        waiting = resolve
        if (paceMs > 0) timer = setTimeout(onTurn, paceMs)
        else setImmediate(onTurn)
      })
    },
    async return() {
      end()
      deliver(END)
      return END
    },
  }
}
