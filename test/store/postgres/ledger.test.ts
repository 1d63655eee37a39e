/** The ledger in PostgreSQL is what the nodes' SQLite files add up to, however their rows arrive. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { DAY_MS } from '../../../src/domain/time.ts'
import type { OpenRow } from '../../../src/store/ledger-rows.ts'
import type { Outbox } from '../../../src/store/ledger-store.ts'
import { openPostgres, type Postgres } from '../../../src/store/postgres/client.ts'
import type { SharedLedger } from '../../../src/store/postgres/ledger.ts'
import { abandonLeft } from '../../../src/store/postgres/left-nodes.ts'
import { migratePostgres } from '../../../src/store/postgres/migrate.ts'
import { HOUR, opening, settling, toCall, toOpen, toSettled, toSettledCall } from '../../ledger/fixture.ts'
import { describeWith, startPostgres, type TestPostgres } from '../../support/engines.ts'
import { createPicker } from '../../support/random.ts'
import { contentsHere, contentsThere, createNode, makeRecords, type Row, shuffle } from './ledger-fixture.ts'

const log = { info() {}, warn() {}, error() {} }
let server: TestPostgres
let postgres: Postgres

/** All entries after a number, whatever has arrived. */
async function shipFrom(after: number, outbox: Outbox, shared: SharedLedger, limit: number): Promise<void> {
  for (let batch = outbox.take(after, limit); batch !== null; batch = outbox.take(batch.to, limit))
    expect((await shared.ship((await shared.cursor()).seq, batch)).isApplied).toBe(true)
}

