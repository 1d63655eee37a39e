/** During an upgrade, PostgreSQL has the next version's additions, and this version continues to work. */
import { expect, test } from 'bun:test'
import { migratePostgres, POSTGRES_MIGRATIONS } from '../../src/store/postgres/migrate.ts'
import { settling, toCall, toOpen, toSettled, toSettledCall } from '../ledger/fixture.ts'
import { BY, decided, key } from '../store/config-store.ts'
import { contentsHere, contentsThere, createNode, makeRecords, type Row } from '../store/postgres/ledger-fixture.ts'
import { describeWith, startPostgres } from '../support/engines.ts'
import { forAllTests } from '../support/lifetime.ts'
import { createPicker } from '../support/random.ts'
import { createCluster, startNode } from './config-fixture.ts'

/** Possible migrations of a next version. */
const NEXT = {
  name: '9000_next',
  sql: `
    create table tollgate.of_next (id bigint primary key);
    do $$ declare one text; begin
      for one in select table_name from information_schema.tables
        where table_schema = 'tollgate' and table_type = 'BASE TABLE' and table_name !~ '_(default|[0-9]{2})$'
      loop execute format('alter table tollgate.%I add column of_next text', one); end loop;
    end $$;`,
}

describeWith('PostgreSQL')('a node of the version before', () => {
  const server = forAllTests(() => startPostgres())

  test('joins, changes, follows, and ships next to newer ones', async () => {
    const url = await createCluster(server)
    const before = await startNode({ url, name: 'before' })
    const { postgres } = before
    expect(await migratePostgres(postgres, [...POSTGRES_MIGRATIONS, NEXT])).toEqual([NEXT.name])
    expect(await migratePostgres(postgres)).toEqual([])
    const joined = await startNode({ url, name: 'joined' })
    await before.store.changeKeys(BY, () => decided({ keys: [key('one')] }))
    await joined.feed.catchUp()
    await joined.store.changeKeys(BY, () => decided({ keys: [key('two')] }))
    await before.feed.catchUp()
    expect((await before.store.readKeys()).keys.map(({ id }) => id)).toEqual(['one', 'two'])

    const node = createNode(postgres, 'ledger')
    node.writer.apply(makeRecords(createPicker(3), 300))
    const hour = { keyId: 'key-1', teamId: '', code: 'request_limit', refused: 3 } as const
    node.refusals.add([{ ...hour, hourMs: 3_600_000, lastMs: 3_600_005 }])
    for (let batch = node.outbox.take(0, 50); batch !== null; batch = node.outbox.take(batch.to, 50))
      expect((await node.shared.ship((await node.shared.cursor()).seq, batch)).isApplied).toBe(true)
    const there = Object.entries(await contentsThere(postgres)).map(([table, rows]) => [table, rows.map(withoutNext)])
    expect(Object.fromEntries(there)).toEqual(contentsHere(node.database))
    // Columns that a node doesn't know yet stay empty in its rows.
    const old = createNode(postgres, 'old')
    old.writer.apply([settling(toSettled(toOpen()), [toSettledCall(toCall(toOpen(), 2))])])
    const batch = old.outbox.take(0, 50)
    const rows = JSON.parse(batch?.rows ?? '') as Record<'requests' | 'calls', Row[]>
    for (const row of [...rows.requests, ...rows.calls]) for (const name of NEW_COLUMNS) delete row[name]
    if (batch) expect((await old.shared.ship(0, { ...batch, rows: JSON.stringify(rows) })).isApplied).toBe(true)
    for (const { folder } of [node, old]) folder.close()
    await Promise.all([before.close(), joined.close()])
  })
})

const NEW_COLUMNS = ['audio_ms', 'characters', 'images', 'search_units', 'pages', 'counted_by']

const withoutNext = ({ of_next, ...row }: Row): Row => row
