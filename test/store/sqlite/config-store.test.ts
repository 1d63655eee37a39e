/** The store of configuration in SQLite keeps the contract. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { createConfigStore } from '../../../src/store/sqlite/config-store.ts'
import { createFolder } from '../../ledger/fixture.ts'
import { BY, decided, key, testConfigStore } from '../config-store.ts'

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

test('whoever reads keys again has what a newcomer reads, whoever changed them meanwhile', async () => {
  const folder = createFolder()
  const stores = [createConfigStore(folder.database), createConfigStore(folder.other())] as const
  const names = ['a', 'b', 'c', 'd'] as const
  const changes = fc.record({
    by: fc.nat({ max: 1 }),
    fails: fc.boolean(),
    keys: fc.array(
      fc.record({
        id: fc.constantFrom(...names),
        createdMs: fc.nat({ max: 3 }),
        models: fc.uniqueArray(fc.constantFrom('x', 'y', 'z')),
        secrets: fc.uniqueArray(fc.constantFrom('1', '2', '3')),
      }),
    ),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(changes, { maxLength: 5 }), fc.nat({ max: 1 }), async (all, reader) => {
      for (const { by, fails, keys } of all) {
        const write = keys.map(({ secrets, ...more }) =>
          key(more.id, {
            ...more,
            secrets: secrets.map((at) => ({ hash: `${more.id} ${at}`, lastFour: at, createdMs: 1, expiresMs: null })),
          }),
        )
        const failing = fails ? [key('e', { teamId: 'nowhere' })] : []
        const changing = stores[by as 0 | 1].changeKeys(BY, () => decided({ keys: [...write, ...failing] }))
        await (fails ? expect(changing).rejects.toThrow() : changing)
        const newcomer = folder.other()
        expect(await stores[reader as 0 | 1].read()).toEqual(await createConfigStore(newcomer).read())
        newcomer.close()
      }
    }),
    { numRuns: 60 },
  )
  folder.close()
})
