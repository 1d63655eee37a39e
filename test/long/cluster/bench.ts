/**
 * Three nodes with an upstream, PostgreSQL with an asynchronous standby, and a proxy between each node and each engine.
 * `trouble.ts` breaks them while clients send requests, and `changes.ts` changes the configuration; `verdict.ts`
 * compares all accounts.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type CrashLoad,
  type CrashServer,
  createCrashServer,
  createLoad,
  FIRST_KEY,
  startCrashUpstream,
  toBetween,
} from '../../e2e/crash-harness.ts'
import { mountSmallDisk, type SmallDisk, whyNoSmallDisk } from '../../e2e/crash-trouble.ts'
import {
  type DroppingProxy,
  startDroppingProxy,
  startPostgres,
  startValkey,
  type TestPostgres,
  type TestValkey,
} from '../../support/engines.ts'
import { createRandom } from '../../support/random.ts'
import { until } from '../../support/until.ts'
import type { ScriptedUpstream } from '../../support/upstream.ts'
import { createServerClock, type ServerClock } from './clock.ts'

export interface ClusterNode extends CrashServer {
  name: string
  /** Worker processes per node. */
  size: number
  /** Proxies to each PostgreSQL, and to Valkey. */
  proxies: DroppingProxy[]
  /** Null if this machine can't set it. */
  clock: ServerClock | null
  /** The failure in progress: one at a time. */
  inTurn<T>(work: () => Promise<T>): Promise<T>
}

export interface ClusterBench extends CrashLoad {
  nodes: [ClusterNode, ClusterNode, ClusterNode]
  upstream: ScriptedUpstream
  /** Null if PostgreSQL has the limits. Valkey loses all data whenever it ends. */
  valkey: TestValkey | null
  /** The current primary. */
  primary(): TestPostgres
  /** As if the primary's machine was lost. Returns since when the standby may lack changes. */
  failOver(behindMs: number): Promise<[fromMs: number, untilMs: number]>
  /** Clock of the second node; null if this machine can't set one. */
  disk: SmallDisk | null
  between(low: number, high: number): number
  oneOf<T>(list: readonly T[]): T
  /** Nano-dollars that all requests of one key may cost, sometimes reduced. */
  budget: { name: string; nanoUsd: number }
  /** Writes a catalog with one more model, which has this ID. Returns its path. */
  rename(model: string): Promise<string>
  /** URLs for clients. */
  lend(key: string): void
  close(): Promise<void>
}

/** @param period the budget's period. */
export async function createClusterBench(
  seed: number,
  hasValkey: boolean,
  [dollars, period]: [number, 'day' | 'total'] = [0.3, 'total'],
): Promise<ClusterBench> {
  const root = mkdtempSync(join(tmpdir(), 'tollgate-cluster-'))
  await using made = new AsyncDisposableStack()
  made.defer(() => rmSync(root, { recursive: true, force: true }))
  const random = createRandom(seed)
  const between = toBetween(random)
  const oneOf = <T>(list: readonly T[]): T => list[between(0, list.length)] as T
  const upstream = await startCrashUpstream()
  made.defer(() => upstream.stop())
  const first = await startPostgres()
  made.defer(() => first.close())
  const standby = await startPostgres({ standbyOf: first, settings: ["wal_retrieve_retry_interval = '100ms'"] })
  made.defer(() => standby.close())
  let primary = first
  const valkey = hasValkey ? await startValkey() : null
  if (valkey) made.defer(() => valkey.close())
  const noDisk = whyNoSmallDisk()
  if (noDisk !== null) console.warn(`no disk is full here: ${noDisk}`)
  let disk: SmallDisk | null = null
  const keys: string[] = []

  const createNode = async (name: string, flags: readonly string[]): Promise<ClusterNode> => {
    const folder = join(root, name)
    mkdirSync(folder)
    if (name === 'two' && noDisk === null) {
      const mounted = mountSmallDisk(join(folder, 'data'), 96)
      if (typeof mounted === 'string') throw new Error(mounted)
      disk = mounted
      made.defer(() => mounted.unmount())
    }
    const engines = [first, standby, ...(valkey ? [valkey] : [])]
    const proxies = await Promise.all(engines.map(({ port }) => startDroppingProxy(port)))
    for (const proxy of proxies) made.defer(() => proxy.close())
    const [a, b, c] = proxies.map(({ port }) => `127.0.0.1:${port}`)
    const shared = [
      '--cluster',
      `postgres://postgres@${a},${b}/postgres`,
      ...(valkey ? ['--limits', `redis://${c}`] : []),
    ]
    const clock = createServerClock(folder)
    const server = await createCrashServer(folder, upstream.url, {
      flags: () => [...shared, ...['--node-name', name, ...flags], ...(keys.length === 0 ? ['--first-key'] : [])],
      async started(said) {
        while (keys.length === 0) {
          keys.push(...(FIRST_KEY.exec(said()) ?? []))
          await Bun.sleep(5)
        }
      },
      environment: { TOLLGATE_SECRET: SECRET, ...clock?.environment },
    })
    made.defer(() => server.kill())
    let last: Promise<unknown> = Promise.resolve()
    return {
      ...{ ...server, name, proxies, clock, size: flags.length > 0 ? 3 : 1 },
      inTurn(work) {
        const turn = last.then(work)
        last = turn.catch(() => {})
        return turn
      },
    }
  }

  const nodes: ClusterBench['nodes'] = [
    await createNode('one', []),
    await createNode('two', []),
    await createNode('three', ['--processes', '2']),
  ]
  for (const node of nodes) {
    const said = await node.start()
    if (said !== null) throw new Error(said)
  }
  const budget = { name: 'budget', nanoUsd: dollars * 1e9 }
  const limited = await nodes[0].run(
    'keys',
    'create',
    '--name',
    budget.name,
    '--budget',
    `${dollars}/${period}`,
    '--json',
  )
  if (limited.code !== 0) throw new Error(limited.stderr)
  keys.push(JSON.parse(limited.stdout).key)
  const toKey = () => (random() < 0.6 ? (keys[between(0, 2)] as string) : oneOf(keys))
  const whole = made.move()
  return {
    ...{ nodes, upstream, valkey, disk, budget, between, oneOf },
    ...createLoad(random, () => ({ url: oneOf(nodes).url, key: toKey() })),
    primary: () => primary,
    async failOver(behindMs) {
      const [now] = await first.query<{ lsn: string }>('select pg_current_wal_lsn()::text as lsn')
      const fromMs = Date.now()
      const reached = `select 1 from pg_stat_replication where replay_lsn >= '${now?.lsn}'`
      await until('the standby to follow', async () => (await first.query(reached)).length > 0)
      standby.signal('SIGSTOP')
      await Bun.sleep(behindMs)
      await first.kill()
      standby.signal('SIGCONT')
      await standby.promote()
      primary = standby
      return [fromMs, Date.now()]
    },
    async rename(model) {
      const path = join(root, 'renamed.yaml')
      const catalog = await Bun.file(join(root, 'one/catalog.yaml')).text()
      await Bun.write(
        path,
        catalog.replace(/^ {2}(\S+)\/both: .*$/m, (line, id) => `${line}\n${line.replace(`${id}/both`, model)}`),
      )
      return path
    },
    lend: (key) => keys.push(key),
    close: () => whole.disposeAsync(),
  }
}

const SECRET = 'the same 32 characters on each of them'
