/** The snapshot: what tables say arrives where requests read it. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { applyCatalog } from '../../../src/catalog/apply.ts'
import { parseCatalog } from '../../../src/catalog/file.ts'
import { NO_LIMITS } from '../../../src/domain/limits.ts'
import type { ConfigStore } from '../../../src/store/config-store.ts'
import { toSnapshot } from '../../../src/store/snapshot.ts'
import { createConfigStore } from '../../../src/store/sqlite/config-store.ts'
import { keySecrets, keys, prices, teams } from '../../../src/store/sqlite/schema.ts'
import { toTables } from '../../../src/store/sqlite/tables.ts'
import { createFolder } from '../../ledger/fixture.ts'
import { forEachTest } from '../../support/lifetime.ts'

let store: ConfigStore
let tables: ReturnType<typeof toTables>
const folder = forEachTest(createFolder)
beforeEach(() => {
  store = createConfigStore(folder.database)
  tables = toTables(folder.database)
})

async function apply(text: string): Promise<void> {
  const { catalog } = await parseCatalog(text, { name: 'test', environment: {} })
  await applyCatalog(store, catalog, {
    origin: 'file',
    actor: 'test',
    subject: 'test',
    digest: text,
    prune: true,
    nowMs: 1_000,
  })
}
const load = async () => toSnapshot(await store.read(), {})
const targetsOf = async (slug: string) => (await load()).models.get(slug)?.targets

/** One model; the routes are written in the order given. */
const withRoutes = (...routes: string[]) => `version: 1
upstreams:
  paid: { dialect: openai, base_url: http://h/v1, rpm: 60, tpm: 9000, concurrency: 4 }
  here: { dialect: demo, local: true }
models:
  v/m:
    { name: M, context_length: 100, max_output_length: 50, input_modalities: [text], output_modalities: [text],
      supported_features: [tools, json_mode, reasoning], pricing: [{ prompt: "1", completion: "2" }],
      routes: [${routes.map((route) => `{ upstream: paid, ${route} }`).join(', ')}] }
`

describe('the targets of a model', () => {
  test('come by priority, those of one priority in the order of their routes, with their weights', async () => {
    await apply(
      withRoutes('model: z, priority: 1, weight: 3', 'model: b', 'model: y, priority: 1', 'model: a, weight: 7'),
    )
    const order = (await targetsOf('v/m'))?.map(({ upstreamModel, priority, weight }) => [
      upstreamModel,
      priority,
      weight,
    ])
    expect(order).toEqual([
      ['b', 0, 1],
      ['a', 0, 7],
      ['z', 1, 3],
      ['y', 1, 1],
    ])
  })

  test('know what their route says of itself, and what their model says where it says nothing', async () => {
    await apply(
      withRoutes(
        'model: a',
        'model: b, context_length: 80, max_output_length: 20, supported_features: [reasoning, tools]',
        'model: c, context_length: 30',
        'model: d, supported_features: []',
      ),
    )
    expect(await targetsOf('v/m')).toMatchObject([
      { contextLength: 100, maxOutputLength: 50, features: ['tools', 'json_mode', 'reasoning'] },
      { contextLength: 80, maxOutputLength: 20, features: ['tools', 'reasoning'] },
      // What is written stands in the context.
      { contextLength: 30, maxOutputLength: 30 },
      { contextLength: 100, features: [] },
    ])
  })

  test('never have more than their model, whoever wrote its row', async () => {
    await apply(withRoutes('model: a, context_length: 80, max_output_length: 40, supported_features: [tools]'))
    folder.database.run(
      `UPDATE catalog_entries SET fields = json_set(fields, '$.contextLength', 60, '$.maxOutputLength', 10, '$.supportedFeatures', json('["json_mode"]')) WHERE kind = 'models'`,
    )
    expect(await targetsOf('v/m')).toMatchObject([{ contextLength: 60, maxOutputLength: 10, features: [] }])
  })

  test('know what other models of their upstream cost, also those that nobody may ask for now', async () => {
    await apply(
      withRoutes('model: a', 'model: b, pricing: [{ prompt: "3", completion: "4" }]', 'model: c, enabled: false'),
    )
    const [target] = (await targetsOf('v/m')) ?? []
    const costs = [...(target?.upstream.prices ?? [])].map(([name, { pricing }]) => [name, pricing[0]?.prompt])
    expect(costs).toEqual([
      ['a', '1'],
      ['b', '3'],
      ['c', '1'],
    ])
    expect(target?.upstream.prices.get('a')?.priceId).toBe(target?.priceId as string)
  })

  test('know what their upstream is asked at most', async () => {
    await apply(withRoutes('model: a'))
    const { upstreams, models: found } = await load()
    expect(upstreams.get('paid')?.limits).toEqual({ rpm: 60, tpm: 9_000, concurrency: 4 })
    expect(upstreams.get('here')?.limits).toEqual(NO_LIMITS)
    // The same object: what is counted for one is counted for all of its targets.
    expect(found.get('v/m')?.targets[0]?.upstream === upstreams.get('paid')).toBe(true)
  })
})

