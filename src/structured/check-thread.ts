/**
 * A thread that checks one text after the other, each within a time limit. Started on first need, ended when nobody
 * needed it for a while, or when a check took too long: whoever asked for that one is told so, and the next one gets a
 * new thread. Used by `checker.ts`.
 */
import type { CheckReply, CheckRequest } from './check-worker.ts'

export interface CheckThread {
  /** Nothing is checked once the signal has aborted. */
  run(request: CheckRequest, limitMs: number, signal: AbortSignal): Promise<CheckReply | 'slow'>
  /** From now on everything takes too long, and what is under way at once. */
  close(): void
}

/** In the binary everything but the thread is one file at its root, and the thread stands where the build put it. */
const WORKER = import.meta.url.endsWith('/check-thread.ts') ? './check-worker.ts' : './structured/check-worker.js'

export function createCheckThread(idleMs: number): CheckThread {
  let thread: Promise<Worker> | null = null
  let idle: Timer | undefined
  let waiting = 0
  let last: Promise<unknown> = Promise.resolve()
  /** Ends the check under way. One a check: a promise that outlives them would keep what each of them has found. */
  let giveUp = () => {}
  let closed = false

  const stop = () => {
    clearTimeout(idle)
    thread?.then((worker) => worker.terminate()).catch(() => {})
    thread = null
  }

  const runNow = async (request: CheckRequest, limitMs: number, signal: AbortSignal): Promise<CheckReply | 'slow'> => {
    if (closed || signal.aborted) return 'slow'
    thread ??= startThread()
    const givenUp = new Promise<'slow'>((resolve) => {
      giveUp = () => resolve('slow')
    })
    try {
      const reply = await Promise.race([thread.then((worker) => ask(worker, request, limitMs)), givenUp])
      if (reply === 'slow') stop()
      return reply
    } catch (error) {
      stop()
      throw error
    }
  }

  const inTurn = (request: CheckRequest, limitMs: number, signal: AbortSignal): Promise<CheckReply | 'slow'> => {
    clearTimeout(idle)
    waiting++
    const mine = last.then(() => runNow(request, limitMs, signal))
    last = mine
      .catch(() => {})
      .then(() => {
        if (--waiting > 0) return
        idle = setTimeout(stop, idleMs)
        idle.unref()
      })
    return mine
  }

  return {
    run: inTurn,
    close() {
      closed = true
      giveUp()
      stop()
    },
  }
}

/** Resolves once the thread has loaded what it needs: that time is not held against anyone's text. */
function startThread(): Promise<Worker> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL(WORKER, import.meta.url).href)
    worker.unref()
    worker.onmessage = () => resolve(worker)
    worker.onerror = (event) => reject(new Error(`the checking thread did not start: ${event.message}`))
    worker.addEventListener('close', () => reject(new Error('the checking thread did not start: it ended')))
  })
}

function ask(worker: Worker, request: CheckRequest, limitMs: number): Promise<CheckReply | 'slow'> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve('slow'), limitMs)
    timer.unref()
    worker.onmessage = (event: MessageEvent<CheckReply>) => {
      clearTimeout(timer)
      resolve(event.data)
    }
    worker.onerror = (event) => {
      clearTimeout(timer)
      reject(new Error(`the checking thread failed: ${event.message}`))
    }
    worker.postMessage(request)
  })
}
