/** Nodes that share a configuration in a real PostgreSQL. Without the rest of a server. */
import type { Database } from 'bun:sqlite'
import { type ConfigTiming, createConfigFeed } from '../../src/cluster/config-feed.ts'
import { revokeAgain } from '../../src/cluster/revoke-again.ts'
import { createLog } from '../../src/log.ts'
import { openPostgres } from '../../src/store/postgres/client.ts'
import { migratePostgres } from '../../src/store/postgres/migrate.ts'
import { createAlertStore } from '../../src/store/sqlite/alert-store.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createIdentityStore } from '../../src/store/sqlite/identity-store.ts'
import { createReplica } from '../../src/store/sqlite/replica.ts'
import { createVault } from '../../src/store/vault.ts'
import { createFolder, type Folder } from '../ledger/fixture.ts'
import { readTables } from '../store/sqlite/read-tables.ts'
import type { TestPostgres } from '../support/engines.ts'

export const SECRET = { TOLLGATE_SECRET: 'of all nodes of this cluster, 32+ characters' }

export interface NodeOptions {
  url: string
  name?: string
  folder?: Folder
  environment?: Record<string, string>
  timing?: Partial<ConfigTiming>
}

/** A separate database in the server, since each test needs an empty one. */
export async function createCluster(server: TestPostgres): Promise<string> {
  const name = `c${Bun.randomUUIDv7('hex').replaceAll('-', '')}`
  await server.query(`create database ${name}`)
  return server.url.replace(/\/postgres$/, `/${name}`)
}

/** Joins, unless that fails. */
export async function startNode({
  url,
  name = 'n',
  folder = createFolder(),
  environment = SECRET,
  timing = {},
}: NodeOptions) {
  const lines: string[] = []
  const log = createLog({ now: Date.now, write: async (text) => void lines.push(text.toString()) })
  const postgres = openPostgres({ url, log })
  const replica = createReplica(databasePath(folder.path), folder.database, 'test')
  const store = createConfigStore(folder.database)
  const identity = createIdentityStore(folder.database)
  const feed = createConfigFeed({
    ...{
      postgres,
      replica,
      node: name,
      secret: createVault(folder.path, environment).secret,
      log,
      now: Date.now,
      timing,
    },
    revoke: (lost) => revokeAgain({ store, identity }, lost, Date.now()),
  })
  const node = {
    ...{ folder, postgres, replica, store, identity, alerts: createAlertStore(folder.database), feed, timing },
    async logged() {
      await log.flush()
      return lines.join('')
    },
    /** Leaves the folder. */
    async stop() {
      await feed.stop()
      await postgres.close()
    },
    async close() {
      await node.stop()
      folder.close()
    },
  }
  try {
    await migratePostgres(postgres)
    await feed.join()
  } catch (error) {
    await node.stop()
    throw error
  }
  return node
}

/** Rows of the configuration, without those of a single node. */
export function rowsOf(sqlite: Database) {
  const { settings = [], keys = [], ...tables } = readTables(sqlite)
  const own = ['cluster_position', 'config_revision', 'ledger_from']
  return {
    ...tables,
    settings: settings.filter((row) => !own.includes(String(Reflect.get(row as object, 'key')))),
    keys: keys.map((row) => ({ ...(row as object), revision: 0 })),
  }
}

export type TestNode = Awaited<ReturnType<typeof startNode>>

/** Its responses include everything confirmed at any node before. */
export const caughtUp = <Store extends object>(store: Store, feed: TestNode['feed']): Store =>
  new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function' || name === 'watch') return member
      return async (...values: unknown[]) => {
        await feed.catchUp()
        return Reflect.apply(member, target, values)
      }
    },
  })
