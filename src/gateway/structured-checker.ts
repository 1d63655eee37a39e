/**
 * Validates model output on threads, so that one key's hostile schemas delay no one else: keys take turns, a slow check
 * yields to other keys, and a key that had one uses a second thread for a minute. A key whose slow checks took seconds
 * within a minute must wait.
 *
 * Ending a thread frees its callers but not the CPU at once: a regular expression runs on for a second or two.
 */

import type { EndSignal } from '../domain/end-signal.ts'
import { GatewayError, toRetryAfter } from '../domain/error.ts'
import { createThread, type NoReply, type ThreadOptions } from '../threads/thread.ts'
import type { CheckReply, CheckRequest, Verdict } from './json-check-worker.ts'

const MEMORY_MS = 60_000

interface Slow {
  atMs: number
  tookMs: number
}

export class SlowKeys {
  /** By key, the oldest first. */
  readonly #slow = new Map<string, Slow[]>()

  /**
   * @param mostMs a key whose slow checks took longer than this in the last minute must wait.
   * @param nowMs monotonic clock.
   */
  constructor(
    private readonly mostMs: number,
    private readonly nowMs: () => number,
  ) {}

  note(quotaId: string, tookMs: number): void {
    this.#slow.set(quotaId, [...this.#of(quotaId), { atMs: this.nowMs(), tookMs }])
  }

  isSlow(quotaId: string): boolean {
    // Nearly always there is none.
    return this.#slow.has(quotaId) && this.#of(quotaId).length > 0
  }

  /** Ms until the key may validate again; 0 if it may now. */
  waitMs(quotaId: string): number {
    if (!this.#slow.has(quotaId)) return 0
    let leftMs = this.mostMs
    // The newest are forgotten last: find the one that exceeds the limit.
    for (const { atMs, tookMs } of this.#of(quotaId).reverse()) {
      leftMs -= tookMs
      if (leftMs <= 0) return atMs + MEMORY_MS - this.nowMs()
    }
    return 0
  }

  #of(quotaId: string): Slow[] {
    const all = this.#slow.get(quotaId) ?? []
    const sinceMs = this.nowMs() - MEMORY_MS
    const recent = all.filter(({ atMs }) => atMs > sinceMs)
    if (recent.length === 0) this.#slow.delete(quotaId)
    return recent
  }
}

export interface Checker {
  /**
   * Resolves to the schema's error, or null. Throws `request_limit` if too many of the key's schemas are queued or were
   * too slow, and `overloaded` if it can't be compiled now.
   */
  prepare(quotaId: string, schema: string, signal: EndSignal): Promise<string | null>
  /** A null schema accepts any JSON object. Does nothing once the signal has aborted. */
  judge(quotaId: string, text: string, schema: string | null, signal: EndSignal): Promise<Verdict | 'slow'>
  /** Ends running checks as too slow; later ones fail at once. */
  close(): void
}

interface CheckerOptions extends Pick<ThreadOptions, 'idleMs'> {
  judgeMs?: number
  slowMs?: number
  /** Monotonic clock. */
  nowMs?(): number
}

/** An ordinary schema compiles, and an ordinary response is validated, in a tenth of this. */
const QUICK_MS = 200
/** The largest schema that strict mode allows compiles in a fraction of this. */
const PREPARE_MS = 6_000
const JUDGE_MS = 1_500
const IDLE_MS = 60_000
const SLOW_MS = 5_000
const PATIENCE_MS = 10_000
/** Twice what strict mode allows: takes seconds and hundreds of megabytes to compile. */
const MAX_SCHEMA_CHARS = 400_000
/** Only for schemas, one per choice of a request; responses are paid for. */
const MAX_WAITING = 512

interface CheckTask {
  request: CheckRequest
  owner: string
  limitMs: number
  maxWaiting?: number
  signal: EndSignal
}

