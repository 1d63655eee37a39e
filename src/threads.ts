/**
 * Work that must not stop the event loop, on a thread of its own: started on first need, given one request after the
 * other, ended when nobody needs it for a while or when it takes too long. Counting, checking and checkpoints run on such
 * threads. A worker says once that it is ready, and answers each message with one.
 */

export interface Thread<Request, Reply> {
  /**
   * Resolves with the worker's reply; null where it takes longer than `limitMs`, not counting the wait for its turn and
   * for the thread to start; where the caller has waited for too long, where too many wait, where the signal has aborted
   * before its turn, and once the thread is closed. Rejects where the thread does not start, or fails at this request.
   */
  ask(request: Request, options?: { limitMs?: number; signal?: AbortSignal }): Promise<Reply | null>
  /** Ends it. Whoever waits is told null at once. */
  close(): void
}

export interface ThreadOptions {
  /** After how much quiet the thread and its memory are given back; without it, never. */
  idleMs?: number
  /** How long anybody waits, starting the thread included; without it, as long as it takes. */
  patienceMs?: number
  /** Most that wait at once. */
  maxWaiting?: number
  /** In place of the worker that was named. */
  createWorker?: () => Worker
}

interface Job<Request, Reply> {
  request: Request
  limitMs: number | undefined
  signal: AbortSignal | undefined
  resolve(reply: Reply | null): void
  reject(error: Error): void
}

/** What loads takes a second on a busy machine; a thread that takes this long will not start any more. */
const START_MS = 60_000

/** In the executable all but the workers is one file at its root, and they stand where the build put them. */
const ENDING = import.meta.url.endsWith('/threads.ts') ? 'ts' : 'js'
const urlOf = (worker: string) => new URL(`./${worker}.${ENDING}`, import.meta.url).href

/** @param worker path below `src/`, without its ending. Each is named to `bun run build`, too. */
export function createThread<Request, Reply>(
  worker: string,
  { idleMs, patienceMs, maxWaiting = Number.POSITIVE_INFINITY, createWorker }: ThreadOptions = {},
): Thread<Request, Reply> {
  const waiting = new Set<Job<Request, Reply>>()
  let running: Job<Request, Reply> | null = null
  let thread: Worker | null = null
  /** Of the thread: until it has started, until it has answered, or until it has been idle for long enough. */
  let timer: Timer | undefined
  let closed = false

  const stop = () => {
    clearTimeout(timer)
    thread?.terminate()
    thread = null
  }

  /** Where a thread does not start, nobody who waits would fare better; where it breaks at work, the others may. */
  const fail = (error: Error, hasStarted: boolean) => {
    stop()
    running?.reject(error)
    if (!hasStarted) for (const job of waiting) job.reject(error)
    if (!hasStarted) waiting.clear()
    next()
  }

  const post = ({ request, limitMs }: Job<Request, Reply>) => {
    clearTimeout(timer)
    thread?.postMessage(request)
    if (limitMs === undefined) return
    timer = setTimeout(() => {
      stop()
      running?.resolve(null)
      next()
    }, limitMs)
  }

  const start = () => {
    let started: Worker
    try {
      started = createWorker?.() ?? new Worker(urlOf(worker))
    } catch (error) {
      fail(new Error(String(error)), false)
      return
    }
    thread = started
    let hasStarted = false
    const lose = (reason: string) => {
      if (started === thread) fail(new Error(reason), hasStarted)
    }
    timer = setTimeout(lose, START_MS, 'it did not start')
    started.onerror = ({ message }) => lose(message)
    started.addEventListener('close', () => lose('it ended'))
    started.onmessage = ({ data }: MessageEvent) => {
      if (started !== thread || running === null) return
      if (hasStarted) {
        running.resolve(data)
        next()
        return
      }
      hasStarted = true
      post(running)
    }
  }

  const next = () => {
    clearTimeout(timer)
    running = null
    for (const job of waiting) {
      waiting.delete(job)
      if (job.signal?.aborted) {
        job.resolve(null)
        continue
      }
      running = job
      if (thread) post(job)
      else start()
      return
    }
    if (idleMs !== undefined) timer = setTimeout(stop, idleMs).unref()
  }

  return {
    ask(request, { limitMs, signal } = {}) {
      if (closed || waiting.size >= maxWaiting) return Promise.resolve(null)
      const { promise, resolve, reject } = Promise.withResolvers<Reply | null>()
      const job = { request, limitMs, signal, resolve, reject }
      waiting.add(job)
      if (running === null) next()
      if (patienceMs === undefined) return promise
      const patience = setTimeout(() => {
        waiting.delete(job)
        resolve(null)
      }, patienceMs)
      return promise.finally(() => clearTimeout(patience))
    },
    close() {
      closed = true
      stop()
      running?.resolve(null)
      running = null
      for (const job of waiting) job.resolve(null)
      waiting.clear()
    },
  }
}
