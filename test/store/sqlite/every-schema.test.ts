/** A database of every schema that there has been, with rows as its version wrote them, is migrated to the current one without losing anything. */
import type { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { checkUpgrade } from '../../../src/backup/upgrade-check.ts'
import { toSnapshot } from '../../../src/store/snapshot.ts'
import { createConfigStore } from '../../../src/store/sqlite/config-store.ts'
import { BETWEEN, DAY_SUMS, PLACE } from '../../../src/store/sqlite/ledger-rollup.ts'
import { MIGRATIONS, migrate } from '../../../src/store/sqlite/migrate.ts'
import { openDatabase } from '../../../src/store/sqlite/open.ts'
import { findingsOf, HOUR } from '../../ledger/fixture.ts'
import { createTestFolder, forEachTest } from '../../support/lifetime.ts'

type Row = Record<string, string | number | null>

const DAY = HOUR - (HOUR % 86_400_000)
const indexOf = (name: string) => MIGRATIONS.findIndex((migration) => migration.name.endsWith(name))
const [DAYS, PAIRS, ROW_PER_CALL, LAYERS] = [
  'usage_by_day',
  'usage_within',
  'a_row_for_each_call',
  'catalog_layers',
].map(indexOf) as [number, number, number, number]

const folder = forEachTest(createTestFolder)

/** Fields that the table does not have yet, or no longer, are left out. */
function insert(database: Database, table: string, ...rows: Row[]): void {
  const columns = database.query<{ name: string }, [string]>('SELECT name FROM pragma_table_info(?)').all(table)
  for (const row of rows) {
    const names = columns.map(({ name }) => name).filter((name) => name in row)
    const sql = `INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?')})`
    if (names.length > 0) database.query(sql).run(...names.map((name) => row[name] ?? null))
  }
}

const TIMES = { created_ms: HOUR - 1_000, updated_ms: HOUR }
const TARGET = { upstream: 'up', upstream_model: 'large-v1', lane: 'native', price_id: 'p1', credential: 2 }
const COUNTS = {
  prompt_tokens: 90,
  cached_tokens: 40,
  cache_write_tokens: 10,
  cache_write_1h_tokens: 4,
  completion_tokens: 30,
  reasoning_tokens: 5,
  image_tokens: 2,
  web_searches: 1,
}

const toId = (n: number) => `${HOUR.toString(16).padStart(12, '0')}${String(n).padStart(20, '0')}`
const toRequest = (n: number, fields: Row = {}): Row => ({
  ...{
    id: toId(n),
    instance: 'old',
    key_id: 'key-a',
    team_id: 'team-1',
    model: 'acme/large',
    endpoint: 'messages',
    created_ms: HOUR + n,
  },
  ...{
    status: 'ok',
    http_status: 200,
    stream: 1,
    attempts: 1,
    user: 'ada',
    ...TARGET,
    ...COUNTS,
    cost_nano_usd: 1_000 * n,
    ...fields,
  },
})

const REQUESTS = [
  toRequest(1),
  toRequest(2, {
    status: 'failed',
    error_code: 'upstream_timeout',
    http_status: 504,
    cost_nano_usd: 0,
    prompt_tokens: 0,
    cached_tokens: 0,
    cache_write_tokens: 0,
    cache_write_1h_tokens: 0,
    completion_tokens: 0,
    reasoning_tokens: 0,
    image_tokens: 0,
    web_searches: 0,
  }),
  toRequest(3, { key_id: 'key-b', team_id: null, status: 'cut', estimated: 1, cost_nano_usd: 7_000_000_000_000 }),
  // Two calls.
  toRequest(4, { attempts: 2 }),
]
const NONE = Object.fromEntries(Object.keys(COUNTS).map((name) => [name, 0]))
const toCall = (number: number, fields: Row): Row => ({
  ...{
    request_id: toId(4),
    number,
    instance: 'old',
    reason: number === 1 ? 'first' : 'retry',
    created_ms: HOUR + 4,
    status: 'ok',
  },
  ...{ ...TARGET, ...NONE, cost_nano_usd: 0, ...fields },
})
const CALLS = [toCall(1, { status: 'failed' }), toCall(2, { ...COUNTS, cost_nano_usd: 4_000 })]

const MODEL = {
  slug: 'acme/large',
  name: 'Large',
  owned_by: 'acme',
  context_length: 8_000,
  max_output_length: 1_000,
  enabled: 1,
  listed: 1,
  price_id: 'p1',
  origin: 'admin',
}
const LISTS = {
  input_modalities: '["text"]',
  output_modalities: '["text"]',
  supported_features: '["tools"]',
  pricing: '[]',
}
const UPSTREAM = {
  id: 'up',
  dialect: 'demo',
  base_url: null,
  local: 1,
  enabled: 1,
  deadlines: '{}',
  options: '{}',
  origin: 'admin',
}
const ROUTE = {
  model: 'acme/large',
  upstream: 'up',
  upstream_model: 'large-v1',
  priority: 0,
  weight: 1,
  enabled: 1,
  origin: 'admin',
}

/** The catalog as layers, from which tables were merged before. */
const ENTRIES: [kind: string, name: string, fields: object][] = [
  [
    'upstreams',
    'up',
    {
      id: 'up',
      dialect: 'demo',
      baseUrl: null,
      apiKeyRef: null,
      local: true,
      enabled: true,
      deadlines: {},
      options: {},
      origin: 'admin',
      createdMs: HOUR,
      updatedMs: HOUR,
    },
  ],
  [
    'models',
    'acme/large',
    {
      slug: 'acme/large',
      name: 'Large',
      ownedBy: 'acme',
      contextLength: 8_000,
      maxOutputLength: 1_000,
      inputModalities: ['text'],
      outputModalities: ['text'],
      supportedFeatures: ['tools'],
      pricing: [],
      priceId: 'p1',
      enabled: true,
      listed: true,
      fromWildcard: false,
      fromList: null,
      origin: 'admin',
      createdMs: HOUR,
      updatedMs: HOUR,
    },
  ],
  [
    'routes',
    'acme/large up large-v1',
    {
      model: 'acme/large',
      upstream: 'up',
      upstreamModel: 'large-v1',
      priority: 0,
      weight: 1,
      pricing: null,
      priceId: null,
      contextLength: null,
      maxOutputLength: null,
      supportedFeatures: null,
      options: {},
      fromList: null,
      enabled: true,
      origin: 'admin',
    },
  ],
  ['aliases', 'fast', { alias: 'fast', model: 'acme/large', listed: true, origin: 'admin' }],
]

function fill(database: Database, schema: number): void {
  insert(database, 'teams', {
    id: 'team-1',
    name: 'research',
    budget_nano_usd: 5,
    budget_period: 'month',
    metadata: '{"a":"b"}',
    ...TIMES,
    rpm: 7,
    models: '["acme/*"]',
  })
  insert(
    database,
    'keys',
    { id: 'key-a', name: 'ann', team_id: 'team-1', rpm: 60, metadata: '{}', ...TIMES },
    { id: 'key-b', name: 'ben', metadata: '{}', ...TIMES, revoked_ms: HOUR },
  )
  insert(database, 'key_secrets', { hash: 'h', key_id: 'key-a', last_four: 'abcd', ...TIMES })
  insert(database, 'key_models', { key_id: 'key-a', pattern: 'acme/*' })
  insert(database, 'prices', { id: 'p1', model: 'acme/large', pricing: '[]', ...TIMES })
  insert(database, 'settings', { key: 'retention', value: '90d', ...TIMES })
  insert(database, 'audit', {
    id: toId(9),
    at_ms: HOUR,
    actor: 'cli',
    action: 'keys.create',
    subject: 'key-a',
    detail: '{}',
  })
  insert(database, 'admins', { id: 'admin-1', name: 'olga', role: 'owner', ...TIMES })
  if (schema < LAYERS) {
    insert(database, 'upstreams', { ...UPSTREAM, ...TIMES })
    insert(database, 'models', { ...MODEL, ...LISTS, ...TIMES })
    insert(database, 'routes', ROUTE)
    insert(database, 'aliases', { alias: 'fast', model: 'acme/large', listed: 1, origin: 'admin' })
  } else
    for (const [kind, name, fields] of ENTRIES)
      insert(database, 'catalog_entries', { kind, name, origin: 'admin', fields: JSON.stringify(fields) })
  insert(database, 'requests', ...REQUESTS)
  insert(database, 'calls', ...CALLS.filter(({ number }) => schema >= ROW_PER_CALL || number !== 1))
  fillTotals(database, schema)
}

/** Totals as the version's writer kept them, next to the rows. */
function fillTotals(database: Database, schema: number): void {
  const has = new Set(
    database
      .query<{ name: string }, []>(`SELECT name FROM pragma_table_info('requests')`)
      .all()
      .map(({ name }) => name),
  )
  const toSum = ({ status, cost_nano_usd: cost, estimated = 0, ...row }: Row): Row => ({
    ...{ requests: 1, errors: Number(status === 'failed'), cuts: Number(status === 'cut'), cost_nano_usd: cost ?? 0 },
    ...{ estimated_cost_nano_usd: estimated ? (cost ?? 0) : 0 },
    ...Object.fromEntries(Object.keys(COUNTS).map((name) => [name, row[name] ?? 0])),
  })
  const add = (sums: Map<string, Row>, place: Row, sum: Row) => {
    const name = JSON.stringify(place)
    const before = sums.get(name) ?? place
    sums.set(name, {
      ...before,
      ...Object.fromEntries(Object.entries(sum).map(([field, n]) => [field, Number(before[field] ?? 0) + Number(n)])),
    })
  }
  const [hours, days] = [new Map<string, Row>(), new Map<string, Row>()]
  for (const row of REQUESTS) {
    const place = PLACE.map((name) =>
      name === 'team_id' ? (row.team_id ?? '') : name === 'endpoint' && !has.has(name) ? 'chat' : String(row[name]),
    )
    add(hours, { hour_ms: HOUR, ...Object.fromEntries(PLACE.map((name, at) => [name, String(place[at])])) }, toSum(row))
    for (const { dimension, of, scope } of DAY_SUMS) {
      if (scope !== null && (schema < PAIRS || place[scope] === '')) continue
      const value = scope === null ? `${place[of]}` : `${place[scope]}${BETWEEN}${place[of]}`
      add(days, { dimension, day_ms: DAY, value }, toSum(row))
    }
  }
  insert(database, 'usage_hourly', ...hours.values())
  if (schema >= DAYS) insert(database, 'usage_daily', ...days.values())
}

test.each(MIGRATIONS.map(({ name }, at) => [name, at] as const))('%s', async (_, at) => {
  const database = openDatabase(join(folder.path, 'tollgate.db'), { busyMs: 0 })
  migrate(database, folder.path, HOUR, MIGRATIONS.slice(0, at + 1))
  fill(database, at)
  expect(database.query('PRAGMA foreign_key_check').all()).toEqual([])
  const stored = database.query('SELECT * FROM requests').all()
  const check = await checkUpgrade({ dataFolder: folder.path, nowMs: HOUR, monotonicMs: () => 0 })
  expect(check).toMatchObject({ isSafe: true, changes: [], findings: [] })
  expect(check.migrations).toEqual(MIGRATIONS.slice(at + 1).map(({ name }) => name))
  // On a copy, of which nothing is left.
  expect(database.query('SELECT * FROM requests').all()).toEqual(stored)
  expect(readdirSync(join(folder.path, 'backups'))).toEqual([])
  migrate(database, folder.path, HOUR)
  // Rows, calls, hours, and days agree to the last token and nano-dollar.
  expect(findingsOf(database, folder.path)).toEqual([])
  expect(database.query('SELECT COUNT(*) AS requests, SUM(cost_nano_usd) AS cost FROM requests').get()).toEqual({
    ...{ requests: 4, cost: 7_000_000_005_000 },
  })
  expect(database.query('SELECT SUM(cost_nano_usd) AS cost FROM calls').get()).toEqual({ cost: 4_000 })
  const store = createConfigStore(database)
  const { keys, teams } = await store.readKeys()
  expect(keys).toMatchObject([
    ...[
      {
        name: 'ann',
        teamId: 'team-1',
        limits: { rpm: 60 },
        models: ['acme/*'],
        secrets: [{ hash: 'h', lastFour: 'abcd' }],
      },
    ],
    { name: 'ben', revokedMs: HOUR },
  ])
  expect(teams).toMatchObject([{ name: 'research', budget: { nanoUsd: 5, period: 'month' }, metadata: { a: 'b' } }])
  expect(await store.readSettings()).toMatchObject({ retention: '90d' })
  expect((await store.readAudit()).map(({ action }) => action)).toContain('keys.create')
  const { models, aliases } = toSnapshot(await store.read(), {})
  expect(models.get('acme/large')?.targets).toMatchObject([{ upstreamModel: 'large-v1', contextLength: 8_000 }])
  expect(aliases.get('fast')).toBeDefined()
  database.close()
})
