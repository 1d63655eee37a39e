/** Failures of a cluster. Each one ends by itself, and leaves nodes and engines as before. */
import { expect } from 'bun:test'
import { until } from '../../support/until.ts'
import type { ClusterBench, ClusterNode } from './bench.ts'

type Trouble = (bench: ClusterBench) => Promise<void>

const start = async (node: ClusterNode) => expect([node.name, await node.start()]).toEqual([node.name, null])

const onNode =
  (work: (node: ClusterNode, bench: ClusterBench) => Promise<void>): Trouble =>
  (bench) => {
    const node = bench.oneOf(bench.nodes)
    return node.inTurn(() => work(node, bench))
  }

/** From PostgreSQL, Valkey, or both. */
async function cutOff({ proxies }: ClusterNode, bench: ClusterBench, work: () => Promise<unknown>): Promise<void> {
  const cut = bench.oneOf([proxies, proxies.slice(0, 2), proxies.slice(2)])
  for (const proxy of cut) proxy.set('drop')
  await work()
  // The engines notice that silent connections have ended.
  for (const proxy of cut) proxy.cut()
  for (const proxy of cut) proxy.set('forward')
}

export const TROUBLES: Record<string, Trouble> = {
  'a node is killed': onNode(async (node, bench) => {
    await node.kill()
    await Bun.sleep(bench.between(0, 500))
    await start(node)
  }),
  'a keeper or a worker is killed': ({ nodes, between }) => {
    const [, , node] = nodes
    return node.inTurn(async () => {
      // Servers from before a restart may still wait for connections to end.
      for (const pid of node.servers().slice(0, -node.size)) process.kill(pid, 'SIGKILL')
      process.kill(node.servers().slice(-node.size)[between(0, 3)] ?? node.pid(), 'SIGKILL')
      if ((await node.run('status')).code !== 0) await start(node)
      // The last workers respond, too.
      let code = 0
      await until('one keeper and two workers', async () => {
        if (node.servers().length !== node.size) return false
        code = (await node.run('status')).code
        return code === 0
      }).catch((error) => {
        throw new Error(`${error.message}: ${node.servers().length} processes, status ${code}`)
      })
    })
  },
  'a node ends in order': onNode(async (node) => {
    expect([node.name, await node.drain()]).toEqual([node.name, 0])
    await start(node)
  }),
  'a node restarts': onNode(async (node) => {
    expect([node.name, await node.run('restart')]).toMatchObject([node.name, { code: 0 }])
  }),
  'a node is cut off': onNode((node, bench) => cutOff(node, bench, () => Bun.sleep(bench.between(200, 2_500)))),
  'a node is killed while it is cut off, and starts so': onNode((node, bench) =>
    cutOff(node, bench, async () => {
      await Bun.sleep(bench.between(100, 800))
      await node.kill()
      await start(node)
      await Bun.sleep(bench.between(0, 500))
    }),
  ),
  'connections break': onNode(async (node) => {
    for (const proxy of node.proxies) proxy.cut()
  }),
  'engines are slow': async ({ nodes, between }) => {
    const ms = between(10, 150)
    for (const { proxies } of nodes) for (const proxy of proxies) proxy.set(ms)
    await Bun.sleep(between(300, 1_500))
    for (const { proxies } of nodes) for (const proxy of proxies) proxy.set('forward')
  },
  'PostgreSQL hangs': async (bench) => {
    bench.primary().signal('SIGSTOP')
    await Bun.sleep(bench.between(100, 1_500))
    bench.primary().signal('SIGCONT')
  },
  'PostgreSQL is killed': async (bench) => {
    await bench.primary().kill()
    await Bun.sleep(bench.between(0, 800))
    await bench.primary().start()
  },
  'Valkey hangs': async ({ valkey, between }) => {
    valkey?.signal('SIGSTOP')
    await Bun.sleep(between(100, 1_500))
    valkey?.signal('SIGCONT')
  },
  'Valkey is killed': async ({ valkey, between }) => {
    await valkey?.kill()
    await Bun.sleep(between(0, 800))
    await valkey?.start()
  },
  'a clock steps': onNode(async (node, bench) => {
    node.clock?.step(bench.oneOf([-26, -2, 2, 26]) * 3_600)
    await Bun.sleep(bench.between(200, 1_500))
    if (bench.between(0, 3) === 0) {
      await node.kill()
      await start(node)
    }
    node.clock?.step(0)
  }),
  'a disk is full': ({ nodes: [, node], disk, between }) =>
    node.inTurn(async () => {
      await disk?.fill()
      await Bun.sleep(between(200, 1_000))
      if (between(0, 2) === 0) {
        await node.kill()
        const said = await node.start()
        if (said !== null) expect(said).toContain('The disk is full')
        disk?.free()
        if (said !== null) await start(node)
      }
      disk?.free()
    }),
}
