/** Checks of the cluster's PostgreSQL, and of Valkey, from this machine. */
import { MAX_CLOCK_MS } from '../../cluster/nodes.ts'
import { findJoined, readClusterUrl } from '../../cluster/url.ts'
import { type Check, ok, problem, warning } from '../../documents/checks.ts'
import { messageOf } from '../../domain/error.ts'
import { isLocal, toPostgresUrl } from '../../domain/postgres-url.ts'
import { toAge } from '../../domain/time.ts'
import { createLog } from '../../log.ts'
import { openPostgres, type Postgres, PostgresRefusal } from '../../store/postgres/client.ts'
import { MIN_VERSION, POSTGRES_MIGRATIONS } from '../../store/postgres/migrate.ts'
import type { ServerLookup } from '../control-client.ts'
import type { Context } from '../io.ts'

const NAME = 'cluster'

interface Row {
  version: number
  text: string
  server_ms: number
  is_encrypted: boolean | null
  has_schema: boolean
}

const LOOK = `select current_setting('server_version_num')::int as version, current_setting('server_version') as text,
  (extract(epoch from clock_timestamp()) * 1000)::int8 as server_ms,
  (select ssl from pg_stat_ssl where pid = pg_backend_pid()) as is_encrypted,
  to_regclass('tollgate.migrations') is not null as has_schema`

/** Empty without a cluster. */
export async function checkCluster(found: ServerLookup, io: Context): Promise<Check[]> {
  const given = io.environment.TOLLGATE_CLUSTER || findJoined(io.dataFolder)
  const serves = found.kind === 'server' && found.status.cluster
  const told = serves
    ? [
        serves.reachable
          ? ok(NAME, `The server is node ${serves.name} of ${serves.living_nodes} living ones, and reaches PostgreSQL.`)
          : problem(
              NAME,
              `The server is node ${serves.name}, and can't reach PostgreSQL. ${serves.trouble ?? ''}`.trim(),
            ),
      ]
    : []
  const limits = io.environment.TOLLGATE_LIMITS
  if (limits) told.push(...(await checkLimits(limits)))
  if (!given) return told
  const url = readClusterUrl(given)
  const postgres = openPostgres({ url, log: createLog({ now: io.nowMs, write: async () => {} }) })
  try {
    return [...told, ...(await look(postgres, url, io))]
  } catch (error) {
    if (!(error instanceof PostgresRefusal)) throw error
    return [...told, problem(NAME, `${error.message} Check the URL, the network, and PostgreSQL's log.`)]
  } finally {
    await postgres.close()
  }
}

async function checkLimits(limits: string): Promise<Check[]> {
  const { lookAtValkey } = await import('../../cluster/limits-check.ts')
  let facts: Awaited<ReturnType<typeof lookAtValkey>>
  try {
    facts = await lookAtValkey(limits)
  } catch (error) {
    const why = `The limits of all nodes can't be reached: ${messageOf(error)}`
    return [problem(NAME, `${why.replace(/\.$/, '')}. Check --limits, the network, and Valkey's log.`)]
  }
  const { version, address, isLocal, isEncrypted, isReplica, mayEvict } = facts
  const at = `Valkey or Redis at ${address}`
  if (Number.parseInt(version, 10) < 7)
    return [problem(NAME, `${at} is too old (${version}): Tollgate needs 7 or newer.`)]
  if (isReplica) return [problem(NAME, `${at} is a replica and takes no writes. Use its primary for --limits.`)]
  const checks = [ok(NAME, `${at} has the limits of all nodes (version ${version}).`)]
  if (mayEvict)
    checks.push(warning(NAME, `${at} drops keys when its memory is full. Set maxmemory-policy to noeviction.`))
  if (!isLocal && !isEncrypted)
    checks.push(warning(NAME, `The connection to ${at} is not encrypted. Use valkeys:// or a trusted network.`))
  return checks
}

async function look(postgres: Postgres, url: string, io: Context): Promise<Check[]> {
  // The first query also connects, and that time would count as clock skew.
  await postgres.query('select 1')
  const sentMs = io.nowMs()
  const [row] = await postgres.query<Row>(LOOK)
  if (!row || !postgres.server) return []
  const { address, isPooled } = postgres.server
  const differenceMs = Math.abs(row.server_ms - (sentMs + io.nowMs()) / 2)
  if (row.version < MIN_VERSION)
    return [problem(NAME, `PostgreSQL ${row.text} at ${address} is too old: Tollgate needs 15 or newer.`)]
  return [
    ok(NAME, `PostgreSQL ${row.text} at ${address}${isPooled ? ', behind a pooler' : ''}.`),
    ...(isPooled
      ? [
          warning(
            NAME,
            'A pooler gives sessions to others between transactions, so notifications may not arrive. Changes then take up to 0.1 s longer to reach all nodes.',
          ),
        ]
      : []),
    ...toTlsCheck(url, row.is_encrypted),
    await toSchemaCheck(postgres, row),
    differenceMs > MAX_CLOCK_MS
      ? warning(NAME, `This machine's clock differs from PostgreSQL's by ${toAge(differenceMs)}. Synchronize both.`)
      : ok(NAME, "This machine's clock agrees with PostgreSQL's."),
  ]
}

function toTlsCheck(url: string, isEncrypted: boolean | null): Check[] {
  const parsed = toPostgresUrl(url)
  if (parsed === null || parsed.addresses.every(isLocal)) return []
  if (parsed.tls === 'disable')
    return [
      warning(
        NAME,
        'The connection to PostgreSQL is not encrypted (sslmode=disable). Use it only in a trusted network.',
      ),
    ]
  if (parsed.tls === 'no-verify')
    return [
      warning(
        NAME,
        "PostgreSQL's certificate is not verified (sslmode=no-verify). Name its authority: ?sslrootcert=FILE",
      ),
    ]
  return [
    ok(
      NAME,
      `The connection to PostgreSQL is encrypted and verified${isEncrypted === false ? ' up to its pooler' : ''}.`,
    ),
  ]
}

async function toSchemaCheck(postgres: Postgres, { has_schema: hasSchema }: Row): Promise<Check> {
  if (!hasSchema) return warning(NAME, 'The database has no cluster yet. The first node to start creates it.')
  const rows = await postgres.query<{ name: string }>('select name from tollgate.migrations')
  const applied = new Set(rows.map(({ name }) => name))
  const missing = POSTGRES_MIGRATIONS.filter(({ name }) => !applied.has(name))
  if (missing.length === 0) return ok(NAME, `Its schema is up to date (${rows.length} migrations).`)
  return warning(
    NAME,
    `Its schema lacks ${missing.length} migrations. The next node of this version to start applies them.`,
  )
}
