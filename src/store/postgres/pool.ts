/** Connections to one server, and the search for the writable one among several. */
import { SQL } from 'bun'
import {
  isLocal,
  type PostgresAddress,
  type PostgresUrl,
  type TlsMode,
  toAddressText,
} from '../../domain/postgres-url.ts'
import { PostgresRefusal, toRefusal } from './refusal.ts'

export interface Pool {
  sql: SQL
  address: PostgresAddress
  /** Such as 150018. */
  version: number
  isPooled: boolean
}

export interface PoolOptions {
  url: PostgresUrl
  /** PEM. */
  ca: string | null
  connectMs: number
  /** Maximum connections. All are soon open. */
  max: number
}

/** After the first writable server is found, how long to wait for other writable ones. */
const RIVALS_MS = 100

export function openPool({ url, ca, connectMs, max }: PoolOptions, address: PostgresAddress, onClose = () => {}): SQL {
  const { host, port } = address
  const { user, password, database, channelBinding } = url
  const isSocket = host.startsWith('/')
  const mode = url.tls ?? (isLocal(address) ? 'disable' : 'verify-full')
  return new SQL({
    // Without a URL, the runtime uses one from the environment.
    url: `postgres://${isSocket ? 'localhost' : host.includes(':') ? `[${host}]` : host}:${port}?sslmode=${mode === 'no-verify' ? 'require' : mode}`,
    ...{ port, max, onclose: onClose, bigint: true, channelBinding, connectionTimeout: connectMs / 1_000 },
    ...(isSocket && { path: host }),
    ...(user !== null && { username: user }),
    ...(password !== null && { password }),
    ...(database !== null && { database }),
    tls: toTls(mode, ca),
    // Behind a pooler, named statements would be shared with other clients.
    prepare: false,
  })
}

function toTls(mode: TlsMode, ca: string | null): Bun.TLSOptions | 'disable' {
  if (mode === 'disable') return mode
  if (mode === 'no-verify') return { rejectUnauthorized: false }
  return { rejectUnauthorized: true, ...(ca !== null && { ca }) }
}

/** Ends queries that wait for a silent server. */
export const endNow = (sql: SQL): void => void sql.close({ timeout: 0 }).catch(() => {})
/** Time for running queries to finish. */
const GRACE_S = 5
export const endSoon = (sql: SQL): void => void sql.close({ timeout: GRACE_S }).catch(() => {})

interface Probed extends Pool {
  isWritable: boolean
}

const PROBE = `select current_setting('transaction_read_only') = 'on' as is_read_only,
  current_setting('server_version_num')::int as version`
/** The higher one was promoted last. */
const TIMELINE = "select ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int as timeline"

/** The writable server. Throws a PostgresRefusal that names each address. */
export async function findWritable(options: PoolOptions): Promise<Pool> {
  const { addresses, isPooled } = options.url
  const found: Probed[] = []
  const problems: string[] = []
  const probes = addresses.map(async (address) => {
    const sql = openPool(options, address)
    try {
      const [row] = await inTime(options.connectMs, sql.unsafe<{ is_read_only: boolean; version: number }[]>(PROBE))
      if (!row) throw new PostgresRefusal('failed', 'it is not PostgreSQL')
      const one = { sql, address, version: row.version, isPooled, isWritable: !row.is_read_only }
      found.push(one)
      if (!one.isWritable) problems.push(`${toAddressText(address)} is a standby or takes no writes`)
      return one
    } catch (error) {
      endNow(sql)
      const refusal = toRefusal(error, false)
      problems.push(`${toAddressText(address)}: ${refusal instanceof Error ? refusal.message : String(refusal)}`)
      return null
    }
  })
  const all = Promise.all(probes)
  const first = Promise.any(probes.map(async (probe) => (await probe)?.isWritable || Promise.reject())).then(
    () => Bun.sleep(addresses.length > 1 ? RIVALS_MS : 0),
    () => {},
  )
  await Promise.race([all, first])
  const writable = found.filter(({ isWritable }) => isWritable)
  const chosen = writable.length > 1 ? await toLatest(writable, options.connectMs) : writable[0]
  const rest = () => {
    for (const each of found) if (each !== chosen) endSoon(each.sql)
  }
  void all.then(rest)
  if (chosen) return { ...chosen, isPooled: chosen.isPooled || (await isShared(options, chosen)) }
  const isStandby = found.length > 0
  throw new PostgresRefusal(isStandby ? 'read_only' : 'unreachable', `Can't use PostgreSQL: ${problems.join('; ')}.`)
}

const SHARED_TRIES = 3

/**
 * True if two of our connections can have the same session, because a pooler reassigns sessions between transactions. A busy pooler may go undetected. Use
 * `?pooler=true` then.
 */
async function isShared(options: PoolOptions, { sql, address }: Probed): Promise<boolean> {
  const other = openPool({ ...options, max: 1 }, address)
  const sessionOf = async (one: SQL) =>
    (await inTime(options.connectMs, one.unsafe<{ pid: number }[]>('select pg_backend_pid() as pid')))[0]?.pid
  try {
    for (let tries = SHARED_TRIES; tries > 0; tries--)
      if ((await sessionOf(sql)) === (await sessionOf(other))) return true
    return false
  } catch (error) {
    endNow(sql)
    throw toRefusal(error, false)
  } finally {
    endSoon(other)
  }
}

/** If several servers accept writes, such as after an old primary returned, picks the one promoted last. */
async function toLatest(writable: readonly Probed[], timeoutMs: number): Promise<Probed | undefined> {
  const timelines = await Promise.all(
    writable.map(({ sql }) =>
      inTime(timeoutMs, sql.unsafe<{ timeline: number }[]>(TIMELINE)).then(
        ([row]) => row?.timeline ?? 0,
        () => 0,
      ),
    ),
  )
  return writable[timelines.indexOf(Math.max(...timelines))]
}

async function inTime<T>(ms: number, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new PostgresRefusal('unreachable', 'no answer')), ms)
  try {
    return await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}
