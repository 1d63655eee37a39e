/**
 * Has a model's words checked on another thread, one text after the other, each within a time limit. The thread is
 * started on first need and ended when nobody needed it for a while, or when a check took too long: whoever asked for
 * that one is told so, and the next one gets a new thread.
 */
import type { CheckReply, CheckRequest, Verdict } from './check-worker.ts'

export interface Checker {
  /** Prepares a JSON Schema, given as JSON. Resolves to what is wrong with it, or null. */
  prepare(schema: string): Promise<string | null>
  /** Looks for JSON that meets the schema; null = for any JSON object. */
  judge(text: string, schema: string | null): Promise<Verdict | 'slow'>
  close(): void
}

/** The largest schema that strict mode allows compiles in a fraction of this. */
const PREPARE_MS = 6_000
const JUDGE_MS = 1_500
const IDLE_MS = 60_000

/** In the binary everything but the thread is one file at its root, and the thread stands where the build put it. */
const WORKER = import.meta.url.endsWith('/checker.ts') ? './check-worker.ts' : './chat/check-worker.js'

export function createChecker({ prepareMs = PREPARE_MS, judgeMs = JUDGE_MS, idleMs = IDLE_MS } = {}): Checker {
  let thread: Promise<Worker> | null = null
  let idle: Timer | undefined
  let waiting = 0
  let last: Promise<unknown> = Promise.resolve()

  const stop = () => {
    clearTimeout(idle)
    thread?.then((worker) => worker.terminate()).catch(() => {})
    thread = null
  }

  const run = async (request: CheckRequest, limitMs: number): Promise<CheckReply | 'slow'> => {
    thread ??= startThread()
    try {
      const reply = await ask(await thread, request, limitMs)
      if (reply === 'slow') stop()
      return reply
    } catch (error) {
      stop()
      throw error
    }
  }

  const inTurn = (request: CheckRequest, limitMs: number): Promise<CheckReply | 'slow'> => {
    clearTimeout(idle)
    waiting++
    const mine = last.then(() => run(request, limitMs))
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
    async prepare(schema) {
      const reply = await inTurn({ schema, text: null }, prepareMs)
      if (reply === 'slow') return 'it takes too long to compile'
      return 'badSchema' in reply ? reply.badSchema : null
    },
    async judge(text, schema) {
      const reply = await inTurn({ schema, text }, judgeMs)
      if (reply === 'slow') return 'slow'
      return 'badSchema' in reply ? { json: null, problem: reply.badSchema } : reply
    },
    close: stop,
  }
}

/** Resolves once the thread has loaded what it needs: that time is not held against anyone's text. */
function startThread(): Promise<Worker> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL(WORKER, import.meta.url).href)
    worker.unref()
    worker.onmessage = () => resolve(worker)
    worker.onerror = (event) => reject(new Error(`the checking thread did not start: ${event.message}`))
  })
}

function ask(worker: Worker, request: CheckRequest, limitMs: number): Promise<CheckReply | 'slow'> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve('slow'), limitMs)
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
