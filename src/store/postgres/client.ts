/**
 * PostgreSQL over the runtime's client. Adds features that the client lacks: a timeout for each query, a search for the writable server, and closing of
 * connections that a silent network has cut off.
 */
import { readFileSync } from 'node:fs'
import { messageOf } from '../../domain/error.ts'
import { toAddressText, toPostgresUrl } from '../../domain/postgres-url.ts'
import { toBadConfig } from '../../domain/service-error.ts'
import type { Log } from '../../log.ts'
import { holdLock } from './hold.ts'
import { listenTo } from './listen.ts'
import { endNow, endSoon, findWritable, type Pool, type PoolOptions } from './pool.ts'
import { PostgresRefusal, toRefusal } from './refusal.ts'

export { PostgresRefusal } from './refusal.ts'

export interface Queries {
  /** Values by `$1`. Whole numbers are returned as numbers if exact, otherwise as BigInt. Pass JSON as `$1::text::json`. */
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
}

interface Timed {
  /** Timeout, including the connection; 5 s by default. */
  timeoutMs?: number
}

export interface Postgres extends Queries {
  /** One transaction on one connection; rolled back if `work` throws. */
  begin<T>(work: (tx: Queries) => Promise<T>, options?: Timed): Promise<T>
  /** Throws a PostgresRefusal. */
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[], options?: Timed): Promise<Row[]>
  /** Calls `onNotify` for each notification, and `onListening` after each (re)connection. Notifications in between are lost. */
  listen(channel: string, onNotify: (payload: string) => void, onListening: () => void): () => void
  /** Holds a session advisory lock on a separate connection as long as possible. Reports each gain and loss. */
  hold(lock: number, onChange: (isHeld: boolean) => void): () => void
  /** Null while reachable; otherwise the problem as text, without secrets. */
  readonly trouble: string | null
  /** Null before the first connection. */
  readonly server: { address: string; version: number; isPooled: boolean } | null
  close(): Promise<void>
}

export interface PostgresOptions {
  url: string
  log: Log
  /** Maximum connections, without those of `listen` and `hold`. All are soon open; PostgreSQL allows 100 by default. */
  max?: number
  /** Intervals, ms. */
  timing?: Partial<Timing>
}

export interface Timing {
  connectMs: number
  /** Interval of checks that a listener receives notifications. */
  pingMs: number
  /** Pause before the next attempt. */
  retryMs: number
  /** Interval of a lock holder's heartbeats. */
  holdMs: number
  /** Time after which the server ends a silent holder's session. */
  leaseMs: number
}

const TIMING: Timing = { connectMs: 2_000, pingMs: 2_000, retryMs: 300, holdMs: 1_000, leaseMs: 5_000 }
const TIMEOUT_MS = 5_000
/** On a working connection, a cancellation is confirmed sooner. */
const CANCEL_MS = 250
const LATE = Symbol('late')
/** SQLSTATE for too many connections. */
const TOO_MANY = '53300'

interface Task {
  /** True if the task may have changed something. */
  isSent: boolean
  isLate: boolean
  cancel(): void
}