test('a model of a wildcard is charged by a price on record, and known as such', async () => {
  await apply(`version: 1
upstreams: { openai: { dialect: openai, base_url: http://h/v1 } }
models:
  openai/gpt-4o: { routes: [{ upstream: openai, model: gpt-4o }] }
  openai/gpt-4o-m*: { routes: [{ upstream: openai, model: gpt-4o-m* }] }
`)
  const { models: found } = await load()
  expect([...found].map(([slug, { fromWildcard }]) => [slug, fromWildcard])).toEqual([
    ['openai/gpt-4o', false],
    ['openai/gpt-4o-mini', true],
  ])
  const [target] = found.get('openai/gpt-4o-mini')?.targets ?? []
  expect(target).toMatchObject({ upstreamModel: 'gpt-4o-mini', contextLength: 128_000 })
  const price = tables
    .select()
    .from(prices)
    .all()
    .find(({ id }) => id === target?.priceId)
  expect(price).toMatchObject({ model: 'openai/gpt-4o-mini', pricing: [{ prompt: '0.00000015' }, { mode: 'batch' }] })
})

test('keys and teams arrive with their limits and budgets', async () => {
  const at = { metadata: {}, createdMs: 0 }
  tables
    .insert(teams)
    .values([
      {
        ...{ id: 't1', name: 'Red', scope: 'local', models: ['v/*'], tpm: 9, maxKeys: 3, ...at },
        ...{ budgetNanoUsd: 20_000_000_000, budgetPeriod: 'month' },
      },
      { id: 't2', name: 'Blue', ...at },
    ])
    .run()
  tables
    .insert(keys)
    .values([
      { id: 'k1', name: 'ann', teamId: 't1', rpm: 6, concurrency: 2, budgetNanoUsd: 5, ...at },
      { id: 'k2', name: 'bob', budgetNanoUsd: 7, budgetPeriod: 'day', ...at },
      { id: 'k3', name: 'eve', ownerId: 'mia', ...at },
    ])
    .run()
  const secretOf = (keyId: string) => ({ hash: `hash of ${keyId}`, keyId, lastFour: 'abcd', createdMs: 0 })
  tables.insert(keySecrets).values(['k1', 'k2', 'k3'].map(secretOf)).run()

  const snapshot = await load()
  expect(snapshot.teams).toEqual(
    new Map([
      [
        't1',
        {
          ...{ id: 't1', name: 'Red', scope: 'local', models: ['v/*'], limits: { ...NO_LIMITS, tpm: 9 } },
          budget: { nanoUsd: 20_000_000_000, period: 'month' },
        },
      ],
      ['t2', { id: 't2', name: 'Blue', scope: 'all', models: [], limits: NO_LIMITS, budget: null }],
    ]),
  )
  expect(['k1', 'k2', 'k3'].map((id) => snapshot.secrets.get(`hash of ${id}`)?.key)).toMatchObject([
    {
      id: 'k1',
      teamId: 't1',
      limits: { rpm: 6, tpm: null, concurrency: 2 },
      // Without a period it is one for good.
      budget: { nanoUsd: 5, period: 'total' },
    },
    { id: 'k2', teamId: null, limits: NO_LIMITS, budget: { nanoUsd: 7, period: 'day' }, quotaId: 'k2' },
    { id: 'k3', budget: null, quotaId: 'mia' },
  ])
})

test('a budget period that this version does not know is refused, and never counted as another one', async () => {
  tables
    .insert(teams)
    .values({ id: 't', name: 'crew', createdMs: 1, budgetNanoUsd: 5, budgetPeriod: 'month', metadata: {} })
    .run()
  folder.database.run("UPDATE teams SET budget_period = 'quarter'")
  await expect(load()).rejects.toThrow("unknown budget period 'quarter'")
})

test('an upstream of a dialect that this version does not know is not ready, and all others are', async () => {
  await apply(withRoutes('model: a'))
  folder.database.run(
    `UPDATE catalog_entries SET fields = json_set(fields, '$.dialect', 'unheard-of') WHERE kind = 'upstreams' AND name = 'paid'`,
  )
  folder.database.run("UPDATE catalog_entries SET fields = json_set(fields, '$.apiKeyRef', ?) WHERE name = 'paid'", [
    `\${KEY}`,
  ])
  const { upstreams, models: found } = await load()
  const notReady = "this version of Tollgate doesn't support the API format 'unheard-of'"
  expect(upstreams.get('paid')).toMatchObject({ notReady, credential: null, variable: 'KEY' })
  expect(upstreams.get('here')).toMatchObject({ notReady: null, variable: null })
  expect(found.get('v/m')?.targets[0]?.upstream.notReady).toBe(notReady)
})
