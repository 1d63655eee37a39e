/** One worker from its start to its end, as `thread.ts` keeps it: what it says is told to its thread, each thing once. */

export interface Started {
  isReady(): boolean
  post(message: unknown): void
  /** Ends it; from then on it says nothing more. */
  end(): void
}

export interface Listener {
  ready(): void
  answer(reply: unknown): void
  /** It did not start, broke, or ended by itself. Never said while `startWorker` runs. */
  lose(error: Error, wasReady: boolean): void
}

/** What loads takes a second on a busy machine; a thread that takes this long will not start any more. */
const START_MS = 60_000

/** In the executable all but the workers is one file at its root, and they stand where the build put them. */
const IS_SOURCE = import.meta.url.endsWith('/threads/worker.ts')
const urlOf = (worker: string) => new URL(IS_SOURCE ? `../${worker}.ts` : `./${worker}.js`, import.meta.url).href

/** @param name path below `src/`, without its ending. */
export function startWorker(name: string, createWorker: (() => Worker) | undefined, listener: Listener): Started {
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

  try {
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
  } catch (error) {
    queueMicrotask(() => lose(String(error)))
  }
  return { isReady: () => isReady, post: (message) => worker?.postMessage(message), end }
}
