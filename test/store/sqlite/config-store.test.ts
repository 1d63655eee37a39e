/** The store of configuration in SQLite keeps the contract. */
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
