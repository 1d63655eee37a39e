/** The ledger of a cluster, as clients and PostgreSQL see it: two nodes, one of them with workers. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { createWorkplace, type RunningBinary, runBinary, type Workplace } from '../support/binary.ts'
import { describeWith, startPostgres } from '../support/engines.ts'
import { forEachTest } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

const BODY = { model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] }

describeWith('PostgreSQL')('the ledger of a cluster', () => {
  const server = forEachTest(() => startPostgres())
  const first = forEachTest(() => createWorkplace())
  const second = forEachTest(() => createWorkplace())
  const environment = () => ({ TOLLGATE_CLUSTER: server.url, TOLLGATE_SECRET: 'the same on all nodes of this cluster' })
  const start = (place: Workplace, ...args: string[]) => place.serve(args, { environment: environment() })
  let key: string | null = null
  /** The request's ID, once the response is complete; null if it failed. */
  const ask = async ({ baseUrl }: RunningBinary, stream = true) => {
    const response = await fetch(`${baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close' },
      body: JSON.stringify({ ...BODY, stream }),
      keepalive: false,
    })
    const text = await response.text()
    const isWhole = response.ok && (!stream || text.includes('[DONE]'))
    return { status: response.status, isWhole, id: response.headers.get('x-request-id')?.replace('req_', '') ?? '' }
  }
  const ended = async (ids: readonly string[]) => {
    const [row] = await server.query<{ ended: string }>(
      `select count(*) as ended from tollgate.requests where status = 'ok' and id = any('{${ids.join(',')}}'::uuid[])`,
    )
    return Number(row?.ended)
  }
  const sums = async () => {
    const [row] = await server.query<{ requests: string; keys: string }>(
      `select sum(requests) as requests, count(distinct value) as keys from tollgate.usage_daily where dimension = 'key'`,
    )
    return { requests: Number(row?.requests), keys: Number(row?.keys) }
  }

  test('with --durability shared, a request is recorded before its response ends, also by workers', async () => {
    const one = await start(first, '--durability', 'shared', '--first-key')
    const { TOLLGATE_SECRET } = environment()
    const joined = { environment: { TOLLGATE_SECRET, TOLLGATE_DURABILITY: 'shared' } }
    const data = ['--data', join(second.folder, 'data')]
    expect((await runBinary(['cluster', 'join', server.url, ...data], joined)).stdout).toContain('Joined')
    expect((await runBinary(['doctor', ...data], joined)).stdout).toMatch(/^ok +disk /m)
    const nodes = [one, await second.serve(['--processes', '2'], joined)]
    key = one.key
    for (const node of nodes)
      for (const stream of [true, false, true, false, true, false]) {
        const { isWhole, id } = await ask(node, stream)
        expect([isWhole, await ended([id])]).toEqual([true, 1])
      }
    const all = await Promise.all(Array.from({ length: 60 }, (_, i) => ask(nodes[i % 2] as RunningBinary, i % 3 === 0)))
    expect(all.filter(({ isWhole }) => isWhole).length).toBe(60)
    expect(await ended(all.map(({ id }) => id))).toBe(60)
    // An upgrade midway.
    const asked = Array.from({ length: 20 }, () => ask(nodes[0] as RunningBinary))
    const restarted = first.restart()
    const more = await Promise.all(asked)
    expect((await restarted).code).toBe(0)
    expect(more.filter(({ isWhole }) => !isWhole)).toEqual([])
    expect(await ended(more.map(({ id }) => id))).toBe(20)
    expect(await sums()).toEqual({ requests: 12 + 60 + 20, keys: 1 })

    await server.stop()
    const [alone, withWorkers] = nodes as [RunningBinary, RunningBinary]
    const late = await Promise.all(nodes.map((node) => ask(node)))
    expect(late.map(({ isWhole }) => isWhole)).toEqual([false, false])
    expect((await ask(alone)).status).toBe(503)
    await server.start()
    for (const node of [alone, withWorkers]) await until('it to accept requests', async () => (await ask(node)).isWhole)
    expect(await ended(late.map(({ id }) => id))).toBe(2)
  })

  test("after a kill, the node's next start ships the records of its journal", async () => {
    const node = await start(first, '--first-key')
    key = node.key
    const before = await Promise.all(Array.from({ length: 10 }, () => ask(node)))
    await until('them to arrive', async () => (await ended(before.map(({ id }) => id))) === 10)
    await server.stop()
    const unshipped = await Promise.all(Array.from({ length: 10 }, () => ask(node)))
    expect(unshipped.every(({ isWhole }) => isWhole)).toBe(true)
    node.signal('SIGKILL')
    await node.exited
    await server.start()
    await start(first)
    await until('the rest to arrive', async () => (await ended(unshipped.map(({ id }) => id))) === 10)
    expect(await sums()).toEqual({ requests: 20, keys: 1 })
    const status = await first.run('status', '--json')
    expect(JSON.parse(status.stdout).status.cluster.facts).toMatchObject({ ledger: 'ok', ledger_pending_entries: 0 })
  })
})
