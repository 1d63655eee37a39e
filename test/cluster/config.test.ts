/**
 * The configuration of a cluster: all nodes have the same, whichever node changes it, and whatever happens to
 * PostgreSQL.
 */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { createLog } from '../../src/log.ts'
import { openPostgres } from '../../src/store/postgres/client.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerUpkeep } from '../../src/store/sqlite/upkeep.ts'
import { createFolder } from '../ledger/fixture.ts'
import { BY, decided, key, testConfigStore } from '../store/config-store.ts'
import { describeWith, startDroppingProxy, startPostgres, type TestPostgres } from '../support/engines.ts'
import { until } from '../support/until.ts'
import { caughtUp, createCluster, type NodeOptions, rowsOf, startNode, type TestNode } from './config-fixture.ts'

describeWith('PostgreSQL')('with PostgreSQL', () => {
  let server: TestPostgres
  beforeAll(async () => {
    server = await startPostgres()
  })
  afterAll(() => server.close())

  testConfigStore('two nodes', async () => {
    const url = await createCluster(server)
    const [one, other] = [await startNode({ url }), await startNode({ url })]
    return {
      store: one.store,
      other: caughtUp(other.store, other.feed),
      async close() {
        await other.feed.catchUp()
        await one.feed.catchUp()
        expect(rowsOf(other.folder.database)).toEqual(rowsOf(one.folder.database))
        await Promise.all([one.close(), other.close()])
      },
    }
  })

  const nodes: TestNode[] = []
  afterEach(async () => {
    for (const node of nodes.splice(0)) await node.close()
  })
  const start = async (options: NodeOptions): Promise<TestNode> => {
    const node = await startNode(options)
    nodes.push(node)
    return node
  }
  const addKey = (node: TestNode, id: string) => node.store.changeKeys(BY, () => decided({ keys: [key(id)] }))
  const idsOf = async (node: TestNode) => (await node.store.readKeys()).keys.map(({ id }) => id)

  test('a concurrent change at two nodes is decided again, and none is lost', async () => {
    const url = await createCluster(server)
    const both = [await start({ url }), await start({ url })] as const
    const count = (node: TestNode) =>
      node.store.changeSettings(BY, ({ count = '0' }) => ({
        value: null,
        change: { action: 'settings.edit', subject: 'it', detail: {}, write: { count: String(Number(count) + 1) } },
      }))
    await Promise.all(Array.from({ length: 40 }, (_, at) => count(both[at % 2 === 0 ? 0 : 1])))
    await Promise.all(both.map(({ feed }) => feed.catchUp()))
    expect(await both[0].store.readSettings()).toMatchObject({ count: '40' })
    expect(rowsOf(both[0].folder.database)).toEqual(rowsOf(both[1].folder.database))
  })

  test("another node's watch notices a change without a query", async () => {
    const url = await createCluster(server)
    const [one, other] = [await start({ url }), await start({ url })]
    const seen: number[] = []
    using cleanup = new DisposableStack()
    cleanup.adopt(
      other.store.watch(0, async (revision) => void seen.push(revision)),
      (watch) => watch.stop(),
    )
    await addKey(one, 'a')
    await until('the change', () => seen.length > 0)
    expect(await idsOf(other)).toEqual(['a'])
  })

  test('the first node brings its configuration, an empty one adopts it, and a different configuration is refused', async () => {
    const url = await createCluster(server)
    const [first, foreign] = [createFolder(), createFolder()]
    for (const { database } of [first, foreign])
      await createConfigStore(database).changeKeys(BY, () => decided({ teams: [], keys: [key('own')] }))
    const one = await start({ url, folder: first })
    expect(rowsOf((await start({ url })).folder.database)).toEqual(rowsOf(one.folder.database))
    await expect(start({ url, folder: foreign })).rejects.toThrow('has a configuration of its own')
    foreign.close()
  })

  test('a different encryption key is refused, but not one that is being rotated', async () => {
    const url = await createCluster(server)
    const [old, next] = ['o'.repeat(32), 'n'.repeat(32)]
    await start({ url, environment: { TOLLGATE_SECRET: old } })
    const joining = (environment: Record<string, string>) => start({ url, environment })
    await expect(joining({ TOLLGATE_SECRET: next })).rejects.toThrow('with another key')
    await expect(joining({})).rejects.toThrow('with another key')
    await joining({ TOLLGATE_SECRET: next, TOLLGATE_SECRET_PREVIOUS: old })
    await joining({ TOLLGATE_SECRET: next })
    await expect(joining({ TOLLGATE_SECRET: old })).rejects.toThrow('with another key')
  })

  test('a node that returns gets the changes it missed, even after the log was trimmed', async () => {
    const url = await createCluster(server)
    const timing = { snapshotEvery: 3 }
    const one = await start({ url, timing })
    const away = [await startNode({ url }), await startNode({ url })] as const
    await addKey(one, 'a')
    await away[0].feed.catchUp()
    for (const node of away) await node.stop()
    const log = postgresAt(url)
    for (let at = 0; at < 12; at++) await addKey(one, `b${at}`)
    await until(
      'the log to be trimmed',
      async () => (await log.query('select 1 from tollgate.config_log where seq < 6')).length === 0,
    )
    await log.close()
    for (const { folder } of away) {
      const back = await start({ url, folder })
      await addKey(one, `c${folder.path}`)
      await back.feed.catchUp()
      expect(rowsOf(back.folder.database)).toEqual(rowsOf(one.folder.database))
      expect(await back.logged()).not.toContain('config_change_lost')
    }
  })

  test('after a restore or failover that lost changes, nodes take the remaining state, report what is lost, and revoke again', async () => {
    const url = await createCluster(server)
    const [one, other] = [await start({ url }), await startNode({ url })]
    await addKey(one, 'a')
    await addKey(one, 'b')
    await other.feed.catchUp()
    await other.stop()
    const log = postgresAt(url)
    const [head] = await log.query<{ seq: number }>('select seq from tollgate.config_head')
    await addKey(one, 'lost')
    await one.store.changeKeys(BY, ({ keys }) =>
      decided({ keys: keys.filter(({ id }) => id === 'a').map((one) => ({ ...one, revokedMs: 5 })) }),
    )
    await log.query(
      `delete from tollgate.config_log where seq > ${head?.seq};
       update tollgate.config_head set seq = l.seq, last = l.id from tollgate.config_log l where l.seq = ${head?.seq}`,
    )
    await log.close()
    const back = await start({ url, folder: other.folder })
    await until('what was revoked to be revoked again', async () => {
      await back.feed.catchUp()
      return (await back.store.readKeys()).keys.some(({ id, revokedMs }) => id === 'a' && revokedMs !== null)
    })
    expect(await idsOf(one)).toEqual(['a', 'b'])
    await addKey(back, 'c')
    await one.feed.catchUp()
    expect(rowsOf(one.folder.database)).toEqual(rowsOf(back.folder.database))
    const logged = (await one.logged()).split('\n').filter((line) => line.includes('config_change_lost'))
    expect(logged).toHaveLength(2)
    expect(logged[0]).toContain('keys.edit')
  })

  test('a change that only a newer version knows stops an older node there, which says so and serves its last state', async () => {
    const url = await createCluster(server)
    const one = await start({ url })
    await addKey(one, 'a')
    const log = postgresAt(url)
    const put = (format: number, entry: string) =>
      log.query(
        `select tollgate.config_commit(generation, seq, last, gen_random_uuid(), 'newer', $1::int4, $2)
         from tollgate.config_head`,
        [format, entry],
      )
    await put(1, JSON.stringify({ kind: 'quotas', nowMs: 1, settings: {}, write: {}, audit: null }))
    await until('the node to say so', () => one.feed.state().problem?.includes('A newer Tollgate') ?? false)
    await expect(addKey(one, 'b')).rejects.toMatchObject({ failure: { kind: 'cluster_newer' } })
    expect(await idsOf(one)).toEqual(['a'])
    // Also after its next start, and for an invalid entry.
    for (const [text, problem] of [
      [null, 'A newer Tollgate'],
      ['no JSON', "Change 2 of the configuration can't"],
    ] as const) {
      if (text) await log.query('update tollgate.config_log set entry = $1 where seq = 2', [text])
      await one.stop()
      const again = await startNode({ url, folder: one.folder })
      await until('it to say so again', () => again.feed.state().problem?.includes(problem) ?? false)
      expect(await idsOf(again)).toEqual(['a'])
      await again.stop()
    }
    await log.close()
  })

  test('a commit whose response was lost is applied once', async () => {
    const url = await createCluster(server)
    const proxy = await startDroppingProxy(server.port)
    const behind = url.replace(`:${server.port}/`, `:${proxy.port}/`)
    const one = await start({ url: behind })
    const holder = postgresAt(url)
    const held = Promise.withResolvers<void>()
    const waiting = async () =>
      (await server.query(`select 1 from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'config_commit'`))
        .length > 0
    const locked = Promise.withResolvers<void>()
    const holding = holder.begin(async (tx) => {
      await tx.query('select 1 from tollgate.config_head for update')
      locked.resolve()
      await held.promise
    })
    await locked.promise
    const adding = addKey(one, 'a')
    await until('the commit to wait', waiting)
    proxy.cut()
    held.resolve()
    await Promise.all([holding, adding])
    await one.feed.catchUp()
    expect(one.feed.state().seq).toBe(1)
    expect(await idsOf(one)).toEqual(['a'])
    await holder.close()
    await proxy.close()
  })

  test('rows that retention removes on one node are removed on all, but no key that any node has in its ledger', async () => {
    const url = await createCluster(server)
    const [one, other] = [await start({ url }), await start({ url })]
    const ended = ['old', 'used'].map((id) => key(id, { revokedMs: 1 }))
    await one.store.changeKeys(BY, () => decided({ keys: [...ended, key('new')] }))
    await addKey(other, 'more')
    const log = postgresAt(url)
    await log.query("insert into tollgate.key_uses values ('used', 1, 'm')")
    await log.close()
    const upkeep = createLedgerUpkeep(databasePath(one.folder.path), one.folder.database, Date.now)
    expect(await upkeep.drop({ what: 'keys', untilMs: 5, limit: 10 })).toMatchObject({ rows: 1 })
    expect(await upkeep.drop({ what: 'audit', untilMs: 2_000, limit: 1 })).toMatchObject({ rows: 1 })
    upkeep.close()
    await Promise.all([one, other].map(({ feed }) => feed.catchUp()))
    expect((await idsOf(other)).toSorted()).toEqual(['more', 'new', 'used'])
    expect(await other.store.readAudit()).toHaveLength(1)
    expect(rowsOf(one.folder.database)).toEqual(rowsOf(other.folder.database))
  })

  test('while PostgreSQL is down, nothing changes, and the node says so; afterwards it catches up', async () => {
    const own = await startPostgres()
    const options = { url: own.url, timing: { doubtMs: 0 } }
    const [one, other] = [await start(options), await start(options)]
    await addKey(one, 'a')
    await other.feed.catchUp()
    await own.kill()
    await expect(addKey(one, 'b')).rejects.toThrow('PostgreSQL')
    await until('the node to say so', () => other.feed.state().problem !== null)
    await until('the log to say so', async () => (await other.logged()).includes('config_stale'))
    await expect(addKey(other, 'c')).rejects.toMatchObject({
      failure: { kind: 'cluster_unreachable', isInDoubt: false },
    })
    expect(await idsOf(other)).toEqual(['a'])
    await own.start()
    await until('the nodes to be current', () => [one, other].every(({ feed }) => feed.state().problem === null))
    await addKey(one, 'd')
    await other.feed.catchUp()
    expect(await idsOf(other)).toEqual(['a', 'd'])
    expect(await other.logged()).toContain('config_current')
    for (const node of nodes.splice(0)) await node.close()
    await own.close()
  })
})

const postgresAt = (url: string) => openPostgres({ url, log: createLog({ now: Date.now, write: async () => {} }) })
