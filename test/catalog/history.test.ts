/** Versions of the catalog are kept and can be restored exactly, as a normal change without losses. */
import { beforeEach, expect, test } from 'bun:test'
import { applyCatalog, type DestructiveOptions, revertCatalog, showVersion } from '../../src/catalog/apply.ts'
import type { Catalog } from '../../src/catalog/complete.ts'
import { editModel, setRoute } from '../../src/catalog/edit.ts'
import { undoVersion } from '../../src/catalog/undo.ts'
import type { Origin } from '../../src/domain/models.ts'
import type { ConfigStore } from '../../src/store/config-store.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { prices } from '../../src/store/sqlite/schema.ts'
import { toTables } from '../../src/store/sqlite/tables.ts'
import { createFolder } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createRandom } from '../support/random.ts'
import { catalog, model, upstream } from './declared.ts'

let store: ConfigStore
let nowMs: number
const folder = forEachTest(createFolder)
beforeEach(() => {
  store = createConfigStore(folder.database)
  nowMs = 1_000
})

const apply = (declared: Catalog, origin: Origin = 'file', wishes: DestructiveOptions = { prune: true }) =>
  applyCatalog(store, declared, { origin, actor: 'ann', subject: 'c.yaml', digest: 'd', nowMs: nowMs++, ...wishes })
const revert = (number: number, isPlan = false) =>
  revertCatalog(store, number, { actor: 'bob', nowMs: nowMs++, isPlan })
const listVersions = (of: ConfigStore) => of.readVersions()
/** Manual changes of administrators, outside applies. */
const edit = (slug: string, name: string) =>
  folder.database.run("INSERT OR REPLACE INTO catalog_entries VALUES ('models', ?, 'admin', ?)", [
    slug,
    JSON.stringify({ slug, origin: 'admin', name }),
  ])
const read = async () => {
  const { models: rows, ...others } = await store.readCatalog()
  const byName = rows.sort((a, b) => (a.slug < b.slug ? -1 : 1)).map((row) => ({ ...row, updatedMs: 0 }))
  return { ...others, upstreams: others.upstreams.map((row) => ({ ...row, updatedMs: 0 })), models: byName }
}
const DEARER = [{ prompt: '9', completion: '9' }]

test('each apply with changes is a version; a revert restores its rows, prices, and origins', async () => {
  await apply(catalog(model('v/a'), model('v/b')))
  const first = await read()
  await apply(catalog(model('v/a', { pricing: DEARER })))
  const second = await read()
  await apply(catalog(model('v/a', { pricing: DEARER })))

  expect(await revert(1, true)).toMatchObject({ created: 2, updated: 1, deleted: 0, version: null })
  expect(await read()).toEqual(second)
  const priceRows = () => toTables(folder.database).select().from(prices).all()
  const before = priceRows()
  expect(await revert(1)).toMatchObject({ created: 2, updated: 1, deleted: 0, version: 3 })
  expect(await read()).toEqual(first)
  expect(priceRows()).toEqual(before)

  expect(await revert(2)).toMatchObject({ version: 4 })
  expect(await read()).toEqual(second)
  expect(await revert(2)).toMatchObject({ version: null })
  expect((await listVersions(store)).map((one) => [one.number, one.actor, one.action, one.subject])).toEqual([
    [1, 'ann', 'catalog.apply', 'c.yaml'],
    [2, 'ann', 'catalog.apply', 'c.yaml'],
    [3, 'bob', 'catalog.revert', 'version 1'],
    [4, 'bob', 'catalog.revert', 'version 2'],
  ])
  const audit = await store.readAudit()
  expect(audit.map(({ action }) => action)).toEqual(
    ['revert', 'revert', 'apply', 'apply'].map((one) => `catalog.${one}`),
  )
  expect(audit[0]?.detail).toMatchObject({
    ...{ reverted_to: 2, version: 4, deleted: 2 },
    after: { 'models.v/a': { pricing: DEARER } },
  })
})

test('manual changes that a file discarded return', async () => {
  await apply(catalog(model('v/a')))
  edit('v/a', 'By hand')
  await apply(catalog(model('v/a')), 'file', { discardEdits: true })
  expect((await store.readCatalog()).models).toMatchObject([{ name: 'v/a', origin: 'file' }])
  await revert(2)
  expect((await store.readCatalog()).models).toMatchObject([{ name: 'By hand', origin: 'admin' }])
})

test('manual changes between two applies are their own version, and return, too', async () => {
  await apply(catalog(model('v/a')))
  edit('v/a', 'By hand')
  await revert(1)
  expect((await store.readCatalog()).models).toMatchObject([{ name: 'v/a', origin: 'file' }])
  const [, kept] = await listVersions(store)
  expect(kept).toMatchObject({ number: 2, action: 'catalog.keep', subject: 'changes made after 1', updated: 1 })
  await revert(2)
  expect((await store.readCatalog()).models).toMatchObject([{ name: 'By hand', origin: 'admin' }])
})

