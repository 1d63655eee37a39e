/** Two nodes with one configuration, as clients, administrators, and operators see it. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { createWorkplace, type RunningBinary } from '../support/binary.ts'
import { describeWith, startPostgres } from '../support/engines.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

describeWith('PostgreSQL')('two nodes', () => {
  const server = forAllTests(() => startPostgres())
  const first = forAllTests(() => createWorkplace())
  const second = forAllTests(() => createWorkplace())
  const environment = () => ({ TOLLGATE_CLUSTER: server.url, TOLLGATE_SECRET: 'the same on all nodes of this cluster' })

  const chat = async ({ baseUrl }: RunningBinary, key: string) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] })
    return (await fetch(`${baseUrl}/chat/completions`, { method: 'POST', headers, body })).status
  }
  const api = async (
    { baseUrl }: RunningBinary,
    method: string,
    path: string,
    more: { cookie?: string; body?: object },
  ) => {
    const { origin } = new URL(baseUrl)
    const headers = { origin, 'content-type': 'application/json', ...(more.cookie && { cookie: more.cookie }) }
    const body = more.body ? { body: JSON.stringify(more.body) } : {}
    return fetch(`${origin}/admin/api${path}`, { method, headers, ...body })
  }
  /** As if both had one address, behind a load balancer: the cookie's name has the port. */
  const cookieFor = ({ baseUrl }: RunningBinary, response: Response) =>
    response.headers
      .getSetCookie()
      .map((each) => each.replace(/;.*/, '').replace(/-\d+=/, `-${new URL(baseUrl).port}=`))
      .join('; ')

  test('nodes have the same keys, users, and sessions, and start and serve without PostgreSQL', async () => {
    const one = await first.serve([], { environment: environment() })
    let two = await second.serve(['--processes', '2'], { environment: environment() })

    const made = JSON.parse((await first.run('keys', 'create', '--name', 'ann', '--json')).stdout)
    await until('the key to work', async () => (await chat(two, made.key)) === 200)
    expect((await second.run('keys', 'revoke', 'ann')).code).toBe(0)
    await until('the key to be refused', async () => (await chat(one, made.key)) === 401)
    const kept = JSON.parse((await second.run('keys', 'create', '--name', 'bob', '--json')).stdout)
    await until('the key to work', async () => (await chat(one, kept.key)) === 200)

    const { stdout } = await first.run('admin', 'code', '--json')
    const body = { name: 'ann', password: 'correct horse battery', code: JSON.parse(stdout).code }
    const signedIn = await api(two, 'POST', '/setup', { body })
    expect(signedIn.status).toBe(200)
    expect(await (await api(one, 'GET', '/session', { cookie: cookieFor(one, signedIn) })).json()).toMatchObject({
      name: 'ann',
      role: 'owner',
    })
    expect((await api(one, 'DELETE', '/session', { cookie: cookieFor(one, signedIn) })).ok).toBe(true)
    await until('the session to be over', async () => {
      const session = await api(two, 'GET', '/session', { cookie: cookieFor(two, signedIn) })
      return (await session.text()).includes('"name":null')
    })

    await server.stop()
    const refused = await first.run('keys', 'create', '--name', 'eve')
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('PostgreSQL')])
    two.signal('SIGTERM')
    await two.exited
    const alone = await second.run('keys', 'create', '--name', 'eve')
    expect([alone.code, alone.stderr]).toEqual([1, expect.stringContaining('belongs to a node of a cluster')])
    two = await second.serve([], { environment: environment() })
    expect([await chat(one, kept.key), await chat(two, kept.key)]).toEqual([200, 200])
    expect(await chat(two, made.key)).toBe(401)
    await server.start()
    await until('a change to be made', async () => (await second.run('keys', 'revoke', 'bob')).code === 0)
    await until('the key to be refused', async () => (await chat(one, kept.key)) === 401)
    expect(await Bun.file(join(first.folder, 'data/secret')).exists()).toBe(false)
  })
})
