/**
 * A failover of PostgreSQL to an asynchronous standby that lacks transactions, with two nodes under load: no request
 * fails, nodes send lost records again, and revoked keys stay revoked.
 */
import { expect, test } from 'bun:test'
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { createWorkplace, type RunningBinary, type Workplace } from '../support/binary.ts'
import { describeWith, startPostgres } from '../support/engines.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

const BODY = JSON.stringify({ model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] })

describeWith('PostgreSQL')('a failover that loses transactions', () => {
  const primary = forAllTests(() => startPostgres())
  const standby = forAllTests(() => startPostgres({ standbyOf: primary }))
  const [first, second] = [forAllTests(() => createWorkplace()), forAllTests(() => createWorkplace())]

  test('a failover fails no request, and leaves the ledger exact and revoked keys revoked', async () => {
    const cluster = `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`
    const serve = (place: Workplace, name: string) =>
      place.serve(['--node-name', name, '--first-key'], { environment: { TOLLGATE_CLUSTER: cluster } })
    const one = await serve(first, 'one')
    mkdirSync(join(second.folder, 'data'))
    cpSync(join(first.folder, 'data/secret'), join(second.folder, 'data/secret'))
    const two = await serve(second, 'two')
    const key = one.key ?? ''
    let answered = 0
    const ask = async ({ baseUrl }: RunningBinary, token: string) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
      const response = await fetch(`${baseUrl}/chat/completions`, { method: 'POST', headers, body: BODY })
      await response.text()
      if (response.ok) answered++
      return response.status
    }
    await until('the key to be known on both', async () => (await ask(two, key)) === 200)

    const create = async (place: Workplace, name: string): Promise<string> => {
      const made: { key: string } = JSON.parse((await place.run('keys', 'create', '--name', name, '--json')).stdout)
      return made.key
    }
    const doomed = await create(first, 'doomed')
    await until('it to be known', async () => (await ask(two, doomed)) === 200)

    let isOver = false
    const statuses = new Set<number>()
    const load = Promise.all(
      [one, two, one, two].map(async (node) => {
        while (!isOver) {
          statuses.add(await ask(node, key))
        }
      }),
    )
    await Bun.sleep(500)
    // From here on the standby receives nothing.
    const position = async () =>
      (await standby.query<{ at: string }>('select pg_last_wal_receive_lsn()::text as at'))[0]?.at
    await standby.query("alter system set primary_conninfo = ''")
    await standby.query('select pg_reload_conf()')
    await until('the standby to be cut off', async () => {
      const [row] = await primary.query<{ count: number }>('select count(*)::int as count from pg_stat_replication')
      return row?.count === 0
    })
    const lost = await create(first, 'lost')
    await until('the second key to be known', async () => (await ask(two, lost)) === 200)
    expect((await first.run('keys', 'revoke', 'doomed')).code).toBe(0)
    await Bun.sleep(500)
    const before = await position()
    const stored = await primary.query<{ count: number }>('select count(*)::int as count from tollgate.requests')
    await primary.kill()
    await Bun.sleep(500)
    await standby.promote()
    expect(await position()).toBe(before)
    const promoted = await standby.query<{ count: number }>('select count(*)::int as count from tollgate.requests')
    expect(promoted[0]?.count).toBeLessThan(stored[0]?.count ?? 0)

    const isWell = async ({ baseUrl }: RunningBinary) =>
      (await (await fetch(new URL('/readyz', baseUrl))).text()).includes('ok')
    await until('both to be well', async () => (await isWell(one)) && (await isWell(two)))
    isOver = true
    await load
    expect([...statuses]).toEqual([200])
    const isRefused = async (node: RunningBinary) => (await ask(node, doomed)) === 401
    await until('the revocation to be made again', async () => (await isRefused(one)) && (await isRefused(two)))
    for (const node of [one, two]) expect([await ask(node, lost), await isRefused(node)]).toEqual([401, true])
    // Changes are possible again, and both nodes have them.
    const added = await create(second, 'added')
    await until('the new key to be known on both', async () => (await ask(one, added)) === 200)
    expect(await ask(two, added)).toBe(200)

    await until('all to be sent', async () => {
      const { nodes }: { nodes: { facts: { ledger_pending_entries: number } }[] } = JSON.parse(
        (await first.run('cluster', 'status', '--json')).stdout,
      )
      return nodes.every(({ facts }) => facts.ledger_pending_entries === 0)
    })
    for (const node of [one, two]) {
      node.signal('SIGTERM')
      expect(await node.exited).toBe(0)
    }
    const [requests] = await standby.query<{ closed: number; open: number }>(
      `select count(*) filter (where status <> 'open')::int as closed, count(*) filter (where status = 'open')::int as open
       from tollgate.requests`,
    )
    const [hourly] = await standby.query<{ count: number }>(
      'select sum(requests)::int as count from tollgate.usage_hourly',
    )
    expect(requests?.open).toBe(0)
    expect(requests?.closed).toBe(hourly?.count)
    expect(requests?.closed).toBe(answered)
  })
})
