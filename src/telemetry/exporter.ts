/**
 * Sends telemetry to an OTLP/HTTP collector, in JSON, without delaying requests: a bounded queue, one POST at a time
 * with a deadline, and retries as the protocol defines them
 * (https://opentelemetry.io/docs/specs/otlp/#otlphttp-response).
 */

import { messageOf } from '../domain/error.ts'
import { toRetryAfterMs } from '../domain/retry-after.ts'
import type { Log } from '../log.ts'

export type Signal = 'traces' | 'metrics'

export interface ExporterOptions {
  /** The collector's URL, without `/v1/traces`. */
  url: string
  headers: Readonly<Record<string, string>>
  log: Pick<Log, 'warn' | 'info'>
  /** Counts spans or metrics documents that were sent or dropped. */
  onDone(signal: Signal, outcome: 'sent' | 'dropped', count: number): void
  /** For tests. */
  waits?: Partial<typeof WAITS>
}

const WAITS = {
  /** Between batches, so that they are large. */
  gatherMs: 2_000,
  /** Until the response's status. */
  deadlineMs: 10_000,
  /** Before the first retry; doubled each time. */
  retryMs: 1_000,
  /** At shutdown, for everything still queued. */
  closeMs: 2_000,
}

/** About 4 MB; a batch is an eighth of it. */
const MAX_QUEUED = 4_096
const MAX_BATCH = 512
const TRIES = 5
const MAX_RETRY_MS = 60_000
const RETRIED: ReadonlySet<number> = new Set([429, 502, 503, 504])

interface Batch {
  signal: Signal
  count: number
  body: string
}

type Sent = 'sent' | 'refused' | { retryAfterMs: number }

export class Exporter {
  readonly #options: ExporterOptions
  readonly #waits: typeof WAITS
  #spans: string[] = []
  #metrics: string | null = null
  #timer: Timer | null = null
  #sending: Promise<void> | null = null
  /** A collector may accept only one of the signals. */
  readonly #failing = new Set<Signal>()
  #isClosed = false
  /** Ends the pause before a retry. */
  #hurry = () => {}

  /** @param toBody the document of these spans. */
  constructor(
    options: ExporterOptions,
    readonly toBody: (spans: readonly string[]) => string,
  ) {
    this.#options = options
    this.#waits = { ...WAITS, ...options.waits }
  }

  /** If the queue is full, drops the new spans: the oldest ones show how the problem began. */
  addSpans(spans: readonly string[]): void {
    const isFull = this.#isClosed || this.#spans.length + spans.length > MAX_QUEUED
    if (isFull) this.#options.onDone('traces', 'dropped', spans.length)
    else this.#spans.push(...spans)
    this.#schedule(this.#spans.length < MAX_BATCH ? this.#waits.gatherMs : 0)
  }

  /** Replaces a queued document, since values are cumulative. */
  setMetrics(body: string): void {
    if (this.#metrics !== null) this.#options.onDone('metrics', 'dropped', 1)
    this.#metrics = body
    this.#schedule(0)
  }

  /** Tries once more to send everything. A collector that doesn't reply delays it by `closeMs`. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#hurry()
    if (this.#timer) clearTimeout(this.#timer)
    const over = Promise.withResolvers<void>()
    const timer = setTimeout(over.resolve, this.#waits.closeMs)
    await Promise.race([this.#send(), over.promise])
    clearTimeout(timer)
    const left = this.#spans.splice(0).length
    if (left > 0) this.#options.onDone('traces', 'dropped', left)
  }

  #schedule(ms: number): void {
    if (this.#isClosed || this.#sending || (this.#timer && ms > 0)) return
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#send(), ms).unref()
  }

  #send(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = null
      if (this.#spans.length > 0 || this.#metrics !== null) this.#schedule(this.#waits.gatherMs)
    })
    return this.#sending
  }

  async #sendAll(): Promise<void> {
    for (let batch = this.#take(); batch !== null; batch = this.#take()) {
      const outcome = (await this.#sendBatch(batch)) ? 'sent' : 'dropped'
      this.#options.onDone(batch.signal, outcome, batch.count)
    }
  }

  #take(): Batch | null {
    const metrics = this.#metrics
    this.#metrics = null
    if (metrics !== null) return { signal: 'metrics', count: 1, body: metrics }
    const spans = this.#spans.splice(0, MAX_BATCH)
    return spans.length === 0 ? null : { signal: 'traces', count: spans.length, body: this.toBody(spans) }
  }

  async #sendBatch(batch: Batch): Promise<boolean> {
    for (let attempt = 1; ; attempt++) {
      const sent = await this.#post(batch)
      if (typeof sent === 'string') return sent === 'sent'
      if (attempt >= TRIES || this.#isClosed) return false
      const waitMs = Math.max(sent.retryAfterMs, this.#waits.retryMs * 2 ** (attempt - 1))
      await this.#pause(Math.min(waitMs, MAX_RETRY_MS))
    }
  }

  async #post({ signal, body }: Batch): Promise<Sent> {
    const { url, headers } = this.#options
    try {
      const response = await fetch(`${url}/v1/${signal}`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body,
        redirect: 'manual',
        signal: AbortSignal.timeout(this.#waits.deadlineMs),
      })
      // Its body may be endless, and nothing depends on it.
      await response.body?.cancel().catch(() => {})
      if (response.ok) {
        this.#note(signal, null)
        return 'sent'
      }
      this.#note(signal, `status ${response.status}`)
      return RETRIED.has(response.status)
        ? { retryAfterMs: toRetryAfterMs((name) => response.headers.get(name)) ?? 0 }
        : 'refused'
    } catch (error) {
      this.#note(signal, messageOf(error))
      return { retryAfterMs: 0 }
    }
  }

  /** Logs the first of several failures, and the end of them. */
  #note(signal: Signal, reason: string | null): void {
    const { log } = this.#options
    const wasFailing = this.#failing.has(signal)
    if (reason === null) this.#failing.delete(signal)
    else this.#failing.add(signal)
    if (reason !== null && !wasFailing)
      log.warn('telemetry_failed', 'cannot send telemetry to the collector', { signal, reason })
    if (reason === null && wasFailing) log.info('telemetry_recovered', 'collector accepts telemetry again', { signal })
  }

  async #pause(ms: number): Promise<void> {
    const over = Promise.withResolvers<void>()
    const timer = setTimeout(over.resolve, ms).unref()
    this.#hurry = over.resolve
    await over.promise
    clearTimeout(timer)
  }
}
