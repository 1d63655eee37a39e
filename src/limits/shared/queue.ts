/** Batches a node's messages to the engine. One call is in flight; messages that arrive during a call go into the next. */
import {
  type Ask,
  type Batch,
  BatchRefusal,
  type BatchReply,
  type EngineWarning,
  type LimitEngine,
  type ScopeReply,
  type Told,
} from './engine.ts'

export interface EngineTimes {
  /** A node that is silent for this long counts as ended. */
  leaseMs: number
  /** How long a new state waits for all nodes. */
  youngMs: number
  /** How long a new state waits for the ledger to have the spend of all nodes. */
  settleMs: number
  /** Interval of calls. An outage is noticed within this time plus the engine's timeout. */
  beatMs: number
  /** How long a node spends its budget leases in an outage. */
  sliceMs: number
}

export const ENGINE_TIMES: EngineTimes = {
  ...{ leaseMs: 5_000, youngMs: 1_000, settleMs: 10_000, beatMs: 100, sliceMs: 600_000 },
}

export interface EngineQueueDeps {
  engine: LimitEngine
  /** ID of this run. */
  epoch: string
  /** Monotonic clock, ms. */
  monotonicMs(): number
  times?: EngineTimes
  /**
   * Reports for the engine before it decides again, after an outage or if this node counted as ended.
   * @param isLost whether the engine has lost its state.
   */
  restore(isLost: boolean): Told[]
  /** True if the ledger may lack spend of this node from before a loss of the state. */
  isBehind(): boolean
  onWarning(warning: EngineWarning): void
  /** The engine rejected the content of this message, which is dropped. */
  onRefused(what: Ask | Told, why: string): void
  /** @param reason why the engine can't be reached; null once it is reachable again. */
  onChange(reason: string | null): void
}

interface Waiting {
  ask: Ask
  sinceMs: number
  resolve(replies: ScopeReply[] | null): void
}

const FLUSH_MS = 1_000
/** How long an ask waits for its turn if the engine is slow. */
const PATIENCE_MS = 2_000

export class EngineQueue {
  /** Living nodes by the engine's last reply; null before the first. */
  nodes: number | null = null
  /** Why the engine can't be reached; null if it can. */
  trouble: string | null = 'Not asked yet.'
  readonly #deps: EngineQueueDeps
  readonly #times: EngineTimes
  #asks: Waiting[] = []
  #told: Told[] = []
  /** Sent messages that may have been applied. */
  #unconfirmed: Told[] | null = null
  #seq = 0
  /** Size of a batch. Smaller during the search for a message that the engine rejects. */
  #limit: number
  #bornMs: number | null = null
  #nowMs = 0
  /** Engine's clock minus the monotonic one. */
  #offsetMs: number | null = null
  /** Until this time, a new state decides nothing. */
  #decidesMs = 0
  #wake: () => void = () => {}
  /** Whether an outage has been reported. */
  #isAway = false
  #isClosed = false
  readonly #first = Promise.withResolvers<void>()
  readonly #ended: Promise<void>

  constructor(deps: EngineQueueDeps) {
    this.#deps = deps
    this.#times = deps.times ?? ENGINE_TIMES
    this.#limit = deps.engine.maxBatch
    this.#ended = this.#run()
  }

  /** Resolves after the first call, failed or not. */
  get started(): Promise<void> {
    return this.#first.promise
  }

  /** Current time by the engine's clock, once known. */
  nowMs(wallMs: number): number {
    return this.#offsetMs === null ? wallMs : this.#deps.monotonicMs() + this.#offsetMs
  }

