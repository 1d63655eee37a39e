/** From a catalog to rows: origins, recorded prices, and no trace without changes. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { eq } from 'drizzle-orm'
import { applyCatalog, type DestructiveOptions, isApplied } from '../../src/catalog/apply.ts'
import type { Catalog } from '../../src/catalog/complete.ts'
import type { Origin } from '../../src/domain/models.ts'
import { createKey } from '../../src/keys/service.ts'
import type { ConfigStore } from '../../src/store/config-store.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { audit, keyModels, keySecrets, keys, prices, settings, teams } from '../../src/store/sqlite/schema.ts'
import { toTables } from '../../src/store/sqlite/tables.ts'
import { createFolder } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'
import { catalog, model, ROUTE, upstream } from './declared.ts'

let store: ConfigStore
let tables: ReturnType<typeof toTables>
const folder = forEachTest(createFolder)
beforeEach(() => {
  store = createConfigStore(folder.database)
  tables = toTables(folder.database)
})

const apply = (
  declared: Catalog,
  origin: Origin = 'file',
  nowMs = 1_000,
  wishes: DestructiveOptions = { prune: true },
) => applyCatalog(store, declared, { origin, actor: 'test', subject: 'catalog.yaml', digest: 'd', nowMs, ...wishes })
const revision = () => tables.select().from(settings).where(eq(settings.key, 'config_revision')).get()?.value
const read = () => store.readCatalog()
const slugs = async () => (await read()).models.map((row) => `${row.slug} ${row.origin}`)

describe('applyCatalog', () => {
  test('adds one revision and one audit row for a change, and none without changes', async () => {
    expect(await apply(catalog(model('v/a')))).toMatchObject({
      ...{ created: 3, updated: 0, deleted: 0, unchanged: 0, version: 1, overridden: [], kept: [] },
    })
    expect(await apply(catalog(model('v/a')), 'file', 2_000)).toMatchObject({ created: 0, updated: 0, unchanged: 3 })
    expect(revision()).toBe('1')
    expect(tables.select().from(audit).all()).toHaveLength(1)
  })

  test('keeps the creation time, and updates the other time only with a change', async () => {
    await apply(catalog(model('v/a'), model('v/b')))
    expect(await apply(catalog(model('v/a', { name: 'New' }), model('v/b')), 'file', 2_000)).toMatchObject({
      updated: 1,
    })
    const times = (await read()).models.map((row) => [row.createdMs, row.updatedMs])
    expect(times).toEqual([
      [1_000, 2_000],
      [1_000, 1_000],
    ])
  })

  test('adds a price row if a price changes, keeps the old one, and otherwise changes neither', async () => {
    await apply(catalog(model('v/a')))
    const before = (await read()).models[0]?.priceId
    await apply(catalog(model('v/a', { name: 'Other name' })))
    expect((await read()).models[0]?.priceId).toBe(before as string)
    await apply(catalog(model('v/a', { pricing: [{ prompt: '3', completion: '2' }] })))
    const rows = tables.select().from(prices).all()
    expect(rows.map((row) => row.pricing[0]?.prompt)).toEqual(['1', '3'])
    expect((await read()).models[0]?.priceId).toBe(rows[1]?.id as string)
  })

  test('records the price of a route with its own price', async () => {
    const pricing = [{ prompt: '9', completion: '9' }]
    await apply(catalog(model('v/a', { routes: [{ ...ROUTE, pricing }] })))
    const price = tables.select().from(prices).where(eq(prices.upstream, 'u')).get()
    expect(price?.pricing).toEqual(pricing)
    expect((await read()).routes[0]?.priceId).toBe(price?.id as string)
  })

  test("keeps fields of a route, and that a model isn't listed, and resets both", async () => {
    const facts = { contextLength: 8, maxOutputLength: 4, supportedFeatures: ['tools' as const] }
    const said = async () => [(await read()).models[0]?.listed, (await read()).routes[0]]
    await apply(catalog(model('v/a', { listed: false, routes: [{ ...ROUTE, ...facts }] })))
    expect(await said()).toMatchObject([false, facts])
    expect(await apply(catalog(model('v/a')))).toMatchObject({ updated: 2 })
    expect(await said()).toMatchObject([true, { contextLength: null, maxOutputLength: null, supportedFeatures: null }])
  })

  test("records that an alias isn't listed", async () => {
    const declare = (listed: boolean) =>
      apply({ ...catalog(model('v/a')), aliases: [{ alias: 'fast', model: 'v/a', listed }] })
    await declare(true)
    expect(await declare(false)).toMatchObject({ created: 0, updated: 1, deleted: 0, unchanged: 3 })
    expect((await store.readCatalog()).aliases).toMatchObject([{ alias: 'fast', listed: false }])
  })

  test('allows two routes of one model on the same upstream with different names there', async () => {
    await apply(catalog(model('v/a', { routes: [ROUTE, { ...ROUTE, upstreamModel: 'n', priority: 1 }] })))
    expect((await read()).routes).toMatchObject([
      { upstreamModel: 'm', priority: 0 },
      { upstreamModel: 'n', priority: 1 },
    ])
  })

  test('changes no key, secret, or team', async () => {
    const nowMs = 1_000
    const team = { id: 't', name: 'Red', budgetNanoUsd: 5, budgetPeriod: 'day' as const, metadata: {}, createdMs: 1 }
    tables.insert(teams).values(team).run()
    await createKey(store, { name: 'k', models: ['v/*'] }, { actor: 'cli', nowMs })
    const untouched = [teams, keys, keySecrets, keyModels]
    const read = () => untouched.map((table) => tables.select().from(table).all())
    const before = read()
    await apply(catalog(model('v/a')))
    await apply({ upstreams: [], models: [], aliases: [] })
    expect(read()).toEqual(before)
  })

  test('deletes built-in rows, and file rows that the file no longer declares', async () => {
    await apply(
      { ...catalog(model('tollgate/demo')), aliases: [{ alias: 'demo', model: 'tollgate/demo', listed: true }] },
      'builtin',
    )
    await apply(catalog(model('v/a'), model('v/b')))
    expect(await slugs()).toEqual(['v/a file', 'v/b file'])
    expect(await apply(catalog(model('v/b')))).toMatchObject({ deleted: 2 })
    expect(await slugs()).toEqual(['v/b file'])
  })

  test('replaces a built-in model that a file declares, with its routes', async () => {
    await apply(catalog(model('v/a', { routes: [ROUTE, { ...ROUTE, upstreamModel: 'other' }] })), 'builtin')
    await apply(catalog(model('v/a')), 'file', 2_000, {})
    expect((await store.readCatalog()).routes.map(({ upstreamModel }) => upstreamModel)).toEqual(['m'])
  })

  test('without prune, keeps entries that a file no longer declares, and names them', async () => {
    await apply(catalog(model('v/a'), model('v/b')))
    const { deleted, kept } = await apply(catalog(model('v/b')), 'file', 2_000, {})
    expect([deleted, kept]).toEqual([0, ['models.v/a', 'models.v/a: route u (m)']])
    expect(await slugs()).toEqual(['v/a file', 'v/b file'])
    expect(isApplied(await store.readSettings(), 'd')).toBe(false)
    expect(await apply(catalog(model('v/b')))).toMatchObject({ deleted: 2, kept: [] })
    expect(isApplied(await store.readSettings(), 'd')).toBe(true)
  })

  test('discards manual changes to declared entries on request', async () => {
    await apply(catalog(model('v/a', { name: 'By hand' }), model('v/own')), 'admin')
    await apply(catalog(model('v/a')), 'file', 2_000, { discardEdits: true, prune: true })
    expect((await slugs()).sort()).toEqual(['v/a file', 'v/own admin'])
    expect((await read()).models.find(({ slug }) => slug === 'v/a')?.name).toBe('v/a')
  })

  test('records changes before and after in the audit row, up to a limit', async () => {
    await apply(catalog(model('v/a')))
    await apply(catalog(model('v/a', { name: 'New' })), 'file', 2_000)
    const many = Array.from({ length: 120 }, (_, index) => model(`v/m${index}`))
    await apply(catalog(model('v/a', { name: 'New' }), ...many), 'file', 3_000)
    const [third, second] = await store.readAudit()
    expect(second?.detail).toMatchObject({
      before: { 'models.v/a': { name: 'v/a' } },
      after: { 'models.v/a': { name: 'New' } },
    })
    expect(third?.detail).toMatchObject({ created: 240, untold: 140 })
  })

  test('leaves discovered rows unchanged, and replaces those that it declares', async () => {
    await apply({ ...catalog(model('v/found'), model('v/a')), upstreams: [upstream('u')] }, 'discovered')
    await apply(catalog(model('v/a')))
    expect((await slugs()).sort()).toEqual(['v/a file', 'v/found discovered'])
  })

  test("doesn't override manual changes, and reports differences", async () => {
    await apply(catalog(model('v/a', { name: 'By hand' })), 'admin')
    const { overridden } = await apply(catalog(model('v/a')))
    expect(overridden).toEqual([
      { name: 'models.v/a', origin: 'admin', before: { name: 'By hand' }, after: { name: 'v/a' } },
    ])
    expect((await read()).models[0]?.name).toBe('By hand')
    expect(await apply({ upstreams: [], models: [], aliases: [] })).toMatchObject({ deleted: 0 })
    expect(await slugs()).toEqual(['v/a admin'])
  })

  test('has a manual route only if its model and upstream exist', async () => {
    const byHand = { model: 'v/a', upstream: 'u', upstreamModel: 'other', origin: 'admin' }
    const route = { ...ROUTE, ...byHand, priceId: null }
    const sql = "INSERT INTO catalog_entries VALUES ('routes', 'v/a u other', 'admin', ?)"
    await apply(catalog(model('v/a')))
    folder.database.run(sql, [JSON.stringify(route)])
    expect((await read()).routes).toHaveLength(2)
    expect(await apply({ upstreams: [], models: [], aliases: [] })).toMatchObject({ deleted: 4 })
    expect((await read()).routes).toEqual([])
    await apply(catalog(model('v/a')))
    expect((await read()).routes).toHaveLength(2)
  })
})
