/** The limits part of a node: all nodes share one set of limits, in Valkey or in PostgreSQL. */
import { readFileSync } from 'node:fs'
import { messageOf } from '../domain/error.ts'
import { toBadConfig } from '../domain/service-error.ts'
import { toLimitsUrl } from '../domain/setting-text.ts'
import type { Spender } from '../domain/snapshot.ts'
import type { BudgetWarning } from '../limits/budget.ts'
import type { PastRequest } from '../limits/limiter.ts'
import { createSharedLimiter, type SharedLimiter } from '../limits/shared/limiter.ts'
import { openPostgresLimits } from '../limits/shared/postgres.ts'
import type { OnOutage } from '../limits/shared/state.ts'
import { openValkey, type ValkeyOptions } from '../limits/shared/valkey.ts'
import type { Log } from '../log.ts'
import type { Postgres } from '../store/postgres/client.ts'
import type { Cluster } from './cluster.ts'

export interface LimitsPartDeps {
  /** URL of Valkey, or the path of a file that has one; null = PostgreSQL. */
  limits: string | null
  onOutage: OnOutage
  /** Resolves once PostgreSQL has all records that this node has made so far. */
  shipped(): Promise<unknown>
  /** Requests of this node in the last minute, oldest first. */
  recent(): PastRequest[]
  onWarning(warning: BudgetWarning): void
  log: Log
  /** Wall clock, ms. */
  now(): number
  /** Monotonic clock, ms. */
  monotonicMs(): number
}

const SPENT_MS = 1_000

/** Resolves after the first attempt to reach the engine. If the attempt fails, this node starts with its share. Throws a ServiceError for a bad URL. */
export async function shareLimits(cluster: Cluster, deps: LimitsPartDeps): Promise<SharedLimiter> {
  const { limits, onOutage, shipped, recent, onWarning, log, now, monotonicMs } = deps
  const postgres = cluster.connect()
  const engine = limits === null ? openPostgresLimits(postgres) : openValkey(readLimitsUrl(limits))
  const limiter = createSharedLimiter({
    ...{ engine, epoch: cluster.node.epoch, onOutage, shipped, recent, onWarning, now, monotonicMs },
    nodes() {
      const { reachable, living_nodes: living } = cluster.state()
      return reachable ? living : null
    },
    spent: (spender, span) => readSpent(cluster.postgres, spender, span),
    onRefused: ({ op, ...what }, error) =>
      log.error('limits_rejected', `${engine.name} can't process something about limits; it is skipped`, {
        ...{ op, about: 'id' in what ? what.id : what.name, error },
      }),
    onOutageChange(reason) {
      const { name } = engine
      if (reason === null)
        log.info('limits_shared', 'limits of all nodes are enforced together again', { engine: name })
      else log.warn('limits_apart', toProblem(name, onOutage), { engine: name, error: reason })
    },
  })
  await cluster.add({
    facts: () => ({
      limits: limiter.engine,
      limits_place: limiter.place(),
      limits_apart: limiter.outage() !== null,
    }),
    problem: () => (limiter.outage() === null ? null : toProblem(limiter.engine, onOutage)),
    async close() {
      await limiter.close()
      await postgres.close()
    },
  })
  await limiter.started
  return limiter
}

const ACTS: Readonly<Record<OnOutage, string>> = {
  share: 'it enforces its share of each limit',
  refuse: 'it rejects requests of keys with limits',
}
const toProblem = (engine: string, onOutage: OnOutage) =>
  `This node can't reach ${engine}, which has the limits of all nodes: ${ACTS[onOutage]}.`

/** Throws a ServiceError that doesn't repeat the URL. */
export function readLimitsUrl(text: string): ValkeyOptions {
  const known = text.startsWith('/') ? readText(text).trim() : text
  const url = toLimitsUrl(known) === known && !known.startsWith('/') ? URL.parse(known) : null
  if (url === null) throw toBadConfig([`--limits: ${text} must have a URL, e.g. valkey://cache.internal:6379.`])
  const authorities = url.searchParams.get('sslrootcert')
  url.search = ''
  return { url: url.href, ...(authorities !== null && { ca: readText(authorities) }) }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw toBadConfig([`--limits: can't read ${path}: ${messageOf(error)}.`])
  }
}

/** Settled spend of all nodes. Budget periods are whole UTC days. */
async function readSpent(postgres: Postgres, { kind, id }: Spender, span: { fromMs: number; untilMs: number }) {
  const [row] = await postgres.query<{ spent: number | bigint }>(
    `select coalesce(sum(cost_nano_usd), 0) as spent from tollgate.usage_daily
     where dimension = $1 and value = $2 and day_ms >= $3::int8 and day_ms < $4::int8`,
    [kind, id, span.fromMs, span.untilMs],
    { timeoutMs: SPENT_MS },
  )
  return Number(row?.spent ?? 0)
}