export function createChecker(options: CheckerOptions = {}): Checker {
  const { judgeMs = JUDGE_MS, slowMs = SLOW_MS, idleMs = IDLE_MS, nowMs = () => performance.now() } = options
  const settings = { idleMs, patienceMs: PATIENCE_MS, keepSpare: true }
  const quick = createThread<CheckRequest, CheckReply>('gateway/json-check-worker', settings)
  const patient = createThread<CheckRequest, CheckReply>('gateway/json-check-worker', settings)
  const slowKeys = new SlowKeys(slowMs, nowMs)

  const run = async ({ request, limitMs, ...ask }: CheckTask): Promise<CheckReply | NoReply> => {
    const { owner } = ask
    const quickMs = Math.min(QUICK_MS, limitMs)
    const noteSlow = (reply: CheckReply | NoReply) => {
      if (reply === 'late') slowKeys.note(owner, quickMs)
      else if (reply === 'limit') slowKeys.note(owner, limitMs)
      else if (typeof reply !== 'string' && reply.tookMs > QUICK_MS) slowKeys.note(owner, reply.tookMs)
    }
    if (!slowKeys.isSlow(owner)) {
      const reply = await quick.ask(request, { ...ask, limitMs, lateMs: quickMs })
      noteSlow(reply)
      // Its other queued checks may be as slow.
      if (slowKeys.isSlow(owner)) quick.dismiss(owner)
      if (reply !== 'late' && reply !== 'dismissed') return reply
    }
    if (slowKeys.waitMs(owner) > 0) return 'dismissed'
    const reply = await patient.ask(request, { ...ask, limitMs })
    noteSlow(reply)
    if (slowKeys.waitMs(owner) > 0) patient.dismiss(owner)
    return reply
  }

  return {
    async prepare(owner, schema, signal) {
      if (schema.length > MAX_SCHEMA_CHARS) {
        return `it has ${schema.length} characters (limit for this model: ${MAX_SCHEMA_CHARS})`
      }
      const request = { owner, schema, text: null }
      const reply = await orAborted(
        run({ request, owner, limitMs: PREPARE_MS, maxWaiting: MAX_WAITING, signal }),
        signal,
      )
      if (typeof reply !== 'string') return 'badSchema' in reply.found ? reply.found.badSchema : null
      if (reply === 'limit' || reply === 'late') return 'it takes too long to compile'
      if (reply === 'aborted') return null
      throw whyNot(reply, slowMs, slowKeys.waitMs(owner))
    },
    async judge(owner, text, schema, signal) {
      const reply = await orAborted(run({ request: { owner, schema, text }, owner, limitMs: judgeMs, signal }), signal)
      if (typeof reply === 'string') return 'slow'
      const { found } = reply
      return 'badSchema' in found ? { json: null, problem: found.badSchema } : found
    },
    close() {
      quick.close()
      patient.close()
    },
  }
}

/** Stops waiting if the client disconnects. A running check continues and counts against its key. */
async function orAborted<Reply>(reply: Promise<Reply>, signal: EndSignal): Promise<Reply | 'aborted'> {
  const aborted = Promise.withResolvers<'aborted'>()
  const abort = () => aborted.resolve('aborted')
  signal.addEventListener('abort', abort)
  if (signal.aborted) abort()
  try {
    return await Promise.race([reply, aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

function whyNot(reply: Exclude<NoReply, 'limit' | 'aborted' | 'late'>, slowMs: number, waitMs: number): GatewayError {
  if (reply === 'closed') return new GatewayError('overloaded', 'The server is shutting down. Try again.')
  if (reply === 'patience') {
    return new GatewayError('overloaded', 'Tollgate is overloaded: timed out waiting for schema validation. Try again.')
  }
  const why =
    reply === 'full'
      ? `${MAX_WAITING} schemas of this key are queued for validation (limit)`
      : `validation with this key's schemas took more than ${slowMs / 1_000} s within a minute. Simplify the schemas, especially patterns and 'uniqueItems'`
  return new GatewayError('request_limit', `Rate limit reached for response_format: ${why}.`, {
    param: 'response_format',
    headers: { 'retry-after': toRetryAfter(waitMs) },
  })
}