  /** The engine's clock at its last reply, and the start of its state. */
  get last(): { nowMs: number; bornMs: number } {
    return { nowMs: this.#nowMs, bornMs: this.#bornMs ?? 0 }
  }

  /** Null if the engine can't be reached or is too slow. It may still have decided. */
  ask(ask: Ask): Promise<ScopeReply[] | null> {
    if (this.trouble !== null || this.#isClosed) return Promise.resolve(null)
    const { promise, resolve } = Promise.withResolvers<ScopeReply[] | null>()
    this.#asks.push({ ask, sinceMs: this.#deps.monotonicMs(), resolve })
    this.#wake()
    return promise
  }

  /** Sends reports in order, each once, as soon as the engine is reachable. */
  tell(...told: Told[]): void {
    this.#told.push(...told)
    this.#wake()
  }

  /** Sends the remaining reports, for up to a second. */
  async close(): Promise<void> {
    const endMs = this.#deps.monotonicMs() + FLUSH_MS
    while (this.trouble === null && this.#hasTold() && this.#deps.monotonicMs() < endMs) await Bun.sleep(5)
    this.#isClosed = true
    this.#wake()
    await this.#ended
    await this.#deps.engine.close()
  }

  #hasTold(): boolean {
    return this.#told.length > 0 || this.#unconfirmed !== null
  }

  #hasWork(): boolean {
    if (this.trouble !== null) return false
    return this.#hasTold() || (this.#asks.length > 0 && this.#deps.monotonicMs() >= this.#decidesMs)
  }

  async #run(): Promise<void> {
    while (!this.#isClosed) {
      await this.#send()
      this.#first.resolve()
      if (!this.#hasWork() && !this.#isClosed) await this.#untilWoken()
    }
    this.#giveUp()
  }

  async #untilWoken(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    // Batch the messages of one event loop turn.
    this.#wake = () => this.trouble === null && setImmediate(resolve)
    const timer = setTimeout(resolve, this.#times.beatMs)
    await promise
    clearTimeout(timer)
    this.#wake = () => {}
  }

  async #send(): Promise<void> {
    const { engine, epoch } = this.#deps
    const { leaseMs, youngMs, sliceMs, settleMs } = this.#times
    if (this.#unconfirmed === null && this.#told.length > 0) {
      this.#unconfirmed = this.#told.splice(0, this.#limit)
      this.#seq++
    }
    this.#giveUpLate()
    // An ask is decided after all earlier reports.
    const isSearching = this.#limit < engine.maxBatch
    const mayAsk = isSearching ? this.#unconfirmed === null : this.#told.length === 0
    const canDecide = mayAsk && this.#deps.monotonicMs() >= this.#decidesMs
    const waiting = canDecide ? this.#asks.splice(0, this.#limit) : []
    const asks = waiting.map(({ ask }) => ask)
    const batch: Batch = {
      epoch,
      seq: this.#seq,
      leaseMs,
      youngMs,
      sliceMs: sliceMs + leaseMs,
      ...(this.#deps.isBehind() && { behindMs: settleMs }),
      told: this.#unconfirmed ?? [],
      asks,
    }
    try {
      this.#take(await within(engine.timeoutMs, engine.call(batch)), waiting)
      this.#limit = Math.min(engine.maxBatch, 2 * this.#limit)
    } catch (error) {
      if (error instanceof BatchRefusal) return this.#refused(waiting, error.message)
      engine.reset()
      this.#asks.unshift(...waiting)
      this.trouble = error instanceof Error ? error.message : String(error)
      this.#giveUp()
      if (!this.#isAway) this.#deps.onChange(this.trouble)
      this.#isAway = true
    }
  }

  /** Sends smaller batches until the rejected message is found. */
  #refused(waiting: Waiting[], why: string): void {
    const told = this.#unconfirmed ?? []
    this.#unconfirmed = null
    const [one] = [...told, ...waiting.map(({ ask }) => ask)]
    if (one && told.length + waiting.length === 1) {
      this.#deps.onRefused(one, why)
      for (const { resolve } of waiting) resolve(null)
      return
    }
    this.#limit = Math.max(1, Math.floor(Math.max(told.length, waiting.length) / 2))
    this.#told.unshift(...told)
    this.#asks.unshift(...waiting)
  }

  #take(reply: BatchReply, waiting: Waiting[]): void {
    const { monotonicMs, restore, onChange, onWarning } = this.#deps
    this.#unconfirmed = null
    this.nodes = Math.max(1, reply.nodes)
    this.#nowMs = reply.nowMs
    this.#offsetMs = reply.nowMs - monotonicMs()
    const youngMs = Math.max(0, this.#times.youngMs - (reply.nowMs - reply.bornMs))
    const isLost = this.#bornMs === null ? youngMs > 0 : reply.bornMs !== this.#bornMs
    const wasAway = this.trouble !== null
    this.#bornMs = reply.bornMs
    this.trouble = null
    if (reply.isNew || wasAway) this.#told.push(...restore(isLost))
    if (this.#isAway) onChange(null)
    this.#isAway = false
    for (const warning of reply.warnings) onWarning(warning)
    if (waiting.length > 0 && reply.replies.length === 0) {
      this.#decidesMs = monotonicMs() + youngMs
      this.#asks.unshift(...waiting)
      return
    }
    for (const [at, { resolve }] of waiting.entries()) resolve(reply.replies[at] ?? null)
  }

  #giveUpLate(): void {
    const untilMs = this.#deps.monotonicMs() - PATIENCE_MS
    while (this.#asks[0] && this.#asks[0].sinceMs < untilMs) this.#asks.shift()?.resolve(null)
  }

  #giveUp(): void {
    for (const { resolve } of this.#asks.splice(0)) resolve(null)
  }
}

/** Rejects if `work` takes longer, unless this process itself was late. */
async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const fail = () => late.reject(new Error(`No response within ${ms} ms.`))
  const timer = setTimeout(() => setImmediate(() => setImmediate(fail)), ms)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
    work.catch(() => {})
  }
}
