/** A client that follows requests at one node sees those finished by other nodes, once. */
import { expect, test } from 'bun:test'
import { followOthers } from '../../src/cluster/live.ts'
import type { SettledRow } from '../../src/store/ledger-rows.ts'
import { openPostgres, type Queries } from '../../src/store/postgres/client.ts'
import { migratePostgres } from '../../src/store/postgres/migrate.ts'
import { toColumn } from '../../src/store/reports/columns.ts'
import { createTestLog, toOpen, toSettled } from '../ledger/fixture.ts'
import { describeWith, startPostgres } from '../support/engines.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

describeWith('PostgreSQL')('with PostgreSQL', () => {
  const server = forAllTests(startPostgres)

  test("other nodes' requests appear from the moment a client follows, but not the node's own", async () => {
    const postgres = openPostgres({ url: server.url, log: createTestLog() })
    await migratePostgres(postgres)
    const seqs = new Map<string, number>()
    const ship = async (node: string, row: object & { id: string }) => {
      const seq = seqs.get(node) ?? 0
      seqs.set(node, seq + 1)
      const columns = Object.fromEntries(Object.entries(row).map(([field, value]) => [toColumn(field), value]))
      const batch = JSON.stringify({ requests: [columns], calls: [], refusals: [] })
      await postgres.query(`select tollgate.ship_ledger($1, $2, $3, '', $4::text::uuid[], $5::text::json)`, [
        ...[node, seq, seq + 1, `{${row.id}}`, batch],
      ])
    }
    const told: SettledRow[] = []
    let isFollowed = false
    const followed = {
      isFollowed: () => isFollowed,
      finished: ({ row }: { row: SettledRow }) => told.push(row),
      dropped() {},
    }
    let looks = 0
    const counted: Queries = {
      query: (text, values) => {
        looks++
        return postgres.query(text, values)
      },
    }
    /** Waits until a whole look has begun and ended. */
    const looked = async () => {
      const enough = looks + 5
      await until('a look', () => looks > enough)
    }
    const stop = followOthers({ postgres: counted, node: { id: 'a' } }, followed, Date.now, 10)
    const recent = () => toOpen({ createdMs: Date.now() })
    const [before, long] = [recent(), toOpen({ createdMs: Date.now() - 600_000 })]
    await ship('b', toSettled(before))
    const open = { ...toSettled(long), status: 'open', attempts: 1 }
    await ship('b', open)
    isFollowed = true
    await looked()
    const [own, other] = [recent(), recent()]
    await ship('a', toSettled(own))
    await ship('b', toSettled(other, { promptTokens: 12 }))
    await ship('b', toSettled(long, { status: 'failed', errorCode: 'upstream_timeout' }))
    await until('both to be told', () => told.length >= 2)
    await looked()
    expect(told.map(({ id }) => id).toSorted()).toEqual([other.id, long.id].toSorted())
    expect(told.find(({ id }) => id === other.id)).toMatchObject({ promptTokens: 12, keyId: 'key-a', status: 'ok' })
    stop()
    await postgres.close()
  })
})
