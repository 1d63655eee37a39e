/**
 * Has what a model wrote checked away from the event loop, so that one key's hostile schemas keep nobody else waiting: keys
 * take turns; nearly every check is done in a moment, a slow one gives way where another key waits, and a key that has had
 * one goes to another thread for a minute, where only its like are. A key whose slow checks have taken seconds within a minute waits.
 *
 * To end a thread frees whoever waits for it, but not the processor: the runtime stops a script between any two steps, but
 * not within a regular expression, which gives up by itself after a second or two.
 */

import type { EndSignal } from '../domain/end-signal.ts'
import { GatewayError, toRetryAfter } from '../domain/error.ts'
import { createThread, type NoReply, type ThreadOptions } from '../threads/thread.ts'
import type { CheckReply, CheckRequest, Verdict } from './json-check-worker.ts'

/** So long is remembered what was slow. */
const MEMORY_MS = 60_000

interface Slow {
  atMs: number
  tookMs: number
}

/** Which keys have had slow checks in the last minute, and what these took. Pure; time comes in, from a clock that never steps. */
export class SlowKeys {
  /** By key, the oldest first. */
  readonly #slow = new Map<string, Slow[]>()

  /** @param mostMs a key whose slow checks have taken so long in the last minute waits until enough of it is forgotten. */
  constructor(
    private readonly mostMs: number,
    private readonly nowMs: () => number,
  ) {}

  /** Notes a slow check. */
  note(quotaId: string, tookMs: number): void {
    this.#slow.set(quotaId, [...this.#of(quotaId), { atMs: this.nowMs(), tookMs }])
  }

  /** Whether a check of the key was slow. */
  isSlow(quotaId: string): boolean {
    // Nearly always there is none.
    return this.#slow.has(quotaId) && this.#of(quotaId).length > 0
  }

  /** How long until the key may have anything checked; 0 where it may now. */
  waitMs(quotaId: string): number {
    if (!this.#slow.has(quotaId)) return 0
    let leftMs = this.mostMs
    // What was last is forgotten last: with which one is there too much?
    for (const { atMs, tookMs } of this.#of(quotaId).reverse()) {
      leftMs -= tookMs
      if (leftMs <= 0) return atMs + MEMORY_MS - this.nowMs()
    }
    return 0
  }

  /** Those that are remembered. */
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
   * Prepares a key's JSON Schema, given as JSON. Resolves to what is wrong with it, or null. Throws `request_limit` where
   * too many of its schemas wait, or were too slow, and `overloaded` where it cannot be looked at now.
   */
  prepare(quotaId: string, schema: string, signal: EndSignal): Promise<string | null>
  /** Looks for JSON that meets the schema; null = for any JSON object. Nothing is checked once the signal has aborted. */
  judge(quotaId: string, text: string, schema: string | null, signal: EndSignal): Promise<Verdict | 'slow'>
  /** From now on everything takes too long, and what is under way does so at once. */
  close(): void
}

interface CheckerOptions extends Pick<ThreadOptions, 'idleMs'> {
  judgeMs?: number
  slowMs?: number
  /** A clock that never steps. */
  nowMs?(): number
}

/** An ordinary schema compiles, and an ordinary answer is checked, in a tenth of this. */
const QUICK_MS = 200
/** The largest schema that strict mode allows compiles in a fraction of this. */
const PREPARE_MS = 6_000
const JUDGE_MS = 1_500
const IDLE_MS = 60_000
/** Most that the slow checks of one key may take of a minute. */
const SLOW_MS = 5_000
/** How long anybody waits for a check, starting a thread included. */
const PATIENCE_MS = 10_000
/** Twice what strict mode allows: it takes seconds to compile, and hundreds of megabytes. Not more than are kept. */
const MAX_SCHEMA_CHARS = 400_000
/** Most schemas of one key that wait at once, one for each choice of a request. Of its answers as many wait as it has requests under way: they are paid for. */
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
  /** For keys that have had slow checks. */
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
      // Each of those that wait may take as long.
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
        return `it has ${schema.length} characters, and answers of this model are checked against ${MAX_SCHEMA_CHARS} at most`
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

/** Waits for a check no longer than its client does. A check at work goes on all the same, and is held against its key. */
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
    return new GatewayError('overloaded', 'Tollgate is overloaded: schemas wait too long to be checked. Try again.')
  }
  const why =
    reply === 'full'
      ? `${MAX_WAITING} schemas of this key wait to be checked, the most that may`
      : `checks against this key's schemas took more than ${slowMs / 1_000} seconds within a minute. Simplify the schemas, their patterns and 'uniqueItems' above all`
  return new GatewayError('request_limit', `Rate limit reached for response_format: ${why}.`, {
    param: 'response_format',
    headers: { 'retry-after': toRetryAfter(waitMs) },
  })
}
