/** Reports of a node cover all nodes; without PostgreSQL they say so, and return with it. */
import { expect, test } from 'bun:test'
import { keepNodeId } from '../../src/cluster/nodes.ts'
import { createReports } from '../../src/server/admin-view/reports.ts'
import { openPostgres } from '../../src/store/postgres/client.ts'
import { migratePostgres } from '../../src/store/postgres/migrate.ts'
import { createBench } from '../cli/run.ts'
import { createFolder, createTestLog, HOUR, toOpen, toSettled } from '../ledger/fixture.ts'
import { describeWith, startPostgres } from '../support/engines.ts'
import { forAllTests, forEachTest } from '../support/lifetime.ts'

const ANN = { id: 'ann' }
const USAGE = { sinceMs: 0, untilMs: null, where: {}, limit: 10, by: ['model'] } as const

describeWith('PostgreSQL')('with PostgreSQL', () => {
  const server = forAllTests(startPostgres)
  const folder = forEachTest(createFolder)
  const open = (state = { reachable: true, trouble: null as string | null, facts: {} }) =>
    createReports({
      dataFolder: folder.path,
      ledger: { flush: async () => ({ applied: 0, waiting: 0 }) },
      refusals: { flush: async () => {} },
      cluster: { url: server.url, state: () => state as never },
      now: () => HOUR + 5_000,
    })

  test('the thread reads what other nodes have shipped, and names the node that served a request', async () => {
    const row = toSettled(toOpen())
    const postgres = openPostgres({ url: server.url, log: createTestLog() })
    await migratePostgres(postgres)
    await postgres.query(
      `insert into tollgate.nodes (id, name, epoch, place, address, version, started_ms, seen_ms) values ('b', 'gateway-2', 'e', 'p', '', '', 0, 0)`,
    )
    const columns = Object.entries(row).map(([field, value]) => [
      field.replace(/[A-Z]|\d+/g, (a) => `_${a.toLowerCase()}`),
      value,
    ])
    await postgres.query(`select tollgate.ship_ledger('b', 0, 1, '', $1::text::uuid[], $2::text::json)`, [
      `{${row.id}}`,
      JSON.stringify({ requests: [Object.fromEntries(columns)], calls: [], refusals: [] }),
    ])
    await postgres.close()
    const reports = open()
    const statusOf = await reports.spendStatuses(ANN, 'key')
    expect(statusOf({ id: row.keyId, budget: null })).toMatchObject({
      totalNanoUsd: 500,
      lastUse: { model: row.model },
    })
    expect(JSON.parse(await reports.usage(ANN, USAGE))).toMatchObject({ usage: [{ model: row.model, requests: 1 }] })
    expect(JSON.parse(await reports.requests(ANN, { limit: 10 })).requests).toMatchObject([{ id: row.id }])
    expect(JSON.parse(await reports.request(ANN, row.id))).toMatchObject({ id: row.id, node: 'gateway-2' })
    reports.close()
  })

  test('while PostgreSQL is unreachable, reports say so, and the audit log works; afterwards they return', async () => {
    const reports = open()
    const ask = () => reports.usage(ANN, USAGE).then(JSON.parse, ({ failure, message }) => [failure?.kind, message])
    expect(await ask()).toMatchObject({ usage: [{ requests: 1 }] })
    await server.stop()
    expect(await ask()).toEqual([
      'cluster_unreachable',
      expect.stringMatching(/^Can't read the cluster's ledger: .*127\.0\.0\.1/),
    ])
    expect(JSON.parse(await reports.audit(ANN, { limit: 1 }))).toMatchObject({ audit: [] })
    await server.start()
    expect(await ask()).toMatchObject({ usage: [{ requests: 1 }] })
    reports.close()
    const cutOff = open({ reachable: false, trouble: 'no answer in 1000 ms.', facts: {} })
    const { message } = await cutOff.request(ANN, 'ffffffff').catch((error) => error)
    expect(message).toStartWith("Can't read the cluster's ledger: no answer in 1000 ms. Requests are still answered")
    cutOff.close()
  })

  test('a command without a server reads reports of all nodes by TOLLGATE_CLUSTER, and says when it has only its own', async () => {
    const bench = createBench(HOUR)
    bench.environment = { NO_COLOR: '1' }
    await bench.run('keys', 'create', '--name', 'dev')
    keepNodeId(bench.folder, 'c'.repeat(32))
    const own = await bench.run('usage', '--since', '7d')
    expect(own.stderr).toContain(
      "note: these are this node's own requests only. For those of all nodes, set TOLLGATE_CLUSTER.",
    )
    bench.environment = { NO_COLOR: '1', TOLLGATE_CLUSTER: server.url }
    const all = await bench.run('usage', '--by', 'model', '--since', '7d', '--json')
    expect(JSON.parse(all.stdout).usage).toMatchObject([{ model: 'acme/large', requests: 1 }])
    expect(all.stderr).toBe('')
    await bench.close()
  })
})