test('the first change keeps a catalog from before versions existed', async () => {
  await apply(catalog(model('v/a')))
  folder.database.run('DELETE FROM catalog_versions')
  await apply(catalog(model('v/b')))
  expect((await listVersions(store)).map(({ number, action }) => [number, action])).toEqual([
    [1, 'catalog.keep'],
    [2, 'catalog.apply'],
  ])
  await revert(1)
  expect((await store.readCatalog()).models).toMatchObject([{ slug: 'v/a' }])
})

test('a version shows its changes by field', async () => {
  await apply(catalog(model('v/a')))
  await apply(catalog(model('v/a', { contextLength: 9 })))
  expect((await showVersion(store, 2)).changes).toEqual([
    {
      ...{ action: 'update', name: 'models.v/a', origin: 'file' },
      ...{ before: { context_length: 10 }, after: { context_length: 9 } },
    },
  ])
})

test("the newest hundred versions are kept, numbers aren't reused, and other versions are unknown", async () => {
  for (let count = 1; count <= 103; count++) await apply(catalog(model('v/a', { name: `name ${count}` })))
  const versions = await listVersions(store)
  expect([versions.length, versions[0]?.number, versions.at(-1)?.number]).toEqual([100, 4, 103])
  await expect(revert(3)).rejects.toThrow('Catalog version 3 is unknown or was deleted: only the newest 100 are kept.')
  expect((await showVersion(store, 4)).changes).toBeNull()
  await expect(undo(4)).rejects.toThrow("Can't undo version 4: the version before it was deleted")
  await revert(4)
  expect((await store.readCatalog()).models).toMatchObject([{ name: 'name 4' }])
})

const undo = (number: number) => undoVersion(store, number, { actor: 'bob', nowMs: nowMs++ })

test('an undo leaves the catalog as without the change, whatever changed later', async () => {
  const random = createRandom(7)
  const slugs = Array.from({ length: 8 }, (_, at) => `v/m${at}`)
  const change = (slug: string, at: number) => {
    const kind = Math.floor(random() * 3)
    if (kind === 0) return catalog(model(slug, { name: `name ${at}` }))
    return catalog(
      kind === 1 ? model(slug, { pricing: [{ prompt: `${at + 3}`, completion: '9' }] }) : model(`${slug}-new`),
    )
  }
  const bare = async () => {
    const { upstreams, models, routes, aliases } = await read()
    const plain = models.map((row) => ({ ...row, priceId: null, createdMs: 0 }))
    return { upstreams, models: plain, routes: routes.map((row) => row.model).toSorted(), aliases }
  }
  const base = catalog(...slugs.map((slug) => model(slug)))
  for (let round = 0; round < 8; round++) {
    const changes = slugs.map(change)
    const skipped = Math.floor(random() * slugs.length)
    await apply(base)
    for (const [at, one] of changes.entries()) if (at !== skipped) await apply(one, 'file', {})
    const expected = await bare()
    await apply(base)
    let number = 0
    for (const [at, one] of changes.entries()) {
      const { version } = await apply(one, 'file', {})
      if (at === skipped) number = version ?? 0
    }
    expect((await undo(number)).version).toBeNumber()
    expect(await bare()).toEqual(expected)
    expect((await undo(number)).changes).toEqual([])
  }
})

test('an undo is refused if later versions changed the entry, or need it, and names both', async () => {
  await apply(catalog(model('v/a')))
  await apply(catalog(model('v/a', { name: 'Second' })))
  await apply(catalog(model('v/a', { name: 'Third' })))
  await expect(undo(2)).rejects.toThrow("Can't undo version 2: version 3 changed or needs model v/a.")
  await undo(3)
  expect((await store.readCatalog()).models).toMatchObject([{ name: 'Second' }])
  await apply(catalog(model('v/a'), model('v/b')))
  await apply({ ...catalog(), aliases: [{ alias: 'quick', model: 'v/b', listed: true }] }, 'file', {})
  await expect(undo(5)).rejects.toThrow(
    "Can't undo version 5: version 6 changed or needs alias quick. Undo that version first",
  )
})

test('an undo is refused if a paid route that was added since would become free', async () => {
  const free = [{ prompt: '0', completion: '0' }]
  const local = { ...upstream('u'), dialect: 'openai' as const, baseUrl: 'http://127.0.0.1:1/v1', local: true }
  const paid = { ...local, id: 'paid', local: false }
  await apply({ ...catalog(model('v/a', { pricing: free })), upstreams: [local, paid] })
  await editModel(store, 'v/a', { pricing: DEARER }, { actor: 'bob', nowMs: nowMs++ })
  await setRoute(store, { model: 'v/a', upstream: 'paid', upstreamModel: 'm' }, {}, { actor: 'bob', nowMs: nowMs++ })
  await expect(undo(2)).rejects.toThrow("Can't undo version 2: version 3 changed or needs model v/a.")
  await undo(3)
  await undo(2)
  expect((await store.readCatalog()).models).toMatchObject([{ pricing: free }])
})
