/** The watch: what another process changes is in the next snapshot; the ledger's own commits cost no query. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { createKey } from '../../../src/keys/service.ts'
import type { ConfigStore, Watch } from '../../../src/store/config-store.ts'
import { createConfigStore, createWatch } from '../../../src/store/sqlite/config-store.ts'
import { createLedgerWriter } from '../../../src/store/sqlite/ledger-apply.ts'
import { createFolder, createTestLog, type Folder, HOUR, opening, toOpen } from '../../ledger/fixture.ts'
import { until } from '../../support/until.ts'

let folder: Folder
let store: ConfigStore
let watch: Watch | null = null
beforeEach(() => {
  folder = createFolder()
  store = createConfigStore(folder.database)
})
afterEach(() => {
  watch?.stop()
  watch = null
  folder.close()
})

const addKey = (to: ConfigStore) => createKey(to, { name: 'new' }, { actor: 'cli', nowMs: HOUR })

/** A writer that counts how often the revision is asked for. */
function counted() {
  const queries = { revision: 0, version: 0 }
  const { database } = folder
  const writer = new Proxy(database, {
    get(target, name) {
      if (name !== 'query') return Reflect.get(target, name)
      return (sql: string) => {
        const statement = target.query(sql)
        const kind = sql.includes('data_version') ? 'version' : 'revision'
        return {
          get() {
            queries[kind]++
            return statement.get()
          },
        }
      }
    },
  })
  return { writer, queries }
}

test('a change by another process is seen, and is in what is read then', async () => {
  const before = await store.read()
  let seen = before
  watch = createWatch(folder.database, before.revision, async (revision) => {
    seen = await store.read()
    expect(seen.revision).toBe(revision)
  })
  await addKey(createConfigStore(folder.other()))
  await until('the change', () => seen.revision === before.revision + 1)
  expect([before.keys.length, seen.keys.length]).toEqual([0, 1])
  expect(watch.healthy()).toBe(true)
})

test('a change by the server itself is seen, as the admin API makes them', async () => {
  const seen: number[] = []
  watch = createWatch(folder.database, 0, async (revision) => void seen.push(revision))
  await addKey(store)
  await until('the change', () => seen.length > 0)
  await createKey(store, { name: 'another' }, { actor: 'cli', nowMs: HOUR })
  await until('the next change', () => seen.includes(2))
})

test('commits of our own ledger ask for no revision, and those of others change nothing without one', async () => {
  const { writer, queries } = counted()
  let changes = 0
  watch = createWatch(writer, 0, async () => void changes++)
  await until('the first poll', () => queries.version > 0)
  const asked = queries.revision
  const applier = createLedgerWriter(folder.database)
  for (let i = 0; i < 5; i++) {
    applier.apply([opening(toOpen())])
    const polls = queries.version
    await until('a poll', () => queries.version > polls)
  }
  expect(queries.revision).toBe(asked)
  folder.other().run(`INSERT INTO settings VALUES ('other', 'x', 0)`)
  await until('the foreign commit', () => queries.revision > asked)
  expect(changes).toBe(0)
})

test('a change that could not be taken in is tried again, and until then the watch is not healthy and has said so once', async () => {
  const log = createTestLog()
  let fails = 2
  let taken = 0
  watch = createWatch(
    folder.database,
    0,
    async (revision) => {
      if (fails-- > 0) throw new Error('no disk')
      taken = revision
    },
    log,
  )
  await addKey(createConfigStore(folder.other()))
  await until('the failure', () => watch?.healthy() === false)
  expect(log.messages).toEqual([expect.stringContaining('cannot read')])
  await until('the next try', () => taken === 1)
  expect(watch.healthy()).toBe(true)
  expect(log.messages).toEqual([expect.stringContaining('cannot read'), expect.stringContaining('applied again')])
})
