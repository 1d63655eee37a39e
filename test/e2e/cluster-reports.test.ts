/** Commands at one node report the requests of all nodes, through the executable's report thread. */
import { expect, test } from 'bun:test'
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { createWorkplace } from '../support/binary.ts'
import { describeWith, startPostgres } from '../support/engines.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

const BODY = JSON.stringify({ model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] })

describeWith('PostgreSQL')('reports of a cluster', () => {
  const server = forAllTests(() => startPostgres())
  const [first, second] = [forAllTests(() => createWorkplace()), forAllTests(() => createWorkplace())]

  test("commands have another node's request as soon as it has ended; without PostgreSQL they say so", async () => {
    const environment = { TOLLGATE_CLUSTER: server.url }
    const one = await first.serve(['--node-name', 'one', '--first-key'], { environment })
    mkdirSync(join(second.folder, 'data'), { recursive: true })
    cpSync(join(first.folder, 'data/secret'), join(second.folder, 'data/secret'))
    const two = await second.serve(['--node-name', 'two'], { environment })
    const headers = { authorization: `Bearer ${one.key}`, 'content-type': 'application/json' }
    const ask = () => fetch(`${two.baseUrl}/chat/completions`, { method: 'POST', headers, body: BODY })
    await until('node two to know the key', async () => (await ask()).ok)
    const usage = async (place: typeof first) => {
      const { stdout, stderr } = await place.run('usage', '--by', 'model', '--json')
      return stdout === '' ? stderr : JSON.parse(stdout).usage
    }
    expect(await usage(second)).toMatchObject([{ model: 'tollgate/demo', requests: 1 }])
    expect(await usage(first)).toMatchObject([{ model: 'tollgate/demo', requests: 1 }])
    const { stdout } = await first.run('requests', 'list', '--json')
    const [{ id, node }] = JSON.parse(stdout).requests
    expect(node).toBe('two')
    expect((await first.run('requests', 'show', id)).stdout).toMatch(/^ {2}node +two$/m)
    expect((await first.run('keys', 'list')).stdout).toContain('tollgate/demo')

    const unix = join(first.folder, 'data/control.sock')
    const live = await fetch('http://localhost/admin/api/requests/live', { unix })
    let followed = ''
    const following = (async () => {
      const decoder = new TextDecoder()
      for await (const bytes of live.body ?? []) followed += decoder.decode(bytes)
    })().catch(() => {})
    // Repeated, since following begins with the node's first look.
    await until('node one to show what node two answers', async () => {
      await ask()
      await Bun.sleep(100)
      return followed.includes('"node":"two"')
    })
    const asked = (await usage(second))[0].requests

    await server.stop()
    const refused = await first.run('usage')
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("Can't read the cluster's ledger")])
    expect((await first.run('status')).stdout).toContain('0 requests in flight')
    expect((await ask()).status).toBe(200)
    await server.start()
    await until('all requests to be reported', async () => {
      const found = await usage(first)
      return typeof found !== 'string' && found[0].requests === asked + 1
    })
    for (const node of [one, two]) node.signal('SIGTERM')
    expect([await one.exited, await two.exited]).toEqual([0, 0])
    await following
  })
})
