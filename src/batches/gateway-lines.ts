/**
 * Runs lines as requests of this gateway, each with a row in the ledger. If the server is killed before it stores a result, a line that
 * may have been charged is not sent again. Its result is an error that says so.
 */
import type { BatchEndpoint, LineError, LineResult } from '../domain/batches.ts'
import { mintId } from '../domain/id.ts'
import type { Key } from '../domain/snapshot.ts'
import type { LinePlaces } from './places.ts'
import type { BatchWork, LineRunner } from './runner.ts'

export interface LineRequest {
  endpoint: BatchEndpoint
  /** JSON. */
  body: string
  key: Key
  /** Of the ledger row. */
  requestId: string
}

export interface LineAnswer extends LineResult {
  /**
   * `again`: refused for now, not charged. `spent`: no budget left; further lines would be refused, too. `stopped`: the server stops.
   */
  outcome: 'done' | 'again' | 'spent' | 'stopped'
  /** Only for `again`. */
  retryAfterMs: number | null
}

export interface GatewayLinesDeps {
  places: LinePlaces
  answer(request: LineRequest): Promise<LineAnswer>
  /** What the ledger knows of a request; null if it has no row. */
  counted(requestId: string): { isOpen: boolean; nanoUsd: number } | null
  /** Resolves once `counted` includes all requests so far. */
  flushLedger(): Promise<void>
  hasSpace(): boolean
  failed(error: unknown): void
  /** Wall clock, ms. */
  now(): number
  /** Monotonic clock, ms. */
  monotonicMs(): number
  sleep(ms: number): Promise<unknown>
}

const MIN_WAIT_MS = 1_000
const MAX_WAIT_MS = 60_000
/** Both files of a batch together. */
const MAX_OUTPUT_BYTES = 512 * 1024 * 1024

const CUT: LineError = {
  code: 'interrupted',
  message:
    "The server stopped while this request was in progress. It may have been charged, so it wasn't sent again. Its response is lost.",
}
const TOO_LARGE: LineError = {
  code: 'output_too_large',
  message: `The responses of this batch exceed ${MAX_OUTPUT_BYTES / 1024 ** 2} MiB. Send the remaining requests in another batch.`,
}

export const createGatewayLines = (deps: GatewayLinesDeps): LineRunner => ({
  async run(work) {
    const queue = work.pending()
    await settleBegun(deps, work, queue)
    await new LineQueue(deps, work, queue).run()
  },
})

/** Settles lines that an earlier server began. */
async function settleBegun(deps: GatewayLinesDeps, work: BatchWork, queue: number[]): Promise<void> {
  const begun = queue.filter((number) => work.requestIdOf(number) !== null)
  if (begun.length > 0) await deps.flushLedger()
  for (const number of begun) {
    const requestId = work.requestIdOf(number)
    if (requestId === null) continue
    let row = deps.counted(requestId)
    while (row?.isOpen && !work.ending.aborted) {
      await deps.sleep(MIN_WAIT_MS)
      row = deps.counted(requestId)
    }
    if (row !== null && (row.isOpen || row.nanoUsd > 0)) await work.done(await work.read(number), CUT)
  }
}

/** Stores one result for all lines, in parallel, so that they share writes. */
export async function endLines(
  work: Pick<BatchWork, 'read' | 'done'>,
  numbers: readonly number[],
  result: LineResult | LineError,
): Promise<void> {
  const done: Promise<unknown>[] = []
  for (const number of numbers) {
    const { customId } = await work.read(number)
    done.push(work.done({ number, customId }, result))
  }
  await Promise.all(done)
}

class LineQueue {
  readonly #queue: number[]
  readonly #inFlight = new Set<Promise<void>>()
  /** Result of all remaining lines once the budget is spent or the output is too large. */
  #rest: LineResult | LineError | null = null
  #pausedUntilMs = Number.NEGATIVE_INFINITY
  /** Runs one line at a time: the budget may not cover several. */
  #isTight = false
  #waits = 0

  constructor(
    private readonly deps: GatewayLinesDeps,
    private readonly work: BatchWork,
    queue: readonly number[],
  ) {
    const still = new Set(work.pending())
    this.#queue = queue.filter((number) => still.has(number)).reverse()
  }

  async run(): Promise<void> {
    try {
      await this.#runAll()
    } finally {
      await Promise.all(this.#inFlight)
    }
  }

  async #runAll(): Promise<void> {
    const { work } = this
    while (!work.ending.aborted) {
      const number = this.#queue.pop()
      if (number === undefined) {
        if (this.#inFlight.size === 0) break
        await Promise.race(this.#inFlight)
        continue
      }
      if (this.#isTight) await Promise.all(this.#inFlight)
      if (this.#rest === null && work.bytes() > MAX_OUTPUT_BYTES) this.#rest = TOO_LARGE
      if (this.#rest !== null) await endLines(work, [number, ...this.#queue.splice(0)], this.#rest)
      else if (!(await this.#begin(number))) this.#queue.push(number)
    }
  }

  /** False if the line can't begin now. */
  async #begin(number: number): Promise<boolean> {
    const { deps, work } = this
    const pauseMs = this.deps.hasSpace() ? this.#pausedUntilMs - deps.monotonicMs() : MIN_WAIT_MS
    if (pauseMs > 0) {
      await deps.sleep(Math.min(pauseMs, MIN_WAIT_MS))
      return false
    }
    const key = work.key()
    if (key === null) {
      await deps.sleep(MIN_WAIT_MS)
      return false
    }
    const release = await deps.places.take(key.quotaId, work.ending)
    if (release === null) return false
    const running = this.#runLine(number, key)
      // The line stays pending and is retried with the others.
      .catch((error) => deps.failed(error))
      .finally(() => {
        release()
        this.#inFlight.delete(running)
      })
    this.#inFlight.add(running)
    return true
  }

  async #runLine(number: number, key: Key): Promise<void> {
    const { deps, work } = this
    const isAlone = this.#isTight && this.#inFlight.size === 0
    const line = await work.read(number)
    const requestId = mintId(deps.now())
    await work.begin([{ number, requestId }])
    const { outcome, retryAfterMs, ...result } = await deps.answer({
      ...{ endpoint: work.batch.endpoint, body: line.body, key, requestId },
    })
    if (outcome === 'stopped') return
    if (outcome === 'spent' && !isAlone) {
      // Other lines in flight may have reserved the budget that this one needs.
      this.#isTight = true
      this.#queue.push(number)
      return
    }
    if (outcome === 'again') {
      this.#queue.push(number)
      const waitMs = Math.min(MAX_WAIT_MS, MIN_WAIT_MS * 2 ** this.#waits++)
      this.#pausedUntilMs = deps.monotonicMs() + Math.max(waitMs, retryAfterMs ?? 0)
      return
    }
    if (outcome === 'spent') this.#rest = result
    else this.#waits = 0
    await work.done(line, result)
  }
}
