/** A node's rows arrive in PostgreSQL exactly, whatever is lost, restored, or unreachable meanwhile. */

import { Database } from 'bun:sqlite'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { createShipper, type Shipper } from '../../src/cluster/shipper.ts'
import type { Log } from '../../src/log.ts'
import { openPostgres, type Postgres } from '../../src/store/postgres/client.ts'
import { migratePostgres } from '../../src/store/postgres/migrate.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { forgetOutbox } from '../../src/store/sqlite/outbox.ts'
import { dropSlice, pruneSlice } from '../../src/store/sqlite/prune.ts'
import { createFolder, HOUR, opening, settling, toOpen, toSettled } from '../ledger/fixture.ts'
import { contentsHere, contentsThere, createNode, makeRecords } from '../store/postgres/ledger-fixture.ts'
import { describeWith, startPostgres, type TestPostgres } from '../support/engines.ts'
import { createPicker } from '../support/random.ts'
import { until } from '../support/until.ts'

const MINUTE_MS = 60_000

describeWith('PostgreSQL')('the shipper', () => {
  let server: TestPostgres
  let postgres: Postgres
  let events: string[]
  let nowMs: number
  const ends: (() => unknown)[] = []
  const log: Log = {
    info: (event) => void events.push(event),
    warn: (event) => void events.push(event),
    error: (event) => void events.push(event),
    async flush() {},
  }
  const connect = async (database: string) => {
    const opened = openPostgres({ url: `${server.url.replace(/postgres$/, database)}?sslmode=disable`, log })
    ends.push(() => opened.close())
    return opened
  }

  beforeAll(async () => {
    server = await startPostgres()
    const first = openPostgres({ url: `${server.url}?sslmode=disable`, log: { ...log, warn() {}, info() {} } })
    await migratePostgres(first)
    await first.close()
  })
  afterAll(() => server?.close())
  beforeEach(async () => {
    events = []
    nowMs = 1_000
    await server.query('drop database if exists shipped with (force)')
    await server.query('create database shipped template postgres')
    postgres = await connect('shipped')
  })
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end()
  })

  const ship = ({ outbox, shared }: Pick<ReturnType<typeof createNode>, 'outbox' | 'shared'>): Shipper => {
    const shipper = createShipper({ outbox, shared, keepMs: MINUTE_MS, monotonicMs: () => nowMs, log })
    shipper.start()
    ends.push(() => shipper.stop(true))
    return shipper
  }
  const make = (to = postgres) => {
    const folder = createFolder()
    ends.push(folder.close)
    return { ...createNode(to, 'node', folder), folder }
  }
  const expectSame = async ({ database }: Pick<ReturnType<typeof createNode>, 'database'>, there = postgres) =>
    expect(await contentsThere(there)).toEqual(contentsHere(database) as never)

  test('sends rows that are written while it runs, in as many batches as needed', async () => {
    const node = make()
    const shipper = ship(node)
    for (const seed of [1, 2, 3, 4]) {
      node.writer.apply(makeRecords(createPicker(seed), 200))
      shipper.note()
      await Bun.sleep(20)
    }
    await shipper.shipped()
    await expectSame(node)
    expect(shipper.state()).toEqual({ state: 'ok', waiting: 0, lagMs: 0, refused: 0, trouble: null })
  })

  test('adds up concurrent rows of several nodes to the same totals, without deadlocks', async () => {
    const nodes = Array.from({ length: 4 }, (_, i) => {
      const folder = createFolder()
      ends.push(folder.close)
      return createNode(postgres, `node-${i}`, folder)
    })
    const shippers = nodes.map(ship)
    const whole = make()
    for (let round = 0; round < 10; round++) {
      for (const [i, { writer }] of nodes.entries()) {
        const records = makeRecords(createPicker(100 * round + i), 30)
        for (const each of [writer, whole.writer]) each.apply(records)
      }
      await Promise.all(shippers.map((shipper) => shipper.shipped()))
    }
    await expectSame(whole)
    const [stats] = await server.query("select deadlocks from pg_stat_database where datname = 'shipped'")
    expect([stats, events]).toEqual([{ deadlocks: '0' }, []])
  })

  test('waits while PostgreSQL is unreachable or silent, and says so', async () => {
    const node = make()
    const shipper = ship(node)
    await shipper.shipped()
    await server.kill()
    node.writer.apply(makeRecords(createPicker(5), 50))
    shipper.note()
    nowMs += 11_000
    await until('trouble', () => shipper.state().trouble !== null)
    expect(shipper.state()).toMatchObject({ state: 'unreachable', waiting: 50, lagMs: 11_000 })
    expect(events).toContain('ledger_unshipped')
    await server.start()
    await shipper.shipped()
    await expectSame(node)
    expect(shipper.state()).toMatchObject({ state: 'ok', waiting: 0 })
  })

  test('loses and repeats nothing when connections are interrupted again and again', async () => {
    const node = make()
    const shipper = ship(node)
    let cuts = 0
    for (let seed = 10; seed < 40; seed++) {
      node.writer.apply(makeRecords(createPicker(seed), 20))
      shipper.note()
      const arrived = shipper.shipped()
      await Bun.sleep(seed % 7)
      const [cut] = await server.query<{ count: string }>(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = 'shipped'",
      )
      cuts += Number(cut?.count)
      if (seed % 3 === 0) await arrived
    }
    await shipper.shipped()
    expect(cuts).toBeGreaterThan(5)
    await expectSame(node)
  })

  test("sends again what a failover lost, even from before the entries' retention", async () => {
    const node = make()
    node.writer.apply(makeRecords(createPicker(6), 50))
    const shipper = ship(node)
    await shipper.shipped()
    await shipper.stop(true)
    await postgres.close()
    await server.query('create database older template shipped')
    ends.push(() => server.query('drop database if exists older with (force)'))

    const later = await connect('shipped')
    const again = createNode(later, 'node').shared
    const second = ship({ outbox: node.outbox, shared: again })
    node.writer.apply(makeRecords(createPicker(7), 600))
    await second.shipped()
    await second.stop(true)
    const behind = await connect('older')
    const third = ship({ outbox: node.outbox, shared: createNode(behind, 'node').shared })
    await third.shipped()
    await expectSame(node, behind)
    await third.stop(true)

    // Now with an outbox that has lost most of it.
    await behind.close()
    await server.query('drop database older with (force)')
    await postgres.close()
    await later.close()
    await server.query('create database older template postgres')
    const empty = await connect('older')
    const fourth = ship({ outbox: node.outbox, shared: createNode(empty, 'node').shared })
    while (node.outbox.remove(node.outbox.range().last, 500) > 0);
    await until('all of it to arrive', () => fourth.state().waiting === 0)
    await expectSame(node, empty)
    expect(events.filter((event) => event === 'ledger_shipping_again').length).toBeGreaterThan(0)
  })

  test('sends all rows of a restored data folder, although PostgreSQL has seen their numbers for other rows', async () => {
    const node = make()
    const shipper = ship(node)
    node.writer.apply(makeRecords(createPicker(8), 20))
    await shipper.shipped()
    await shipper.stop(true)
    const backup = join(node.folder.path, 'backup.db')
    node.database.query('VACUUM INTO ?').run(backup)
    node.writer.apply(makeRecords(createPicker(9), 20))
    const before = ship(node)
    await before.shipped()
    await before.stop(true)

    const database = new Database(backup)
    const restored = createNode(postgres, 'node', { database, close: () => database.close() })
    ends.push(restored.folder.close)
    // As many entries as were lost, and some more.
    restored.writer.apply(makeRecords(createPicker(11), 40))
    const after = ship(restored)
    await after.shipped()
    expect(events).toContain('ledger_shipping_again')
    const ids = (of: Pick<typeof node, 'database'>) =>
      of.database.query<{ id: string }, []>('SELECT id FROM requests').all()
    const all = new Set([...ids(node), ...ids(restored)].map(({ id }) => id))
    const there = await contentsThere(postgres)
    expect(new Set(there.requests.map(({ id }) => String(id)))).toEqual(all)
    const settled = there.requests.filter(({ status }) => status !== 'open')
    const sum = (rows: readonly Record<string, unknown>[], name: string) =>
      rows.reduce((total, row) => total + Number(row[name]), 0)
    expect(sum(there.rollup, 'requests')).toBe(settled.length)
    expect(sum(there.rollup, 'cost_nano_usd')).toBe(sum(settled, 'cost_nano_usd'))
  })

  test('sends what was recorded while the node served alone', async () => {
    const node = make()
    const now = () => toOpen({ createdMs: Date.now() })
    const shipper = ship(node)
    node.writer.apply([settling(toSettled(now())), opening(now())])
    await shipper.shipped()
    await shipper.stop(true)
    forgetOutbox(node.database)
    createLedgerWriter(node.database).apply([settling(toSettled(now())), opening(now())])
    const again = ship(node)
    await until('all of it to arrive', async () => (await contentsThere(postgres)).requests.length === 4)
    await again.stop(false)
    await expectSame(node)
  })

  test('sets aside a row that PostgreSQL can’t store, and sends the others', async () => {
    const node = make()
    const rows = Array.from({ length: 9 }, () => toOpen())
    node.writer.apply([...rows.map(opening), opening(toOpen({ id: 'odd' }))])
    const shipper = ship(node)
    await shipper.shipped()
    expect((await contentsThere(postgres)).requests).toHaveLength(9)
    expect([shipper.state().refused, events.filter((event) => event === 'ledger_row_rejected')]).toEqual([
      1,
      ['ledger_row_rejected'],
    ])
  })

  test('keeps entries for a while, whose rows retention spares', async () => {
    const node = make()
    const rows = Array.from({ length: 20 }, () => settling(toSettled(toOpen())))
    node.refusals.add([{ hourMs: HOUR, keyId: 'key-a', teamId: '', code: 'request_limit', refused: 1, lastMs: HOUR }])
    node.writer.apply(rows)
    const drop = () => dropSlice(node.database, { what: 'refusals', untilMs: 2 * HOUR, limit: 10 }, HOUR).rows
    const prune = () =>
      pruneSlice(node.database, { untilMs: HOUR + 3_600_000, after: '', limit: 100, spared: [] }, HOUR).requests
    expect([prune(), drop()]).toEqual([0, 0])
    const shipper = ship(node)
    await shipper.shipped()
    expect([prune(), drop()]).toEqual([0, 0])
    nowMs += 2 * MINUTE_MS
    node.writer.apply([opening(toOpen())])
    shipper.note()
    await shipper.shipped()
    await until('the old entries to go', () => node.outbox.range().first === 21)
    expect([prune(), drop()]).toEqual([19, 1])
    const there = await contentsThere(postgres)
    expect(there.requests).toHaveLength(21)
  })
})
