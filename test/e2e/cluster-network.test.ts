/** Nodes that reach PostgreSQL through a pooler, or through a network that drops bytes for a while. */
import { expect, test } from 'bun:test'
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { createWorkplace, type RunningBinary, type Workplace } from '../support/binary.ts'
import { describeWith, startDroppingProxy, startPgBouncer, startPostgres } from '../support/engines.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

const BODY = JSON.stringify({ model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] })

async function ask({ baseUrl }: RunningBinary, key: string): Promise<number> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const response = await fetch(`${baseUrl}/chat/completions`, { method: 'POST', headers, body: BODY })
  await response.text()
  return response.status
}

async function create(place: Workplace, name: string, ...flags: string[]): Promise<string> {
  const { code, stdout, stderr } = await place.run('keys', 'create', '--name', name, '--json', ...flags)
  if (code !== 0) throw new Error(stderr)
  const made: { key: string } = JSON.parse(stdout)
  return made.key
}

describeWith('PostgreSQL', 'PgBouncer')('two nodes', () => {
  const server = forAllTests(() => startPostgres())
  const pooler = forAllTests(() => startPgBouncer(server))
  const proxy = forAllTests(() => startDroppingProxy(server.port))
  const [first, second] = [forAllTests(() => createWorkplace()), forAllTests(() => createWorkplace())]
  let [one, two]: [RunningBinary | null, RunningBinary | null] = [null, null]
  const stored = async (key: string): Promise<number> => {
    const [row] = await server.query<{ count: number }>(
      `select count(*)::int as count from tollgate.requests where status = 'ok' and key_id = '${key}'`,
    )
    return row?.count ?? 0
  }
  const idOf = async (name: string): Promise<string> =>
    JSON.parse((await first.run('keys', 'show', name, '--json')).stdout).id

  test('nodes, one of them behind a pooler, share keys, requests, and limits', async () => {
    one = await first.serve(['--node-name', 'one'], { environment: { TOLLGATE_CLUSTER: pooler.url } })
    mkdirSync(join(second.folder, 'data'))
    cpSync(join(first.folder, 'data/secret'), join(second.folder, 'data/secret'))
    const cluster = `postgres://postgres@127.0.0.1:${proxy.port}/postgres`
    two = await second.serve(['--node-name', 'two'], { environment: { TOLLGATE_CLUSTER: cluster } })
    const [a, b] = [one, two]
    const key = await create(second, 'shared', '--rpm', '5')
    await until('the key to be known', async () => (await ask(a, key)) === 200)
    const statuses = [await ask(b, key), await ask(a, key), await ask(b, key), await ask(a, key)]
    expect([statuses, await ask(b, key), await ask(a, key)]).toEqual([[200, 200, 200, 200], 429, 429])
    expect((await first.run('keys', 'revoke', 'shared')).code).toBe(0)
    await until('it to be revoked', async () => (await ask(b, key)) === 401)
    const id = await idOf('shared')
    await until('all requests to arrive', async () => (await stored(id)) === 5)
    expect((await first.run('doctor')).stdout).not.toContain('problem')
  })

  test('a node that is cut off serves requests, changes nothing, and ships everything once the network is back', async () => {
    if (!one || !two) throw new Error('they run')
    const [a, b] = [one, two]
    const key = await create(first, 'cut')
    await until('the key to be known', async () => (await ask(b, key)) === 200)
    proxy.set('drop')
    for (let each = 0; each < 20; each++) expect(await ask(b, key)).toBe(200)
    const readiness = async () => (await fetch(new URL('/readyz', b.baseUrl))).text()
    await until('it to say so', async () => (await readiness()).includes('degraded'))
    // Until then, a change is sent, and its result unknown.
    await b.logged('config_stale')
    const refused = await second.run('keys', 'create', '--name', 'none')
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('Requests are still answered')])
    // The other node continues.
    expect((await first.run('keys', 'revoke', 'cut')).code).toBe(0)
    expect(await ask(a, key)).toBe(401)
    proxy.set('forward')
    await until('it to be well', async () => (await readiness()).includes('ok'))
    expect(await ask(b, key)).toBe(401)
    const id = await idOf('cut')
    await until('all requests to arrive', async () => (await stored(id)) === 21)
  })
})
