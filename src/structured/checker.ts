/**
 * Has what a model wrote checked away from the event loop, in two lanes: nearly every check is done in a moment, and what is
 * not goes to a thread of its own, so that one client's hostile schema keeps nobody else waiting.
 */
import { GatewayError } from '../domain/error.ts'
import { createThread } from '../threads.ts'
import type { CheckReply, CheckRequest, Verdict } from './check-worker.ts'

export interface Checker {
  /** Prepares a JSON Schema, given as JSON. Resolves to what is wrong with it, or null. Throws `overloaded` once closed. */
  prepare(schema: string, signal: AbortSignal): Promise<string | null>
  /** Looks for JSON that meets the schema; null = for any JSON object. Nothing is checked once the signal has aborted. */
  judge(text: string, schema: string | null, signal: AbortSignal): Promise<Verdict | 'slow'>
  /** From now on everything takes too long, and what is under way does so at once. */
  close(): void
}

/** An ordinary schema compiles, and an ordinary answer is checked, in a tenth of this. */
const QUICK_MS = 200
/** The largest schema that strict mode allows compiles in a fraction of this. */
const PREPARE_MS = 6_000
const JUDGE_MS = 1_500
const IDLE_MS = 60_000
/** Schemas that were once too slow for the quick lane stay out of it; so many are remembered. */
const MAX_SLOW = 1_000

export function createChecker({ prepareMs = PREPARE_MS, judgeMs = JUDGE_MS, idleMs = IDLE_MS } = {}): Checker {
  const quick = createThread<CheckRequest, CheckReply>('structured/check-worker', { idleMs })
  const patient = createThread<CheckRequest, CheckReply>('structured/check-worker', { idleMs })
  const slow = new Set<number | bigint>()
  let closed = false

  const run = async (request: CheckRequest, limitMs: number, signal: AbortSignal): Promise<CheckReply | null> => {
    const name = request.schema === null ? null : Bun.hash(request.schema)
    if (name === null || !slow.has(name)) {
      const reply = await quick.ask(request, { limitMs: Math.min(QUICK_MS, limitMs), signal })
      if (reply !== null || signal.aborted) return reply
      if (slow.size >= MAX_SLOW) slow.clear()
      // Without a schema it was the text alone.
      if (name !== null) slow.add(name)
    }
    return patient.ask(request, { limitMs, signal })
  }

  return {
    async prepare(schema, signal) {
      const reply = await run({ schema, text: null }, prepareMs, signal)
      if (reply === null && closed) throw new GatewayError('overloaded', 'The server is shutting down. Try again.')
      if (reply === null) return 'it takes too long to compile'
      return 'badSchema' in reply ? reply.badSchema : null
    },
    async judge(text, schema, signal) {
      const reply = await run({ schema, text }, judgeMs, signal)
      if (reply === null) return 'slow'
      return 'badSchema' in reply ? { json: null, problem: reply.badSchema } : reply
    },
    close() {
      closed = true
      quick.close()
      patient.close()
    },
  }
}
