/**
 * The thread that counts: started on first need, ended when idle, given one request at a time. Whoever waits too long,
 * comes when too many wait, or loses the thread while waiting is told null at once, and estimates. Used by `count.ts`.
 */
import type { Log } from '../log.ts'
import type { CountReply, CountRequest } from './count-worker.ts'

export interface CountThreadOptions {
  /** After how much quiet the thread and its memory are given back. */
  idleMs?: number
  /** How long anybody waits, starting the thread included. */
  timeoutMs?: number
  /** Most that wait at once. */
  maxWaiting?: number
  createWorker?: () => Worker
  log?: Pick<Log, 'warn'>
}

export interface CountThread {
  /** Resolves one sum of tokens a list of texts, or null where they could not be counted in time. Never rejects. */
  count(lists: CountRequest): Promise<CountReply | null>
  close(): void
}

interface Job {
  lists: CountRequest
  resolve(tokens: CountReply | null): void
}

/** In the binary everything but the thread is one file at its root, and the thread stands where the build put it. */
const WORKER = import.meta.url.endsWith('/count-thread.ts') ? './count-worker.ts' : './tokens/count-worker.js'
const startWorker = () => new Worker(new URL(WORKER, import.meta.url).href)

export function createCountThread(options: CountThreadOptions = {}): CountThread {
  const { idleMs = 60_000, timeoutMs = 5_000, maxWaiting = 256, createWorker = startWorker, log } = options
  const waiting = new Set<Job>()
  let worker: Worker | null = null
  let running: Job | null = null
  let idle: Timer | undefined
  let stuck: Timer | undefined
  let closed = false

  const stop = () => {
    clearTimeout(idle)
    clearTimeout(stuck)
    worker?.terminate()
    worker = null
    const left = running ? [running, ...waiting] : [...waiting]
    running = null
    waiting.clear()
    for (const { resolve } of left) resolve(null)
  }
  const fail = (error: string) => {
    log?.warn('the counting thread failed', { error })
    stop()
  }
  const start = (): Worker => {
    const thread = createWorker()
    thread.onmessage = (event: MessageEvent<CountReply>) => {
      if (thread !== worker) return
      clearTimeout(stuck)
      running?.resolve(event.data)
      next()
    }
    thread.onerror = (event) => {
      if (thread === worker) fail(event.message)
    }
    thread.addEventListener('close', () => {
      if (thread === worker) fail('it ended')
    })
    return thread
  }
  const next = () => {
    const [job = null] = waiting
    running = job
    clearTimeout(idle)
    if (!job) {
      idle = setTimeout(stop, idleMs)
      return
    }
    waiting.delete(job)
    try {
      worker ??= start()
      worker.postMessage(job.lists)
      stuck = setTimeout(fail, timeoutMs, 'it does not answer')
    } catch (error) {
      fail(String(error))
    }
  }

  return {
    count(lists) {
      if (closed || waiting.size >= maxWaiting) return Promise.resolve(null)
      const { promise, resolve } = Promise.withResolvers<CountReply | null>()
      const job: Job = {
        lists,
        resolve(tokens) {
          clearTimeout(patience)
          resolve(tokens)
        },
      }
      const patience = setTimeout(() => {
        waiting.delete(job)
        resolve(null)
      }, timeoutMs)
      waiting.add(job)
      if (!running) next()
      return promise
    },
    close() {
      closed = true
      stop()
    },
  }
}
