/** Nodes that share their limits, on real engines. */
import { GatewayError } from '../../src/domain/error.ts'
import type { Key, Team } from '../../src/domain/snapshot.ts'
import type { BudgetWarning } from '../../src/limits/budget.ts'
import type { Amount, Reservation } from '../../src/limits/limiter.ts'
import type { Ask, LimitEngine, ScopeAsk, Told } from '../../src/limits/shared/engine.ts'
import { createSharedLimiter } from '../../src/limits/shared/limiter.ts'
import { openPostgresLimits } from '../../src/limits/shared/postgres.ts'
import type { EngineTimes } from '../../src/limits/shared/queue.ts'
import type { SharedLimiterDeps } from '../../src/limits/shared/state.ts'
import { openValkey } from '../../src/limits/shared/valkey.ts'
import { createLog } from '../../src/log.ts'
import { openPostgres } from '../../src/store/postgres/client.ts'
import { migratePostgres } from '../../src/store/postgres/migrate.ts'
import { startPostgres, startValkey } from '../support/engines.ts'
import { at } from './asking.ts'

export const log = createLog({ now: () => 0, write: async () => {} })
/** Engines of the tests. */
export const times: EngineTimes = { leaseMs: 1_500, youngMs: 300, settleMs: 10_000, beatMs: 20, sliceMs: 60_000 }
/** Longer than any delay of a busy machine. */
export const timeoutMs = 2_000
let names = 0
/** Different from all others. */
export const mint = (kind: string): string => `${kind}${++names}`

export interface TestEngine {
  open(): LimitEngine
  kill(): Promise<void>
  start(): Promise<void>
  close(): Promise<void>
}

export const ENGINES = {
  async Valkey(): Promise<TestEngine> {
    const server = await startValkey()
    const { kill, start, close, url } = server
    return { open: () => openValkey({ url, timeoutMs }), kill, start, close }
  },
  async PostgreSQL(): Promise<TestEngine> {
    const server = await startPostgres()
    const open = () => openPostgres({ url: server.url, log, timing: { retryMs: 20 } })
    const postgres = open()
    await migratePostgres(postgres)
    await postgres.close()
    const { kill, start, close } = server
    return { open: () => openPostgresLimits(open(), timeoutMs), kill, start, close }
  },
}

/** A separate key per test, so that tests don't interfere. */
export const named = (key: Key): Key => ({ ...key, id: mint('k') })

export function openNode(engine: LimitEngine, more: Partial<SharedLimiterDeps> = {}) {
  const warnings: BudgetWarning[] = []
  const outages: (string | null)[] = []
  const refused: (Ask | Told)[] = []
  const limiter = createSharedLimiter({
    ...{ engine, epoch: mint('e'), onOutage: 'share', times, monotonicMs: () => performance.now() },
    ...{ now: Date.now, spent: async () => 0, shipped: async () => {}, recent: () => [], nodes: () => 3 },
    onWarning: (warning) => warnings.push(warning),
    onRefused: (what) => refused.push(what),
    onOutageChange: (reason) => outages.push(reason),
    ...more,
  })
  const admit = async (key: Key, team: Team | null, amount: Amount) => {
    const request = limiter.enter(mint('r'), key, team)
    const decided = await request.admit(amount, at(0))
    if (decided instanceof GatewayError) await request.refuse(decided, 0)
    return decided
  }
  return { limiter, admit, warnings, outages, refused, [Symbol.asyncDispose]: () => limiter.close() }
}
export const admitted = (decided: readonly (Reservation | GatewayError)[]) =>
  decided.flatMap((one) => (one instanceof GatewayError ? [] : [one]))

export function toScope({ id, limits, budget: of }: Key): ScopeAsk {
  const day = Math.floor(Date.now() / 86_400_000) * 86_400_000
  return {
    name: `key:${id}`,
    ...(limits.rpm !== null && { rpm: limits.rpm }),
    ...(limits.tpm !== null && { tpm: limits.tpm }),
    ...(limits.concurrency !== null && { concurrency: limits.concurrency }),
    ...(of && {
      budget: {
        usage: `day:${day}`,
        fromMs: day,
        untilMs: day + 86_400_000,
        nanoUsd: of.nanoUsd,
        warnNanoUsd: of.nanoUsd,
        spentNanoUsd: 0,
      },
    }),
  }
}
