/**
 * Runs work that must not block the event loop on a thread, started on demand, one request at a time. Owners (keys)
 * take turns. A worker announces itself once, then sends one reply per message.
 */
import { closeSync, openSync } from 'node:fs'
import type { EndSignal } from '../domain/end-signal.ts'
import { Turns } from './fair-queue.ts'

interface StartedWorker {
  isReady(): boolean
  post(message: unknown): void
  end(): void
}

interface WorkerListener {
  ready(): void
  answer(reply: unknown): void
  /** The thread failed to start, broke, or ended. Never called during `startWorker`. */
  lose(error: Error, wasReady: boolean): void
}

/** Loading takes a second on a busy machine; after this time the thread won't start. */
const START_MS = 60_000

/**
 * Bun kills the process if a starting worker finds no file descriptor for its event loop. More than it needs, as others
 * take some, too.
 */
const START_FILES = 16
const FILES_MS = 50

function hasFiles(): boolean {
  const files: number[] = []
  try {
    while (files.length < START_FILES) files.push(openSync('/dev/null', 'r'))
    return true
  } catch {
    return false
  } finally {
    for (const file of files) closeSync(file)
  }
}

/** In the executable, everything but the workers is bundled at its root. */
const IS_SOURCE = import.meta.url.endsWith('/threads/thread.ts')
const urlOf = (worker: string) => new URL(IS_SOURCE ? `../${worker}.ts` : `./${worker}.js`, import.meta.url).href

/** @param name path below `src/`, without extension. */
function startWorker(name: string, createWorker: (() => Worker) | undefined, listener: WorkerListener): StartedWorker {
  let worker: Worker | null = null
  let isReady = false
  let isOver = false

  const end = () => {
    isOver = true
    clearTimeout(timer)
    worker?.terminate()
  }
  const lose = (reason: string) => {
    if (isOver) return
    end()
    listener.lose(new Error(reason), isReady)
  }
  const timer = setTimeout(lose, START_MS, 'it did not start')

  const start = () => {
    if (isOver) return
    if (!hasFiles()) {
      setTimeout(start, FILES_MS)
      return
    }
    try {
      begin()
    } catch (error) {
      queueMicrotask(() => lose(String(error)))
    }
  }
  const begin = () => {
    worker = createWorker?.() ?? new Worker(urlOf(name))
    worker.onerror = ({ message }) => lose(message)
    worker.addEventListener('close', () => lose('it ended'))
    worker.onmessage = ({ data }: MessageEvent) => {
      if (isOver) return
      if (isReady) {
        listener.answer(data)
        return
      }
      isReady = true
      clearTimeout(timer)
      listener.ready()
    }
  }
  start()
  return { isReady: () => isReady, post: (message) => worker?.postMessage(message), end }
}

/**
 * Why there is no reply: over its time limit; waited too long; too many queued for its owner; aborted before its turn;
 * late when another owner came; its owner's queue was dismissed; or the thread is closed.
 */
export type NoReply = 'limit' | 'patience' | 'late' | 'full' | 'aborted' | 'dismissed' | 'closed'

export interface AskOptions {
  owner: string
  /** Limit of its run time, ms, without waiting and thread start; unlimited by default. */
  limitMs?: number
  /** After this time, ms, it is ended if another owner waits, and its owner's queue is dismissed. */
  lateMs?: number
  /** Limit of its owner's queued requests, this one included. */
  maxWaiting?: number
  signal?: EndSignal
}

export interface Thread<Request, Reply extends object> {
  /** Rejects if the thread doesn't start or fails at this request. */
  ask(request: Request, options: AskOptions): Promise<Reply | NoReply>
  /** Drops an owner's queued requests; a running one continues. */
  dismiss(owner: string): void
  close(): void
}

export interface ThreadOptions {
  /** Idle time after which the thread and its memory are released; never by default. */
  idleMs?: number
  /** Longest wait, thread start included; unlimited by default. */
  patienceMs?: number
  /** Whether to start a spare thread once a request has used a quarter of its time. */
  keepSpare?: boolean
  /** For tests. */
  createWorker?: () => Worker
}

interface Job<Request, Reply> extends AskOptions {
  request: Request
  resolve(reply: Reply | NoReply): void
  reject(error: Error): void
}

