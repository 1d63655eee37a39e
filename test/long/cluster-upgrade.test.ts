/**
 * Three nodes under load are upgraded one by one across a migration of both stores, serve next to each other, and are
 * rolled back.
 */
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BINARY } from '../e2e/crash-harness.ts'
import { describeWith } from '../support/engines.ts'
import { until } from '../support/until.ts'
import { type ClusterBench, type ClusterNode, createClusterBench } from './cluster/bench.ts'
import { changeAll, expectChanges } from './cluster/changes.ts'
import { expectOneAccount, untilWell } from './cluster/verdict.ts'
import { createNewer, NEWER_VERSION } from './newer-version.ts'

const SEED = Number(process.env.CLUSTER_SEED ?? Date.now() % 1_000_000)
const root = mkdtempSync(join(tmpdir(), 'tollgate-upgrade-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const NEWER = createNewer(join(root, 'newer'), {
  sqlite: `ALTER TABLE requests ADD COLUMN of_next text;--> statement-breakpoint
    ALTER TABLE keys ADD COLUMN of_next text;--> statement-breakpoint
    CREATE TABLE next (id integer PRIMARY KEY)`,
  postgres: `alter table tollgate.requests add column of_next text;
    create table tollgate.next (id bigint primary key)`,
})

describeWith('PostgreSQL', 'Valkey')(`an upgrade of a cluster under load (CLUSTER_SEED=${SEED})`, () => {
  test('an upgrade node by node, and back, loses and refuses no request', async () => {
    const bench = await createClusterBench(SEED, true)
    const { nodes } = bench
    const replaced = new Set<ClusterNode>()
    /** Another node drains it, as documented. */
    const replace = async (node: ClusterNode, work: () => Promise<void>) => {
      replaced.add(node)
      const other = nodes.find((one) => one !== node)
      expect(await other?.run('cluster', 'drain', node.name)).toMatchObject({ code: 0 })
      await until('it to end', () => node.servers().length === 0)
      await work()
      expect(await node.start()).toBeNull()
      await untilWell(node)
      replaced.delete(node)
    }
    try {
      const stopLoad = bench.load(6)
      const changes = changeAll(bench, () => nodes.filter((node) => !replaced.has(node)))
      expect(await versionsOf(bench)).toEqual([CURRENT, CURRENT, CURRENT])
      for (const [at, node] of nodes.entries()) {
        await replace(node, async () => node.use(...NEWER))
        expect(await versionsOf(bench)).toEqual(nodes.map((_, other) => (other <= at ? NEWER_VERSION : CURRENT)))
        await allAnswer(bench)
      }
      for (const node of nodes) {
        await replace(node, async () => {
          const stdout = expect.stringContaining('it takes the configuration of its cluster')
          expect(await node.run('rollback')).toMatchObject({ code: 0, stdout })
          node.use(BINARY)
        })
        await allAnswer(bench)
      }
      expect(await versionsOf(bench)).toEqual([CURRENT, CURRENT, CURRENT])
      await changes.stop()
      await stopLoad()
      console.log('an upgrade:', JSON.stringify({ answers: bench.received.length, made: changes.made }))
      expect([...changes.refused]).toEqual([])
      expect([...bench.refusals.keys()].filter((refusal) => !RIGHT.test(refusal))).toEqual([])
      await expectChanges(nodes, changes, null)
      await expectOneAccount(bench)
    } catch (error) {
      for (const { name, log } of nodes)
        console.log(
          name,
          log()
            .split('\n')
            .filter((line) => !line.includes('"event":"request_'))
            .slice(-15)
            .join('\n'),
        )
      throw error
    } finally {
      await bench.close()
    }
  }, 180_000)
})

const CURRENT: string = (await Bun.file(join(import.meta.dir, '../../package.json')).json()).version
/**
 * Allowed errors: a revoked key, a key not yet known everywhere, a spent budget, a node about to end, or a call that
 * takes 0.2 s on a busy machine.
 */
const RIGHT = /^(401|429) |The server is shutting down\. Try again\.$|this node can't reach/

async function versionsOf({ nodes: [first] }: ClusterBench): Promise<unknown[]> {
  const { stdout } = await first.run('cluster', 'status', '--json')
  const { nodes }: { nodes: { name: string; version: string }[] } = JSON.parse(stdout)
  return ['one', 'two', 'three'].map((name) => nodes.find((node) => node.name === name)?.version)
}

/** For a while, at each node. */
async function allAnswer({ nodes, received }: ClusterBench): Promise<void> {
  const from = received.length
  await until('answers', () => received.length > from + 200)
  for (const node of nodes) expect([node.name, (await fetch(`${node.url}/readyz`)).status]).toEqual([node.name, 200])
}
