/**
 * Sends gathered data, one message at a time. While the other process is busy, more data gathers. Memory is bounded by the
 * data behind `take`.
 */
import { LinkLost } from '../../domain/link.ts'
import { type Log, traceOf } from '../../log.ts'

export interface OutboxDeps<Body> {
  /** Null if there is nothing to send. */
  take(): Body | null
  send(body: Body): Promise<unknown>
  /** Time to gather, ms; 0 = only while the other process is busy. */
  gatherMs: number
  log: Pick<Log, 'error'>
}

export class Outbox<Body> {
  readonly #deps: OutboxDeps<Body>
  #isWanted = false
  #isRunning = false
  #isLost = false
  #waiting: (() => void)[] = []
  #hurry = () => {}

  constructor(deps: OutboxDeps<Body>) {
    this.#deps = deps
  }

  /** Call once data has gathered. */
  wake(): void {
    this.#isWanted = true
    if (!this.#isRunning && !this.#isLost) void this.#run()
  }

  /** Sends at once. Resolves once the other process has received all gathered data, or has ended. */
  async flush(): Promise<void> {
    if (this.#isLost) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push(resolve)
    this.wake()
    this.#hurry()
    await promise
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    while (this.#isWanted && !this.#isLost) {
      await this.#gather()
      this.#isWanted = false
      const waiting = this.#waiting
      this.#waiting = []
      await this.#send()
      for (const resolve of waiting) resolve()
    }
    this.#isRunning = false
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  async #gather(): Promise<void> {
    const { gatherMs } = this.#deps
    if (gatherMs === 0 || this.#waiting.length > 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, gatherMs)
    this.#hurry = resolve
    await promise
    clearTimeout(timer)
  }

  async #send(): Promise<void> {
    const { take, send, log } = this.#deps
    try {
      const body = take()
      if (body !== null) await send(body)
    } catch (error) {
      if (error instanceof LinkLost) this.#isLost = true
      else log.error('internal_error', 'message to another process of this server failed', { error: traceOf(error) })
    }
  }
}
