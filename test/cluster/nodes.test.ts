import { expect, test } from 'bun:test'
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type Cluster, type ClusterOptions, openCluster } from '../../src/cluster/cluster.ts'
import { readNodeId } from '../../src/cluster/nodes.ts'
import { mintTag } from '../../src/domain/id.ts'
import { ServiceError } from '../../src/domain/service-error.ts'
import { createLog } from '../../src/log.ts'
import { PostgresRefusal } from '../../src/store/postgres/client.ts'
import { describeWith, startDroppingProxy, startPostgres } from '../support/engines.ts'
import { createTestFolder, forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

const log = createLog({ now: Date.now, write: async () => {} })
const timing = { beatMs: 20, livingMs: 400, connectMs: 300, retryMs: 20, holdMs: 20, leaseMs: 400 }

describeWith('PostgreSQL')('a node', () => {
  const server = forAllTests(() => startPostgres())
  const folder = forAllTests(() => createTestFolder())
  const path = (name: string) => {
    mkdirSync(join(folder.path, name), { recursive: true })
    return join(folder.path, name)
  }
  async function open(name: string, options: Partial<ClusterOptions> = {}) {
    const cluster: Cluster = await openCluster({
      ...{ cluster: server.url, nodeName: name, dataFolder: path(name), instance: mintTag(), version: 'test', log },
      ...{ now: Date.now, timing },
      ...options,
    })
    return Object.assign(cluster, { [Symbol.asyncDispose]: () => cluster.close() })
  }
  const stateOf = async (name: string) =>
    (await server.query<{ state: string }>(`select state from tollgate.nodes where name = '${name}'`))[0]?.state

  test('is listed with the facts of its parts, and as stopped once it has ended', async () => {
    const order: string[] = []
    {
      await using one = await open('one')
      await one.add({
        facts: () => ({ rows: 7 }),
        problem: () => 'Rows wait.',
        joined: async () => void order.push('joined'),
        close: async () => void order.push('closed'),
      })
      one.serve('http://one:4000', () => {})
      await using two = await open('two')
      await until('both to be seen', async () => {
        const nodes = await two.nodes()
        return nodes.length === 2 && nodes.every(({ isLiving }) => isLiving) && nodes[0]?.facts.rows === 7
      })
      expect((await two.nodes())[0]).toMatchObject({ name: 'one', address: 'http://one:4000', state: 'active' })
      expect(one.problems()).toEqual(['Rows wait.'])
      await until('one to count both', () => one.state().living_nodes === 2)
      expect(Math.abs(one.state().clock_difference_ms ?? Infinity)).toBeLessThan(2_000)
      await until('a leader', () => one.leader.isLeader || two.leader.isLeader)
      expect([one.leader.isLeader, two.leader.isLeader].filter(Boolean)).toEqual([true])
    }
    expect([order, await stateOf('one'), await stateOf('two')]).toEqual([['joined', 'closed'], 'stopped', 'stopped'])
  })

  test('keeps its identity over a restart; a copy of its folder is refused while it lives', async () => {
    const original = await open('original')
    const { id } = original.node
    cpSync(path('original'), path('copy'), { recursive: true })
    await expect(open('copy')).rejects.toThrow('remove node.json from the copy')
    await original.close()
    await using again = await open('original')
    expect(again.node.id).toBe(id)
    // Killed: the folder's lock shows that the other run has ended.
    await using restarted = await open('original')
    await until('the run of before to notice', () => again.problems().length > 0)
    expect([restarted.problems(), again.problems()]).toEqual([[], [expect.stringContaining('runs as this node')]])
  })

  test('that another run has replaced ships nothing, and becomes the node again once that has ended, or PostgreSQL has lost it', async () => {
    await using earlier = await open('replaced')
    const fences: boolean[] = []
    await earlier.add({ setFenced: (isFenced) => void fences.push(isFenced) })
    const later = await open('replaced')
    await until('the earlier one to be fenced', () => fences.length === 1)
    expect([fences, later.problems()]).toEqual([[true], []])
    await later.close()
    await until('the earlier one to be the node again', () => fences.length === 2)
    expect([fences, earlier.problems()]).toEqual([[true, false], []])
    await server.query("delete from tollgate.nodes where name = 'replaced'")
    await until('it to be listed again', async () => (await stateOf('replaced')) === 'active')
    expect([fences, earlier.problems()]).toEqual([[true, false], []])
  })

  test('reports that another node has its limits in a different engine', async () => {
    await using one = await open('limits-one')
    await using two = await open('limits-two')
    await one.add({ facts: () => ({ limits: 'Valkey' }) })
    await two.add({ facts: () => ({ limits: 'PostgreSQL' }) })
    await until('both to say so', () => one.problems().length === 1 && two.problems().length === 1)
    expect(one.problems()).toEqual([expect.stringContaining('Node limits-two has its limits elsewhere')])
  })

  test("reports what PostgreSQL refuses, and its facts don't keep other nodes from reading them", async () => {
    const logged: string[] = []
    const own = { ...log, error: (event: string) => void logged.push(event) }
    await using one = await open('full', { log: own })
    await using two = await open('with facts')
    await two.add({ facts: () => ({ problem: 'a \0 and half a \ud83d' }) })
    await until('them to be seen', async () =>
      (await one.nodes()).some(({ facts }) => facts.problem === 'a  and half a \ufffd'),
    )
    await until('both to be counted', () => one.state().living_nodes > 1)
    expect(one.problems()).toEqual([])
    await server.query(`create function no_space() returns trigger language plpgsql as
      $$ begin raise exception 'could not extend file' using errcode = '53100'; end $$`)
    await server.query('create trigger no_space before update on tollgate.nodes execute function no_space()')
    await until('it to say so', () => one.problems().some((problem) => problem.includes("can't be used: ")))
    expect([one.problems()[0], logged]).toEqual([expect.stringContaining('could not extend file.'), ['cluster_failed']])
    await server.query('drop trigger no_space on tollgate.nodes')
    await until('it to be well', () => one.problems().length === 0)
  })

  test('hands over to its successor without errors, and takes back what that did not keep', async () => {
    await using earlier = await open('handed')
    await earlier.handOver()
    await using later = await open('handed')
    expect(earlier.problems()).toEqual([])
    await later.handOver()
    earlier.takeBack()
    await until('the earlier one to be the node again', async () => {
      const [row] = await server.query<{ epoch: string }>("select epoch from tollgate.nodes where name = 'handed'")
      return row?.epoch === earlier.node.epoch
    })
    await until('it to lead', () => earlier.leader.isLeader)
  })

  test('drains on request through the cluster', async () => {
    await using asked = await open('asked')
    await using asking = await open('asking')
    let drained = 0
    asked.serve('', () => drained++)
    await asking.drain(asked.node.id)
    await until('it to drain', () => drained === 1)
    await until('others to see that', async () => (await stateOf('asked')) === 'draining')
    expect(drained).toBe(1)
  })

  test('that is refused when it first joins was never a node', async () => {
    const refused = await open('refused')
    const refusing = refused.add({
      async joined() {
        throw new ServiceError({ kind: 'cluster_foreign' }, 'It has keys of its own.')
      },
    })
    await expect(refusing).rejects.toThrow('of its own')
    await refused.close()
    expect([await stateOf('refused'), readNodeId(path('refused'))]).toEqual([undefined, null])
  })

  test('needs PostgreSQL to join, and starts without it later', async () => {
    const proxy = await startDroppingProxy(server.port)
    const cluster = `postgres://postgres@127.0.0.1:${proxy.port}/postgres`
    proxy.set('drop')
    await expect(open('late', { cluster })).rejects.toThrow('A node needs PostgreSQL to join')
    proxy.set('forward')
    await (await open('late', { cluster })).close()
    proxy.set('drop')
    await using late = await open('late', { cluster })
    const joined: string[] = []
    await late.add({ joined: async () => void joined.push('joined') })
    expect(late.problems()).toEqual([expect.stringContaining("PostgreSQL can't be reached")])
    expect([late.state().reachable, joined]).toEqual([false, []])
    proxy.set('forward')
    await until('it to join', () => late.state().reachable && joined.length === 1)
    let tries = 0
    await late.add({
      async joined() {
        if (++tries <= 2) throw new PostgresRefusal('unreachable', 'the connection was closed')
      },
    })
    await late.add({ joined: async () => void joined.push('the next part') })
    await until('all to join after a connection that broke twice', () => tries === 3 && joined.length > 1)
    expect(joined.at(-1)).toBe('the next part')
    await until('nothing to be wrong', () => late.problems().length === 0)
    proxy.set('drop')
    await until('it to notice', () => !late.state().reachable)
    proxy.set('forward')
    await until('it to be back', () => late.state().reachable)
    await proxy.close()
  })
})
