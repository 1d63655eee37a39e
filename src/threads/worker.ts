/** One worker from its start to its end, as `thread.ts` keeps it: what it says is told to its thread, each thing once. */

import { closeSync, openSync } from 'node:fs'

export interface StartedWorker {
  isReady(): boolean
  post(message: unknown): void
  /** Ends it; from then on it says nothing more. */
  end(): void
}

export interface WorkerListener {
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
const IS_SOURCE = import.meta.url.endsWith('/threads/worker.ts')
const urlOf = (worker: string) => new URL(IS_SOURCE ? `../${worker}.ts` : `./${worker}.js`, import.meta.url).href

/** @param name path below `src/`, without its ending. */
export function startWorker(
  name: string,
  createWorker: (() => Worker) | undefined,
  listener: WorkerListener,
): StartedWorker {
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
