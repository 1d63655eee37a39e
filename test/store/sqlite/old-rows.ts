/** Rows of a database of any schema, as its version wrote them. */
import type { Database } from 'bun:sqlite'
import { BETWEEN, DAY_SUMS, PLACE } from '../../../src/store/reports/measures.ts'
import { MIGRATIONS } from '../../../src/store/sqlite/migrate.ts'
import { HOUR } from '../../ledger/fixture.ts'

type Row = Record<string, string | number | null>

const DAY = HOUR - (HOUR % 86_400_000)
const indexOf = (name: string) => MIGRATIONS.findIndex((migration) => migration.name.endsWith(name))
const [DAYS, PAIRS, ROW_PER_CALL, LAYERS] = [
  'usage_by_day',
  'usage_within',
  'a_row_for_each_call',
  'catalog_layers',
].map(indexOf) as [number, number, number, number]

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

/** @param schema index of its last migration. */
export function fillSchema(database: Database, schema: number): void {
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
