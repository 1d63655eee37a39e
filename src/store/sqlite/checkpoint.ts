/**
 * Decides when the server's WAL is checkpointed: after a number of commits, never on the event loop. The thread that
 * does it is started on first need, so that a quiet server does not pay for one.
 */
import type { Log } from '../../log.ts'
import type { CheckpointReply, CheckpointRequest } from './checkpoint-worker.ts'

/** About 20 MB of WAL under load. */
const COMMITS_BETWEEN = 1_000

export interface Checkpointer {
  /** Counts a commit. */
  note(): void
  /** Runs one now, or joins the one that is under way and runs another. Resolves true if it covered everything. */
  run(): Promise<boolean>
  close(): void
}

/** In the binary everything but the thread is one file at its root, and the thread stands where the build put it. */
const WORKER = import.meta.url.endsWith('/checkpoint.ts')
  ? './checkpoint-worker.ts'
  : './store/sqlite/checkpoint-worker.js'

export function createCheckpointer(path: string, log: Log): Checkpointer {
  let worker: Worker | null = null
  let commits = 0
  let running: Promise<boolean> | null = null
  let closed = false

  const start = (): Promise<boolean> => {
    if (closed) return Promise.resolve(false)
    commits = 0
    worker ??= new Worker(new URL(WORKER, import.meta.url).href)
    const thread = worker
    const request: CheckpointRequest = { path }
    running = new Promise<boolean>((resolve) => {
      thread.onmessage = (event: MessageEvent<CheckpointReply>) => {
        if (event.data.error) log.warn('a checkpoint failed', { error: event.data.error })
        resolve(event.data.done)
      }
      thread.onerror = (event) => {
        log.warn('the checkpoint thread failed', { error: event.message })
        worker = null
        resolve(false)
      }
      thread.postMessage(request)
    }).finally(() => {
      running = null
    })
    return running
  }

  return {
    note() {
      if (++commits >= COMMITS_BETWEEN && !running) void start()
    },
    async run() {
      await running
      // Of several who waited, the first starts one that covers them all.
      return running ?? start()
    },
    close() {
      closed = true
      worker?.terminate()
    },
  }
}
