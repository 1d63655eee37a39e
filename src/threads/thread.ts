/**
 * Work that must not stop the event loop, on a thread of its own: started on first need, given one request after the other, ended when
 * nobody needs it for a while or when a request takes too long. Owners (keys) take turns, so that what one of them asks for keeps nobody
 * else waiting for longer than one request. A worker says once that it is ready, and answers each message with one.
 */
import { closeSync, openSync } from 'node:fs'
import type { EndSignal } from '../domain/end-signal.ts'
import { Turns } from './fair-queue.ts'

interface StartedWorker {
  isReady(): boolean
  post(message: unknown): void
  /** Ends it; from then on it says nothing more. */
  end(): void
}

interface WorkerListener {
  ready(): void
  answer(reply: unknown): void
  /** It did not start, broke, or ended by itself. Never said while `startWorker` runs. */
  lose(error: Error, wasReady: boolean): void
}

/** What loads takes a second on a busy machine; a thread that takes this long will not start any more. */
const START_MS = 60_000

/** Bun ends the whole process where a starting worker finds no file for its event loop. More than it opens: others take some, too. */
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

/** In the executable all but the workers lies in pieces at its root, and they stand where the build put them. */
const IS_SOURCE = import.meta.url.endsWith('/threads/thread.ts')
const urlOf = (worker: string) => new URL(IS_SOURCE ? `../${worker}.ts` : `./${worker}.js`, import.meta.url).href

/** @param name path below `src/`, without its ending. */
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
 * Why there is no reply: it took longer than its limit; it waited for too long; too much of its owner's waits already; its
 * signal aborted before its turn; it was late and another owner came; all that waited for its owner was dismissed; or the
 * thread is closed.
 */
export type NoReply = 'limit' | 'patience' | 'late' | 'full' | 'aborted' | 'dismissed' | 'closed'

export interface AskOptions {
  /** Whose request it is: owners take turns. */
  owner: string
  /** How long it may take, ms, not counting the wait for its turn and for the thread to start; without it, for ever. */
  limitMs?: number
  /** After how long it is late, ms: when another owner waits, it is ended, and all that waits for its owner is dismissed. */
  lateMs?: number
  /** Most that may wait for its owner at once, itself included. */
  maxWaiting?: number
  signal?: EndSignal
}

export interface Thread<Request, Reply extends object> {
  /** Resolves with the worker's reply, or why there is none. Rejects where the thread does not start, or fails at this request. */
  ask(request: Request, options: AskOptions): Promise<Reply | NoReply>
  /** Tells all that wait for an owner that there will be no reply; one that is under way goes on. */
  dismiss(owner: string): void
  /** Ends it. Whoever waits is told at once. */
  close(): void
}

export interface ThreadOptions {
  /** After how much quiet the thread and its memory are given back; without it, never. */
  idleMs?: number
  /** How long anybody waits, starting the thread included; without it, as long as it takes. */
  patienceMs?: number
  /** Whether another thread is started for those who wait, once a request has taken a quarter of its time. */
  keepSpare?: boolean
  /** In place of the worker that was named. */
  createWorker?: () => Worker
}

interface Job<Request, Reply> extends AskOptions {
  request: Request
  resolve(reply: Reply | NoReply): void
  reject(error: Error): void
}

/** @param worker path below `src/`, without its ending. Each is named to `bun run build`, too. */
export function createThread<Request, Reply extends object>(
  worker: string,
  { idleMs, patienceMs, keepSpare = false, createWorker }: ThreadOptions = {},
): Thread<Request, Reply> {
  const turns = new Turns<Job<Request, Reply>>()
  let running: Job<Request, Reply> | null = null
  let thread: StartedWorker | null = null
  let spare: StartedWorker | null = null
  /** Of the thread: until it has answered, or until it has been idle for long enough. */
  let timer: Timer | undefined
  /** Of the request at work. */
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

  /** Where a thread does not start, nobody who waits would fare better; where it breaks at work, the others may. */
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
    // The spare thread has started by the time that the one at work may have to be ended.
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
