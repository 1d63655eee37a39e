/** The ledger of a test in each store: rows are applied to SQLite and, for PostgreSQL, shipped from there, as nodes do. */
import { describe } from 'bun:test'
import { openPostgres } from '../../src/store/postgres/client.ts'
import { migratePostgres } from '../../src/store/postgres/migrate.ts'
import { createReaders as createPostgresReaders } from '../../src/store/postgres/readers.ts'
import type { ReportReaders } from '../../src/store/report-store.ts'
import { createReaders } from '../../src/store/sqlite/readers.ts'
import { describeWith, startPostgres } from '../support/engines.ts'
import { forAllTests, forEachTest } from '../support/lifetime.ts'
import { createFolder, createTestLog, type Folder } from './fixture.ts'

export interface TestLedger extends Folder {
  /** Number of applied records. */
  readers(): Promise<ReportReaders>
  /** Called before rows are deleted, which happens long after they were shipped. */
  ship(): Promise<void>
}

export function overStores(tests: (ledger: TestLedger, store: 'SQLite' | 'PostgreSQL') => void): void {
  describe('SQLite', () => tests(forEachTest(toLocal), 'SQLite'))
  describeWith('PostgreSQL')('PostgreSQL', () => {
    const server = forAllTests(startServer)
    tests(
      forEachTest(async () => await toShipped(server.postgres)),
      'PostgreSQL',
    )
  })
}

function toLocal(): TestLedger {
  const folder = createFolder()
  return { ...folder, ship: async () => {}, readers: async () => createReaders(folder.database) }
}

/** A migrated PostgreSQL. */
export async function startServer() {
  const server = await startPostgres()
  const postgres = openPostgres({ url: server.url, log: createTestLog() })
  await migratePostgres(postgres)
  const close = async () => {
    await postgres.close()
    await server.close()
  }
  return { ...server, postgres, close }
}

type Postgres = ReturnType<typeof openPostgres>

const TABLES = ['requests', 'calls', 'usage_hourly', 'usage_daily', 'refusals_hourly', 'key_uses', 'ledger_cursors']
const BATCH = 500

async function toShipped(postgres: Postgres): Promise<TestLedger> {
  await postgres.query(`truncate ${TABLES.map((name) => `tollgate.${name}`).join(', ')}`)
  await postgres.query('update tollgate.ledger_state set kept_from_ms = 0')
  const folder = createFolder()
  const { database } = folder
  const read = (sql: string, ...values: string[]) =>
    database.query<Record<string, unknown>, string[]>(sql).all(...values)
  let seq = 0
  let shipped = -1

  const send = (ids: readonly string[], batch: object) =>
    postgres.query(`select tollgate.ship_ledger('here', $1, $2, '', $3::text::uuid[], $4::text::json)`, [
      ...[seq, ++seq, `{${ids}}`, JSON.stringify(batch)],
    ])
  const ship = async () => {
    const changes = Number(read('SELECT total_changes() AS n')[0]?.n)
    if (changes === shipped) return
    shipped = changes
    const ids = read('SELECT id FROM requests ORDER BY id').map(({ id }) => String(id))
    for (let at = 0; at < ids.length; at += BATCH) {
      const some = ids.slice(at, at + BATCH)
      const of = (table: string, id: string) =>
        read(`SELECT * FROM ${table} WHERE ${id} IN (SELECT value FROM json_each(?))`, JSON.stringify(some))
      await send(some, { requests: of('requests', 'id'), calls: of('calls', 'request_id'), refusals: [] })
    }
    await send([], { requests: [], calls: [], refusals: read('SELECT * FROM refusals_hourly') })
    const keptFromMs = Number(read(`SELECT value FROM settings WHERE key = 'ledger_from'`)[0]?.value ?? 0)
    await postgres.query('update tollgate.ledger_state set kept_from_ms = $1', [keptFromMs])
    if (keptFromMs > 0)
      await postgres.query('delete from tollgate.requests where id <> all($1::text::uuid[])', [`{${ids}}`])
  }
  const readers = async () => {
    await ship()
    return createPostgresReaders(postgres, createReaders(database))
  }
  return { ...folder, ship, readers }
}
