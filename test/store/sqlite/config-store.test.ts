/** The store of configuration in SQLite keeps the contract. */
import { expect, test } from 'bun:test'
import { createConfigStore } from '../../../src/store/sqlite/config-store.ts'
import { createFolder } from '../../ledger/fixture.ts'
import { testConfigStore } from '../config-store.ts'

testConfigStore('SQLite', () => {
  const folder = createFolder()
  return {
    store: createConfigStore(folder.database),
    other: createConfigStore(folder.other()),
    close: folder.close,
  }
})

test('a change waits for another writer without holding up the event loop', async () => {
  const folder = createFolder()
  const other = folder.other()
  other.run('BEGIN IMMEDIATE')
  const by = { actor: 'cli', nowMs: 0 }
  const changing = createConfigStore(folder.database).changeKeys(by, () => ({ change: null, value: 'done' }))
  other.run('ROLLBACK')
  expect(await changing).toBe('done')
  folder.close()
})