describeWith('PostgreSQL')('the ledger of all nodes', () => {
  beforeAll(async () => {
    server = await startPostgres()
    postgres = openPostgres({ url: `${server.url}?sslmode=disable`, log: log as never })
    await migratePostgres(postgres)
  })
  afterAll(async () => {
    await postgres?.close()
    await server?.close()
  })

  test('has the columns of a node’s file, and the node', async () => {
    const node = createNode(postgres, 'columns')
    const same: Record<string, string> = { INTEGER: 'bigint', TEXT: 'text' }
    for (const table of ['requests', 'calls', 'usage_hourly', 'usage_daily', 'refusals_hourly', 'key_uses']) {
      const here = node.database
        .query<{ name: string; type: string; required: number; standard: string | null }, []>(
          `SELECT name, upper(type) AS type, "notnull" OR pk > 0 AS required, dflt_value AS standard FROM pragma_table_info('${table}') ORDER BY name`,
        )
        .all()
      const there = await postgres.query<{ name: string; type: string; required: number; standard: string | null }>(
        `select column_name as name, data_type as type, (is_nullable = 'NO')::int as required,
           replace(replace(column_default, '::text', ''), '::bigint[]', '') as standard
         from information_schema.columns
         where table_schema = 'tollgate' and table_name = $1 and column_name <> 'node' order by column_name collate "C"`,
        [table],
      )
      const expected = here.map(({ name, type, required, standard }) => ({
        ...{ name, required, standard },
        type: /^(id|request_id)$/.test(name) ? 'uuid' : name.endsWith('_histogram') ? 'ARRAY' : same[type],
      }))
      expect(there, table).toEqual(expected as never)
    }
    node.folder.close()
  })

  for (const seed of [1, 2, 3])
    test(`is exact after any order, repetition, and loss of two nodes' batches (seed ${seed})`, async () => {
      await postgres.query('truncate tollgate.requests, tollgate.calls, tollgate.usage_hourly, tollgate.usage_daily')
      await postgres.query('truncate tollgate.key_uses, tollgate.ledger_cursors')
      const pick = createPicker(seed)
      // One file that sees everything, to compare with.
      const whole = createNode(postgres, 'whole')
      const nodes = [createNode(postgres, 'one'), createNode(postgres, 'two')]
      for (const node of nodes) {
        const made = makeRecords(pick, 60)
        const records = shuffle([...made, ...made.slice(0, pick(made.length))], pick)
        for (let at = 0; at < records.length; ) {
          const some = records.slice(at, at + 1 + pick(12))
          at += some.length
          // A call's record that comes alone is abandoned with those of its run.
          const isEnd = pick(6) === 0
          for (const { writer } of [node, whole]) expect(writer.apply(some)).toEqual([])
          if (isEnd) for (const each of [node, whole]) each.abandon('here')
          const limit = 1 + pick(20)
          // What arrived is sent again now and then, from anywhere.
          const after = pick(3) === 0 ? pick(node.outbox.range().last + 1) : await sentOf(node)
          await shipFrom(after, node.outbox, node.shared, limit)
        }
      }
      for (const node of [...nodes, whole]) node.abandon('nobody')
      for (const node of nodes) await shipFrom(await sentOf(node), node.outbox, node.shared, 50)
      const [there, here] = [await contentsThere(postgres), contentsHere(whole.database)]
      for (const part of Object.keys(here)) expect(there[part as keyof typeof there], part).toEqual(here[part] as Row[])
      expect(there.calls.length * there.requests.length).toBeGreaterThan(100)
      for (const node of nodes) await shipFrom(0, node.outbox, node.shared, 500)
      expect(await contentsThere(postgres)).toEqual(there)
      for (const node of [...nodes, whole]) node.folder.close()
    })

  test('refuses a batch that another one has overtaken', async () => {
    const { outbox, shared, writer, folder } = createNode(postgres, 'late')
    const [first, second] = [toOpen(), toOpen()]
    writer.apply([opening(first)])
    writer.apply([settling(toSettled(second))])
    const [late, later] = [outbox.take(0, 1), outbox.take(0, 2)]
    if (!late || !later) throw new Error('the outbox is empty')
    expect(await shared.ship(0, later)).toEqual({ seq: 2, mark: second.id, isApplied: true, ignored: 0 })
    expect(await shared.ship(0, late)).toEqual({ seq: 2, mark: second.id, isApplied: false, ignored: 0 })
    expect(await shared.cursor()).toMatchObject({ seq: 2, mark: second.id })
    folder.close()
  })

  test('abandons what a node that left had open, as its own start would', async () => {
    await postgres.query('truncate tollgate.requests, tollgate.calls, tollgate.usage_hourly, tollgate.usage_daily')
    await postgres.query('truncate tollgate.key_uses')
    const [left, stays] = [createNode(postgres, 'left'), createNode(postgres, 'stays')]
    left.writer.apply(makeRecords(createPicker(21), 300))
    await shipFrom(0, left.outbox, left.shared, 500)
    const open = left.database.query("SELECT 1 FROM requests WHERE status = 'open'").all().length
    stays.writer.apply([opening(toOpen({ keyId: 'key-s' }))])
    await shipFrom(0, stays.outbox, stays.shared, 1)
    expect(await abandonLeft(postgres)).toBe(0)
    for (const id of ['left', 'stays'])
      await postgres.query(
        `insert into tollgate.nodes (id, name, epoch, place, address, version, state, started_ms, seen_ms)
         values ($1, $1, '', '', '', '', case $1 when 'left' then 'left' else 'active' end, 0, 0)`,
        [id],
      )
    expect([await abandonLeft(postgres), await abandonLeft(postgres)]).toEqual([open, 0])
    left.abandon('nobody')
    left.writer.apply([
      opening(
        toOpen({
          ...(stays.database.query('SELECT id, created_ms AS createdMs FROM requests').get() as OpenRow),
          keyId: 'key-s',
        }),
      ),
    ])
    expect(await contentsThere(postgres)).toEqual(contentsHere(left.database) as never)
    for (const node of [left, stays]) node.folder.close()
  })

  test('counts refused requests of all nodes, each once', async () => {
    const count = {
      hourMs: HOUR,
      keyId: 'key-a',
      teamId: '',
      code: 'request_limit',
      refused: 2,
      lastMs: HOUR + 5,
    } as const
    for (const node of [createNode(postgres, 'first'), createNode(postgres, 'second')]) {
      node.refusals.add([count])
      node.refusals.add([{ ...count, refused: 3, lastMs: HOUR + 9 }])
      for (let times = 0; times < 3; times++) await shipFrom(0, node.outbox, node.shared, 1)
      node.folder.close()
    }
    const [sum] = await postgres.query(
      'select sum(refused) as refused, max(last_ms) as last from tollgate.refusals_hourly',
    )
    expect(sum).toEqual({ refused: 10, last: HOUR + 9 })
  })

  test('has a partition per month, also for rows that came before it, and drops old months without their sums', async () => {
    const { database, folder, outbox, shared, writer } = createNode(postgres, 'months')
    const [old, late] = [Date.UTC(2020, 0, 31, 23), Date.UTC(2020, 1, 1)]
    const rows = [old, late, late + 1].map((createdMs) => toOpen({ createdMs, keyId: 'key-m' }))
    const calls = rows.map((row) => toCall(row, 2))
    writer.apply(
      rows.map((row, i) => settling(toSettled(row, { attempts: 2 }), [toSettledCall(calls[i] ?? toCall(row, 2))])),
    )
    await shipFrom(0, outbox, shared, 10)
    const stored = () =>
      postgres.query<{ place: string; rows: number }>(
        `select tableoid::regclass::text as place, count(*) as rows from tollgate.requests where key_id = 'key-m' group by 1
         union all select tableoid::regclass::text, count(*) from tollgate.calls where created_ms < ${HOUR - DAY_MS} group by 1 order by 1`,
      )
    expect(await stored()).toEqual([
      { place: 'tollgate.calls_default', rows: 6 },
      { place: 'tollgate.requests_default', rows: 3 },
    ])
    expect(await shared.makeMonths({ fromMs: old, untilMs: late + 1 })).toBe(4)
    expect(await shared.makeMonths({ fromMs: old, untilMs: late + 1 })).toBe(0)
    const both = await stored()
    expect(both).toEqual([
      { place: 'tollgate.calls_2020_01', rows: 2 },
      { place: 'tollgate.calls_2020_02', rows: 4 },
      { place: 'tollgate.requests_2020_01', rows: 1 },
      { place: 'tollgate.requests_2020_02', rows: 2 },
    ])
    expect(await shared.retain(late + DAY_MS)).toBe(2)
    expect(await stored()).toEqual(both.filter(({ place }) => place.endsWith('02')))
    // A request that is gone isn't counted again.
    const batch = outbox.take(0, 10)
    expect(batch && (await shared.ship((await shared.cursor()).seq, batch))).toMatchObject({
      isApplied: true,
      ignored: 1,
    })
    expect(await stored()).toEqual(both.filter(({ place }) => place.endsWith('02')))
    const [sum] = await postgres.query(
      `select sum(requests) as requests from tollgate.usage_hourly where key_id = 'key-m'`,
    )
    expect(sum).toEqual({ requests: 3 })
    expect(database.query('SELECT COUNT(*) AS rows FROM requests').get()).toEqual({ rows: 3 })
    folder.close()
  })
})

const sentOf = async ({ shared }: { shared: SharedLedger }) => (await shared.cursor()).seq
