/** Two nodes of one cluster, as an operator sees them. */
import { expect, test } from 'bun:test'
import { cpSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createCluster } from '../cluster/config-fixture.ts'
import { createWorkplace, type RunningBinary, runBinary, startBinary } from '../support/binary.ts'
import { describeWith, startPostgres } from '../support/engines.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

interface Listed {
  node: { name: string } | null
  nodes: { id: string; epoch: string; name: string; state: string; living: boolean; facts: Record<string, unknown> }[]
}

describeWith('PostgreSQL')('a cluster of two nodes', () => {
  const server = forAllTests(() => startPostgres())
  const first = forAllTests(() => createWorkplace())
  const second = forAllTests(() => createWorkplace())
  const withPassword = () => server.url.replace('postgres@', 'postgres:s3cret@')
  const listed = async (place: typeof first): Promise<Listed> => {
    const { code, stdout, stderr } = await place.run('cluster', 'status', '--json')
    if (code !== 0) throw new Error(stderr)
    return JSON.parse(stdout)
  }
  const readiness = async (baseUrl: string) => (await fetch(new URL('/readyz', baseUrl))).text()

  test('a node joins by environment or by command, reports its state, drains, and leaves', async () => {
    const environment = { TOLLGATE_CLUSTER: withPassword() }
    const one = await first.serve(['--node-name', 'one', '--first-key'], { environment })
    const refused = await second.run('cluster', 'join', withPassword())
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('Other users can read arguments')])
    const foreign = await second.run('cluster', 'join', server.url)
    expect([foreign.code, foreign.stderr]).toEqual([1, expect.stringContaining('copy the file `secret`')])
    cpSync(join(first.folder, 'data/secret'), join(second.folder, 'data/secret'))
    const joined = await second.run('cluster', 'join', server.url)
    expect([joined.code, joined.stdout]).toEqual([0, expect.stringContaining('Joined 1 node on PostgreSQL')])
    expect(statSync(join(second.folder, 'data/cluster')).mode & 0o777).toBe(0o600)
    const two = await second.serve(['--node-name', 'two'])
    await until('both to be seen', async () => {
      const { nodes } = await listed(first)
      return nodes.length === 2 && nodes.every(({ living }) => living) && nodes.some(({ facts }) => facts.leader)
    })
    const text = await second.run('cluster', 'status')
    expect(text.stdout).toMatch(/^2 living nodes of 2, on PostgreSQL at 127\.0\.0\.1:\d+; (one|two) leads\./)
    expect((await second.run('status')).stdout).toContain('Node two of 2 living nodes: PostgreSQL is reachable.')
    expect((await second.run('doctor')).stdout).toMatch(/cluster .*PostgreSQL 1\d/)

    await server.stop()
    await until('a node to be degraded', async () => (await readiness(two.baseUrl)).includes('degraded'))
    await until('the command to say why', async () =>
      (await second.run('status')).stdout.includes("problem  PostgreSQL can't be reached"),
    )
    const headers = { authorization: `Bearer ${one.key ?? ''}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] })
    expect((await fetch(`${one.baseUrl}/chat/completions`, { method: 'POST', headers, body })).status).toBe(200)
    await server.start()
    await until('a node to be well', async () => (await readiness(two.baseUrl)).includes('ok'))

    const lives = await first.run('cluster', 'leave', 'two')
    expect([lives.code, lives.stderr]).toEqual([1, expect.stringContaining('tollgate cluster drain two')])
    expect((await first.run('cluster', 'drain', 'two')).code).toBe(0)
    expect(await two.exited).toBe(0)
    expect((await listed(first)).nodes.map(({ name, state }) => [name, state])).toEqual([
      ['one', 'active'],
      ['two', 'stopped'],
    ])
    expect((await second.run('cluster', 'leave')).code).toBe(0)
    // From now on without the cluster, with the node's data.
    expect((await second.run('keys', 'create', '--name', 'own')).code).toBe(0)
    expect((await second.run('cluster', 'status')).stderr).toContain('No cluster is known here')
    expect((await listed(first)).nodes.length).toBe(1)
    expect((await first.run('cluster', 'leave')).stderr).toContain('Another Tollgate server is using')

    one.signal('SIGTERM')
    expect(await one.exited).toBe(0)
    // It has the configuration of all nodes, and the key that encrypts credentials.
    for (const command of [
      ['keys', 'create', '--name', 'fork'],
      ['secret', 'rotate', '--yes'],
    ]) {
      const forked = await first.run(...command)
      expect([forked.code, forked.stderr]).toEqual([
        1,
        expect.stringMatching(/node of a cluster|encryption key of a cluster/),
      ])
    }
    await expect(first.serve()).rejects.toThrow('This data folder belongs to a node of a cluster. Start the node with')
    const said = [
      one.stdout(),
      one.stderr(),
      two.stderr(),
      text.stdout,
      readFileSync(join(first.folder, 'data/node.json'), 'utf8'),
    ]
    for (const each of said) expect(each).not.toContain('s3cret')
  })

  test("doesn't let a node leave that was killed before PostgreSQL had its last requests", async () => {
    const environment = { TOLLGATE_CLUSTER: await createCluster(server) }
    const place = createWorkplace()
    const node = await place.serve(['--first-key'], { environment })
    const headers = { authorization: `Bearer ${node.key}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] })
    const ask = () => fetch(`${node.baseUrl}/chat/completions`, { method: 'POST', headers, body })
    await Promise.all(Array.from({ length: 20 }, ask))
    node.signal('SIGKILL')
    await node.exited
    const leave = () => runBinary(['cluster', 'leave', '--data', join(place.folder, 'data')], { environment })
    expect((await leave()).stderr).toContain('not in PostgreSQL yet')
    const again = await place.serve([], { environment })
    again.signal('SIGTERM')
    await again.exited
    expect((await leave()).code).toBe(0)
    await place.close()
  })

  test.skipIf(process.platform !== 'linux')('keeps a node that restarts, also with several processes', async () => {
    const environment = { TOLLGATE_CLUSTER: server.url }
    const place = createWorkplace()
    await Bun.$`mkdir ${place.folder}/data && cp ${first.folder}/data/secret ${place.folder}/data`
    await place.serve(['--node-name', 'again', '--processes', '2', '--first-key'], { environment })
    const found = async () => (await listed(place)).nodes.find(({ name }) => name === 'again')
    const before = await found()
    expect(before).toMatchObject({ state: 'active', living: true })
    const restarted = await place.restart()
    expect({ code: restarted.code, stderr: restarted.stderr }).toEqual({ code: 0, stderr: '' })
    const after = await found()
    expect([after?.id, after?.state, after?.living]).toEqual([before?.id, 'active', true])
    expect(after?.epoch).not.toBe(before?.epoch)
    expect((await place.run('status')).stdout).toContain('ok, started')
    const copy = createWorkplace()
    await Bun.$`cp -r ${place.folder}/data ${copy.folder}/data`
    await expect(copy.serve([], { environment })).rejects.toThrow('remove node.json from the copy')
    await Promise.all([place.close(), copy.close()])
  })

  test("begins with a single server's history after an import, and exports it again", async () => {
    const place = createWorkplace()
    const data = `${place.folder}/data`
    const url = `${server.url.replace(/postgres$/, 'imported')}?sslmode=disable`
    await server.query('create database imported')
    const environment = { TOLLGATE_CLUSTER: url }
    const ask = async (one: RunningBinary, key: string | null) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const body = JSON.stringify({ model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] })
      const response = await fetch(`${one.baseUrl}/chat/completions`, { method: 'POST', headers, body })
      await response.text()
      return response.status
    }
    const end = async (one: RunningBinary) => {
      one.signal('SIGTERM')
      expect(await one.exited).toBe(0)
    }
    const alone = await place.serve(['--first-key'])
    expect(await ask(alone, alone.key)).toBe(200)
    await end(alone)
    await expect(place.serve([], { environment })).rejects.toThrow('Import it first: tollgate cluster import')
    const run = (...args: string[]) => runBinary(args, { environment })
    const imported = await run('cluster', 'import', data)
    expect([imported.code, imported.stdout]).toEqual([0, expect.stringContaining('Imported 1 request of all time')])
    const node = await place.serve([], { environment })
    expect(await ask(node, alone.key)).toBe(200)
    await end(node)
    const exported = await run('cluster', 'export', `${place.folder}/back`, '--data', data)
    expect([exported.code, exported.stdout]).toEqual([0, expect.stringContaining('Exported 2 requests of all time')])
    const back = await startBinary(['--data', `${place.folder}/back`])
    expect(await ask(back, alone.key)).toBe(200)
    await end(back)
    await place.close()
  })
})