/** @param worker path below `src/`, without extension; also listed for `bun run build`. */
export function createThread<Request, Reply extends object>(
  worker: string,
  { idleMs, patienceMs, keepSpare = false, createWorker }: ThreadOptions = {},
): Thread<Request, Reply> {
  const turns = new Turns<Job<Request, Reply>>()
  let running: Job<Request, Reply> | null = null
  let thread: StartedWorker | null = null
  let spare: StartedWorker | null = null
  /** Until the thread replies, or has been idle long enough. */
  let timer: Timer | undefined
  let isLate = false
  let closed = false

  const start = (): StartedWorker => {
    const started: StartedWorker = startWorker(worker, createWorker, {
      ready: () => started === thread && running && post(running),
      answer: (reply) => {
        if (started !== thread || running === null) return
        running.resolve(reply as Reply)
        next()
      },
      lose: (error, wasReady) => {
        if (started === spare) spare = null
        if (started === thread) fail(error, wasReady)
      },
    })
    return started
  }

  const takeSpare = (): StartedWorker => {
    const taken = spare ?? start()
    spare = null
    return taken
  }

  const stop = () => {
    clearTimeout(timer)
    thread?.end()
    thread = null
  }

  const stopAll = () => {
    stop()
    spare?.end()
    spare = null
  }

  /** If a thread doesn't start, no queued request would succeed; if it breaks at work, others may. */
  const fail = (error: Error, wasReady: boolean) => {
    stop()
    running?.reject(error)
    if (!wasReady) for (const job of turns.takeAll()) job.reject(error)
    next()
  }

  const expire = () => {
    stop()
    running?.resolve('limit')
    next()
  }

  const giveWay = ({ owner, resolve }: Job<Request, Reply>) => {
    stop()
    resolve('late')
    for (const job of turns.takeAll(owner)) job.resolve('dismissed')
    next()
  }

  const becomeLate = (job: Job<Request, Reply>, leftMs: number) => {
    isLate = true
    if (turns.hasOthers(job.owner)) giveWay(job)
    else timer = setTimeout(expire, leftMs)
  }

  const post = (job: Job<Request, Reply>) => {
    const { request, limitMs, lateMs } = job
    clearTimeout(timer)
    thread?.post(request)
    if (limitMs === undefined) return
    const end = lateMs === undefined ? expire : () => becomeLate(job, limitMs - lateMs)
    const endMs = lateMs ?? limitMs
    // The spare thread is ready when the running one may have to be ended.
    const startSpare = () => {
      spare ??= start()
      timer = setTimeout(end, (endMs * 3) / 4)
    }
    timer = keepSpare ? setTimeout(startSpare, endMs / 4) : setTimeout(end, endMs)
  }

  const next = () => {
    clearTimeout(timer)
    running = null
    isLate = false
    const job = turns.next()
    if (job) {
      running = job
      thread ??= takeSpare()
      if (thread.isReady()) post(job)
      return
    }
    if (idleMs !== undefined) timer = setTimeout(stopAll, idleMs).unref()
  }

  return {
    ask(request, options) {
      const { owner, maxWaiting = Number.POSITIVE_INFINITY } = options
      if (closed) return Promise.resolve('closed')
      if (options.signal?.aborted) return Promise.resolve('aborted')
      if (turns.count(owner) >= maxWaiting) return Promise.resolve('full')
      const { promise, resolve, reject } = Promise.withResolvers<Reply | NoReply>()
      const job = { ...options, request, resolve, reject }
      turns.add(owner, job)
      if (running === null) next()
      else if (isLate && running.owner !== owner) giveWay(running)
      const { signal } = options
      if (patienceMs === undefined && signal === undefined) return promise
      const abort = () => turns.delete(owner, job) && resolve('aborted')
      signal?.addEventListener('abort', abort)
      const giveUp = () => {
        turns.delete(owner, job)
        resolve('patience')
      }
      const patience = patienceMs === undefined ? undefined : setTimeout(giveUp, patienceMs)
      return promise.finally(() => {
        clearTimeout(patience)
        signal?.removeEventListener('abort', abort)
      })
    },
    dismiss(owner) {
      for (const job of turns.takeAll(owner)) job.resolve('dismissed')
    },
    close() {
      closed = true
      stopAll()
      running?.resolve('closed')
      running = null
      for (const job of turns.takeAll()) job.resolve('closed')
    },
  }
}
