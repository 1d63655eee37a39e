/**
 * Conflicting changes by discovery, a file and an administrator, in generated orders. The result follows the rules of layers,
 * calculated here by row, and a server starts with it.
 */
import { expect, test } from 'bun:test'
import { type ApplyOptions, applyCatalog } from '../../src/catalog/apply.ts'
import type { Catalog, DeclaredModel } from '../../src/catalog/complete.ts'
import { toServeConfig } from '../../src/config.ts'
import { ORIGINS, type Origin } from '../../src/domain/models.ts'
import { createLog } from '../../src/log.ts'
import { startServer } from '../../src/server/server.ts'
import { mergeLayers } from '../../src/store/catalog-layers.ts'
import type { AliasRow, ModelRow, RouteRow, UpstreamRow } from '../../src/store/catalog-rows.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { createFolder } from '../ledger/fixture.ts'
import { createPicker } from '../support/random.ts'
import { model, ROUTE, upstream } from './declared.ts'

type Draw = (below: number) => number
type Wishes = Required<Pick<ApplyOptions, 'prune' | 'discardEdits'>>

interface Step {
  origin: Origin
  wishes: Wishes
  catalog: Catalog
}

/** A row's fields, in short, and its origin. */
type Stands = Map<string, { origin: Origin; says: string; model?: string; upstream?: string }>

/** Some of three upstreams, three models and two aliases, with facts that may differ between layers. */
function drawCatalog(pick: Draw): Catalog {
  const upstreams = ['a', 'b', 'c'].filter(() => pick(3) > 0).map((id) => ({ ...upstream(id), enabled: pick(2) > 0 }))
  const drawRoutes = () =>
    upstreams
      .filter(() => pick(2) > 0)
      .map(({ id }) => ({ ...ROUTE, upstream: id, priority: pick(3), pricing: drawPricing(pick) }))
  const models: DeclaredModel[] = ['v/x', 'v/y', 'v/z']
    .filter(() => pick(3) > 0)
    .map((slug) => model(slug, { name: `name ${pick(2)}`, contextLength: 10 + pick(2), routes: drawRoutes() }))
  const aliases = ['fast', 'slow'].flatMap((alias) => {
    const target = models[pick(4)]
    return target ? [{ alias, model: target.slug, listed: pick(2) > 0 }] : []
  })
  return { upstreams, models, aliases }
}

const drawPricing = (pick: Draw) => (pick(2) > 0 ? null : [{ prompt: `0.${pick(3)}1`, completion: '0.2' }])

function drawSteps(pick: Draw): Step[] {
  return Array.from({ length: 2 + pick(7) }, () => ({
    origin: ORIGINS[1 + pick(3)] ?? 'file',
    wishes: { prune: pick(2) > 0, discardEdits: pick(3) === 0 },
    catalog: drawCatalog(pick),
  }))
}

/** The rows of a catalog, or of the tables, by name. */
function toStands(rows: Seen, origin?: Origin): Stands {
  const stands: Stands = new Map()
  const whose = (row: { origin?: Origin }) => origin ?? row.origin ?? 'file'
  for (const row of rows.upstreams) stands.set(`u ${row.id}`, { origin: whose(row), says: `${row.enabled}` })
  for (const row of rows.models)
    stands.set(`m ${row.slug}`, { origin: whose(row), says: `${row.name} ${row.contextLength}` })
  for (const row of rows.routes)
    stands.set(`r ${row.model} ${row.upstream}`, {
      ...{ origin: whose(row), model: `m ${row.model}`, upstream: `u ${row.upstream}` },
      says: `${row.priority} ${JSON.stringify(row.pricing)}`,
    })
  for (const row of rows.aliases)
    stands.set(`a ${row.alias}`, { origin: whose(row), says: `${row.model} ${row.listed}` })
  return stands
}

/** The table columns of this test. Declared rows have no origin yet. */
interface Seen {
  upstreams: Owned<Pick<UpstreamRow, 'id' | 'enabled'>>[]
  models: Owned<Pick<ModelRow, 'slug' | 'name' | 'contextLength'>>[]
  routes: Owned<Pick<RouteRow, 'model' | 'upstream' | 'priority' | 'pricing'>>[]
  aliases: Owned<Pick<AliasRow, 'alias' | 'model' | 'listed'>>[]
}
type Owned<Row> = Row & { origin?: Origin }

/** The rows of each layer, by name. */
type Layers = ReadonlyMap<Origin, Stands>

/** The rule of one layer: declared rows replace its earlier ones. With prune, the rest is deleted. */
function follow(before: Layers, { origin, wishes, catalog }: Step): Layers {
  const routes = catalog.models.flatMap(({ slug, routes }) => routes.map((route) => ({ ...route, model: slug })))
  const declared = toStands({ ...catalog, routes }, origin)
  const after = new Map(before)
  if (wishes.discardEdits && origin !== 'admin')
    after.set('admin', new Map([...(before.get('admin') ?? [])].filter(([name]) => !declared.has(name))))
  const staying = wishes.prune ? [] : (before.get(origin) ?? [])
  return after.set(origin, new Map([...staying, ...declared]))
}

/** For each row, the strongest layer applies. A route needs its model and upstream. */
function merge(layers: Layers): Stands {
  const all: Stands = new Map(ORIGINS.flatMap((origin) => [...(layers.get(origin) ?? [])]))
  const isLost = ({ model, upstream }: { model?: string; upstream?: string }) =>
    model !== undefined && upstream !== undefined && !(all.has(model) && all.has(upstream))
  return new Map([...all].filter(([, row]) => !isLost(row)))
}

const inOrder = (stands: Stands) => [...stands].sort(([a], [b]) => (a < b ? -1 : 1))

const SETTINGS = { ...toServeConfig({ flags: {}, environment: {}, settings: {} }), port: 0, probeMs: 0 }

/** True if a server starts with a data folder and stops cleanly. */
async function canServe(dataFolder: string): Promise<boolean> {
  const server = await startServer({
    ...{ dataFolder, environment: {}, version: 'test', now: Date.now, prepare() {}, configure: () => SETTINGS },
    log: createLog({ now: Date.now, write: async () => {} }),
    commands: { reload: async () => ({ settings: [], variables: [] }), drain() {}, makeBackup: async () => null },
  })
  return server.stop()
}

test.each(Array.from({ length: 60 }, (_, seed) => seed))('seed %d ends as the origins say', async (seed) => {
  const folder = createFolder()
  const store = createConfigStore(folder.database)
  const pick = createPicker(seed)
  let expected: Layers = new Map()
  let nowMs = 1_000
  const apply = ({ origin, wishes, catalog }: Step) =>
    applyCatalog(store, catalog, { ...wishes, origin, actor: 'test', subject: 'it', digest: 'd', nowMs: nowMs++ })
  for (const step of drawSteps(pick)) {
    expected = follow(expected, step)
    const { version } = await apply(step)
    const rows = await store.readCatalog()
    expect(inOrder(toStands(rows))).toEqual(inOrder(merge(expected)))
    // The stored version is the current state.
    const kept = version === null ? null : await store.readVersion(version)
    if (kept) expect(inOrder(toStands(mergeLayers(kept.layers)))).toEqual(inOrder(toStands(rows)))
    // Applying it again changes nothing.
    expect(await apply(step)).toMatchObject({ created: 0, updated: 0, deleted: 0, version: null })
  }
  if (seed % 12 === 0) expect(await canServe(folder.path)).toBe(true)
  folder.close()
})