/** Connects at the first query. Throws a ServiceError for a bad URL or an unreadable file of authorities. */
export function openPostgres({ url: text, log, max = 4, timing: own = {} }: PostgresOptions): Postgres {
  const timing = { ...TIMING, ...own }
  const options = toPoolOptions(text, timing.connectMs, max)
  let pool: Promise<Pool> | null = null
  let trouble: string | null = null
  let server: Postgres['server'] = null
  let isClosed = false
  /** Pools whose queries are late while none completes, with the time since when, monotonic ms. */
  const deafMs = new WeakMap<Pool, number>()
  const ends = new Set<() => void>()

  const setTrouble = (next: string | null) => {
    if (isClosed) return
    if (next !== null && trouble === null) log.warn('postgres_unreachable', next)
    if (next === null && trouble !== null)
      log.info('postgres_reachable', 'PostgreSQL can be reached again', { address: server?.address })
    trouble = next
  }

  const reach = (): Promise<Pool> => {
    if (isClosed) throw new PostgresRefusal('unreachable', 'The connection to PostgreSQL was closed.')
    pool ??= findWritable(options).then(
      (found) => {
        server = { address: toAddressText(found.address), version: found.version, isPooled: found.isPooled }
        setTrouble(null)
        return found
      },
      (error: unknown) => {
        pool = null
        setTrouble(messageOf(error))
        throw error
      },
    )
    return pool
  }
  /** Drops a pool. The next query searches for a server again. */
  const giveUp = (old: Pool, reason: string, isSilent: boolean) => {
    void pool?.then(
      (current) => {
        if (current !== old) return
        pool = null
        setTrouble(`PostgreSQL at ${toAddressText(old.address)}: ${reason}.`)
      },
      () => {},
    )
    if (isSilent) endNow(old.sql)
    else endSoon(old.sql)
  }

  /** True if all connections of a pool hang, so that queries only wait for one. The runtime forgets abandoned queries. */
  const isDeaf = (one: Pool): boolean => {
    const sinceMs = deafMs.get(one) ?? performance.now()
    deafMs.set(one, sinceMs)
    return performance.now() - sinceMs > timing.connectMs
  }

  const run = async <T>(timeoutMs: number, work: (pool: Pool, task: Task) => Promise<T>): Promise<T> => {
    const task: Task = { isSent: false, isLate: false, cancel: () => {} }
    let used: Pool | null = null
    const doing = (async () => {
      used = await reach()
      return await work(used, task)
    })()
    doing.catch(() => {})
    const late = Promise.withResolvers<typeof LATE>()
    let timer = setTimeout(() => late.resolve(LATE), timeoutMs)
    try {
      const outcome = await Promise.race([doing, late.promise])
      if (outcome !== LATE) {
        if (used) deafMs.delete(used)
        return outcome
      }
      task.isLate = true
      if (used === null) throw new PostgresRefusal('unreachable', trouble ?? 'PostgreSQL does not answer.')
      task.cancel()
      const silent = Promise.withResolvers<typeof LATE>()
      timer = setTimeout(() => silent.resolve(LATE), CANCEL_MS)
      const last = await Promise.race([doing, silent.promise])
      if (last !== LATE) return last
      giveUp(used, `no answer in ${timeoutMs} ms`, true)
      throw new PostgresRefusal('timeout', `PostgreSQL did not answer in ${timeoutMs} ms.`, null, task.isSent)
    } catch (error) {
      const refusal = toRefusal(error, task.isSent)
      const { kind, message } = refusal instanceof PostgresRefusal ? refusal : {}
      if (used !== null && task.isLate && isDeaf(used)) giveUp(used, 'no connection is free', false)
      const isFull = refusal instanceof PostgresRefusal && refusal.sqlstate === TOO_MANY
      // Open connections still work.
      if (used !== null && !isFull && (kind === 'unreachable' || kind === 'read_only'))
        giveUp(used, message ?? '', false)
      throw refusal
    } finally {
      clearTimeout(timer)
    }
  }

  const query: Postgres['query'] = (text, values, { timeoutMs = TIMEOUT_MS } = {}) =>
    run(timeoutMs, (pool, task) => {
      task.isSent = true
      return ask(pool.sql, task, text, values)
    })

  const connection = { reach, query, options, timing, log }
  const lasting = (stop: () => void) => {
    ends.add(stop)
    return () => {
      ends.delete(stop)
      stop()
    }
  }

  return {
    query,
    begin: (work, { timeoutMs = TIMEOUT_MS } = {}) =>
      run(timeoutMs, (pool, task) =>
        pool.sql.begin(async (tx) => {
          const refuseLate = () => {
            if (task.isLate) throw new PostgresRefusal('timeout', `The transaction took more than ${timeoutMs} ms.`)
          }
          const result = await work({
            query: (text, values) => {
              refuseLate()
              return ask(tx, task, text, values)
            },
          })
          refuseLate()
          // Until here, nothing can be committed.
          task.isSent = true
          return result
        }),
      ),
    listen: (channel, onNotify, onListening) => lasting(listenTo(connection, channel, onNotify, onListening)),
    hold: (lock, onChange) => lasting(holdLock(connection, lock, onChange)),
    get trouble() {
      return trouble
    },
    get server() {
      return server
    },
    async close() {
      isClosed = true
      for (const stop of ends) stop()
      const open = await pool?.catch(() => null)
      if (open) await open.sql.close({ timeout: 1 }).catch(() => {})
    },
  }
}

/** Dependencies of `listen` and `hold`. */
export interface Connection {
  reach(): Promise<Pool>
  query: Postgres['query']
  options: PoolOptions
  timing: Timing
  log: Log
}

function toPoolOptions(text: string, connectMs: number, max: number): PoolOptions {
  const url = toPostgresUrl(text)
  if (url === null) throw toBadConfig(['The URL of PostgreSQL is invalid.'])
  if (url.caFile === null) return { url, ca: null, connectMs, max }
  try {
    return { url, ca: readFileSync(url.caFile, 'utf8'), connectMs, max }
  } catch (error) {
    throw toBadConfig([`Can't read sslrootcert ${url.caFile}: ${messageOf(error)}.`])
  }
}

/** @param values if absent, several statements are allowed. */
async function ask<Row>(
  sql: Pick<Pool['sql'], 'unsafe'>,
  task: Task,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const asked = values.length > 0 ? sql.unsafe<Row[]>(text, [...values]) : sql.unsafe<Row[]>(text)
  task.cancel = () => asked.cancel()
  const rows = await asked
  const types = rows.columns ?? []
  const numbers = types.filter(({ type }) => type === INT8 || type === NUMERIC).map(({ name }) => name)
  const lists = types.filter(({ type }) => type === INT8_ARRAY).map(({ name }) => name)
  if (numbers.length + lists.length > 0)
    for (const row of rows as Record<string, unknown>[]) {
      for (const name of numbers) row[name] = toNumber(row[name])
      for (const name of lists) if (Array.isArray(row[name])) row[name] = row[name].map(toNumber)
    }
  return [...rows]
}

/** Type OIDs of the catalog `pg_type`. */
const [INT8, INT8_ARRAY, NUMERIC] = [20, 1016, 1700]

function toNumber(value: unknown): unknown {
  if (typeof value !== 'bigint' && typeof value !== 'string') return value
  const number = Number(value)
  if (Number.isSafeInteger(number)) return number
  return typeof value === 'string' && /^-?\d+$/.test(value) ? BigInt(value) : typeof value === 'bigint' ? value : number
}
