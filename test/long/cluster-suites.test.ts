/** The suites of users and alerts over a node's stores; another node must have the same changes. */
import type { Database } from 'bun:sqlite'
import { afterAll, beforeAll, expect } from 'bun:test'
import '../alerts/teller.test.ts'
import '../identity/admins.test.ts'
import { changerOf, setChanger } from '../../src/store/sqlite/change.ts'
import { createCluster, rowsOf, startNode, type TestNode } from '../cluster/config-fixture.ts'
import { createFolder, hooks } from '../ledger/fixture.ts'
import { isInstalled, startPostgres, type TestPostgres } from '../support/engines.ts'

interface Joined {
  url: string
  node: TestNode
  rows: object | null
}

/** Joins with the first change. */
function joinLater(server: TestPostgres, path: string, database: Database, all: Joined[]): () => void {
  let joined: Joined | null = null
  const join = async () => {
    const url = await createCluster(server)
    const node = await startNode({ url, folder: { ...createFolder(), path, database } })
    joined = { url, node, rows: null }
    all.push(joined)
  }
  let joining: Promise<void> | null = null
  setChanger(database, {
    async change(steps) {
      joining ??= join()
      await joining
      return changerOf(database).change(steps)
    },
    log: null,
  })
  return () => {
    if (joined) joined.rows = rowsOf(database)
  }
}

let server: TestPostgres | null = null
const all: Joined[] = []
beforeAll(async () => {
  if (!isInstalled('PostgreSQL')) return
  const started = await startPostgres({ settings: ['max_connections = 300'] })
  server = started
  hooks.opened = (path, database) => joinLater(started, path, database, all)
})
afterAll(async () => {
  delete hooks.opened
  if (server === null) return
  for (const { node } of all) await node.stop()
  for (const { url, rows } of all) {
    const other = await startNode({ url })
    expect(rowsOf(other.folder.database)).toEqual(rows as ReturnType<typeof rowsOf>)
    await other.close()
  }
  expect(all.length).toBeGreaterThan(20)
  await server.close()
}, 60_000)
