/** Migrations: the list, the schema that they make, and that none is ever run at the cost of data. */

import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { generateSQLiteDrizzleJson, generateSQLiteMigration } from 'drizzle-kit/api'
import { revertCatalog } from '../../../src/catalog/apply.ts'
import { HOUR_MS } from '../../../src/domain/time.ts'
import { toSnapshot } from '../../../src/store/snapshot.ts'
import * as alertSchema from '../../../src/store/sqlite/alert-schema.ts'
import * as batchSchema from '../../../src/store/sqlite/batch-schema.ts'
import { createConfigStore } from '../../../src/store/sqlite/config-store.ts'
import { createLedgerWriter } from '../../../src/store/sqlite/ledger-apply.ts'
import * as ledgerSchema from '../../../src/store/sqlite/ledger-schema.ts'
import {
  MIGRATIONS,
  type Migration,
  migrate,
  readSchemaState,
  requireCurrentSchema,
} from '../../../src/store/sqlite/migrate.ts'
import { openDatabase } from '../../../src/store/sqlite/open.ts'
import * as identitySchema from '../../../src/store/sqlite/schema.ts'
import * as schema from '../../../src/store/sqlite/schema.ts'
import { mountSmallDisk, whyNoSmallDisk } from '../../e2e/crash-trouble.ts'
import { abandonOthers, contentsOf, HOUR, settling, toOpen, toSettled } from '../../ledger/fixture.ts'
import { createTestFolder, forEachTest } from '../../support/lifetime.ts'

const DRIZZLE = resolve(import.meta.dir, '../../../drizzle')
const NOW = Date.UTC(2026, 10, 21, 12)
let database: Database
afterEach(() => database.close())
const folder = forEachTest(createTestFolder)
beforeEach(() => {
  database = openDatabase(join(folder.path, 'tollgate.db'), { busyMs: 0 })
})

const next = (sql: string): Migration[] => [...MIGRATIONS, { name: '9999_next', sql }]
const schemaOf = (of: Database) => of.query('SELECT type, name, sql FROM sqlite_schema ORDER BY name').all()
const backups = () => (existsSync(join(folder.path, 'backups')) ? readdirSync(join(folder.path, 'backups')) : [])

describe('the list of migrations', () => {
  test('is the folder and its journal, in order', () => {
    const names = MIGRATIONS.map(({ name }) => name)
    const files = readdirSync(DRIZZLE).filter((file) => file.endsWith('.sql'))
    expect(files.sort()).toEqual(names.map((name) => `${name}.sql`))
    for (const { name, sql } of MIGRATIONS) expect(sql).toBe(readFileSync(join(DRIZZLE, `${name}.sql`), 'utf8'))
    const journal = JSON.parse(readFileSync(join(DRIZZLE, 'meta/_journal.json'), 'utf8'))
    expect(journal.entries.map((entry: { tag: string }) => entry.tag)).toEqual(names)
  })

  test('makes what the schema in the code says: drizzle-kit would add nothing', async () => {
    const last = String(MIGRATIONS.length - 1).padStart(4, '0')
    const stored = JSON.parse(readFileSync(join(DRIZZLE, `meta/${last}_snapshot.json`), 'utf8'))
    expect(
      await generateSQLiteMigration(
        stored,
        await generateSQLiteDrizzleJson({
          ...schema,
          ...ledgerSchema,
          ...identitySchema,
          ...alertSchema,
          ...batchSchema,
        }),
      ),
    ).toEqual([])
  })
})

test('a new database gets the whole schema, without a backup of nothing', () => {
  migrate(database, folder.path, NOW)
  expect(readSchemaState(database)).toEqual({ applied: MIGRATIONS.map(({ name }) => name), missing: [], unknown: [] })
  requireCurrentSchema(database)
  expect(database.query('PRAGMA foreign_keys').get()).toEqual({ foreign_keys: 1 })
  expect(backups()).toEqual([])
  const before = schemaOf(database)
  migrate(database, folder.path, NOW)
  expect(schemaOf(database)).toEqual(before)
})

test('the tables of the ledger are one B-tree each, which no generated migration says by itself', () => {
  migrate(database, folder.path, NOW)
  const flat = database.query(`SELECT name FROM pragma_table_list WHERE wr AND schema = 'main' ORDER BY name`).all()
  const names = ['calls', 'key_uses', 'refusals_hourly', 'requests', 'usage_daily', 'usage_hourly']
  expect(flat).toEqual(names.map((name) => ({ name })))
})

test('a catalogue of the first release keeps its models listed, and its routes as able as they are', async () => {
  migrate(database, folder.path, NOW, MIGRATIONS.slice(0, 1))
  database.run(`INSERT INTO upstreams VALUES ('u', 'demo', NULL, NULL, NULL, 1, 1, '{}', '{}', 'file', 0, 0)`)
  database.run(
    `INSERT INTO models VALUES ('v/m', 'M', 'v', 9, 5, '[]', '[]', '["tools"]', '[]', NULL, 1, 'file', 0, 0)`,
  )
  database.run(`INSERT INTO routes VALUES ('v/m', 'u', 'm', 0, 1, NULL, NULL, 1, 'file')`)
  migrate(database, folder.path, NOW)
  const model = toSnapshot(await createConfigStore(database).read(), {}).models.get('v/m')
  expect(model).toMatchObject({
    listed: true,
    targets: [{ contextLength: 9, maxOutputLength: 5, features: ['tools'] }],
  })
})

test('what a wildcard stands for, which no list showed, is listed from then on, and known as such', async () => {
  migrate(
    database,
    folder.path,
    NOW,
    MIGRATIONS.slice(
      0,
      MIGRATIONS.findIndex(({ name }) => name.endsWith('listed_aliases')),
    ),
  )
  for (const [slug, listed] of [
    ['v/written', 1],
    ['v/expanded', 0],
  ] as const)
    database.run(
      `INSERT INTO models (slug, name, owned_by, context_length, max_output_length, input_modalities, output_modalities,
       supported_features, pricing, listed, origin, created_ms, updated_ms)
       VALUES (?, 'M', 'v', 9, 5, '[]', '[]', '[]', '[]', ?, 'file', 0, 0)`,
      [slug, listed],
    )
  database.run(`INSERT INTO aliases VALUES ('fast', 'v/written', 'file')`)
  migrate(database, folder.path, NOW)
  const { models, aliases } = await createConfigStore(database).readCatalog()
  expect(models.map(({ slug, listed, fromWildcard }) => [slug, listed, fromWildcard])).toEqual([
    ['v/written', true, false],
    ['v/expanded', true, true],
  ])
  expect(aliases).toEqual([{ alias: 'fast', model: 'v/written', listed: true, origin: 'file' }])
})

test('credentials of before upstreams could have several are still those of their upstreams', async () => {
  const at = MIGRATIONS.findIndex(({ name }) => name.endsWith('several_credentials'))
  migrate(database, folder.path, NOW, MIGRATIONS.slice(0, at))
  for (const [id, ref, sealed] of [
    ['named', `\${KEY}`, null],
    ['typed', null, '1.x'],
    ['cleared', null, ''],
    ['none', null, null],
  ])
    database.run(
      `INSERT INTO upstreams (id, dialect, base_url, api_key_ref, api_key_sealed, deadlines, options, origin, created_ms, updated_ms)
       VALUES (?, 'openai', 'http://h', ?, ?, '{}', '{}', 'admin', 0, 0)`,
      [id ?? '', ref ?? null, sealed ?? null],
    )
  migrate(database, folder.path, NOW)
  const store = createConfigStore(database)
  const { upstreams } = await store.readCatalog()
  expect(upstreams.map(({ id, apiKeyRef }) => [id, apiKeyRef])).toEqual([
    ['named', `\${KEY}`],
    ['typed', null],
    ['cleared', null],
    ['none', null],
  ])
  expect((await store.readSealed()).map(({ id, number, sealed }) => [id, number, sealed])).toEqual([
    ['cleared', 1, ''],
    ['typed', 1, '1.x'],
  ])
})

test('each call of a request that took several has a row from then on, and a kill charges what it charged', () => {
  const before = MIGRATIONS.findIndex(({ name }) => name === '0027_a_row_for_each_call')
  migrate(database, folder.path, NOW, MIGRATIONS.slice(0, before))
  const insert = (table: string, row: Record<string, string | number | null>) =>
    database
      .query(
        `INSERT INTO ${table} (${Object.keys(row).join(', ')}) VALUES (${Object.keys(row)
          .map(() => '?')
          .join(', ')})`,
      )
      .run(...Object.values(row))
  const shared = { instance: 'gone', upstream_model: 'm', created_ms: HOUR }
  const request = { ...shared, key_id: 'k', model: 'acme/large', upstream: 'spare', reserved_nano_usd: 9_000 }
  const said = {
    upstream: 'paid',
    upstream_model: 'm',
    lane: 'translated',
    price_id: null,
    status: 'failed',
    http_status: 500,
  }
  insert('requests', {
    ...{
      ...request,
      id: 'settled',
      status: 'ok',
      http_status: 200,
      prompt_tokens: 12,
      cost_nano_usd: 700,
      attempts: 2,
    },
    first_call: JSON.stringify({ ...said, error_code: 'status', estimated: 1 }),
  })
  const second = { ...shared, number: 2, reason: 'fallback', upstream: 'spare', reserved_nano_usd: 8_000 }
  insert('calls', { ...second, request_id: 'settled', status: 'ok', prompt_tokens: 10, cost_nano_usd: 500 })
  insert('requests', { ...request, id: 'alone', status: 'ok', cost_nano_usd: 3 })
  insert('requests', { ...request, id: 'killed', upstream: 'paid', status: 'open' })
  insert('calls', {
    ...{ ...second, request_id: 'killed', status: 'open' },
    ended_before: '[{"number":1,"status":"ok","prompt_tokens":4,"cost_nano_usd":40}]',
  })
  insert('calls', {
    ...{ ...second, request_id: 'killed', number: 3, status: 'open', reserved_nano_usd: 100 },
    ended_before: '[{"number":2,"status":"failed"}]',
  })
  migrate(database, folder.path, NOW)
  const ofFirst = { number: 1, reason: 'first', upstream: 'paid', reserved_nano_usd: 9_000 }
  const ofSettled = [
    {
      ...ofFirst,
      status: 'failed',
      http_status: 500,
      error_code: 'status',
      estimated: 1,
      prompt_tokens: 2,
      cost_nano_usd: 200,
    },
    { number: 2, status: 'ok', cost_nano_usd: 500 },
  ]
  const ended = [
    { ...ofFirst, status: 'ok', prompt_tokens: 4, cost_nano_usd: 40 },
    { number: 2, status: 'failed', cost_nano_usd: 0, reserved_nano_usd: 8_000 },
  ]
  expect(contentsOf(database).calls).toMatchObject([...ended, { number: 3, status: 'open' }, ...ofSettled])
  abandonOthers(database, 'here')
  expect(contentsOf(database).calls).toMatchObject([
    ...ended,
    { number: 3, status: 'abandoned', cost_nano_usd: 100 },
    ...ofSettled,
  ])
  expect(contentsOf(database).requests).toMatchObject([
    { id: 'alone' },
    { id: 'killed', status: 'abandoned', upstream: 'spare', attempts: 3, cost_nano_usd: 140 },
    { id: 'settled', attempts: 2, cost_nano_usd: 700 },
  ])
})

test('a catalog of rows becomes layers: it says the same at the same prices, and its history comes back', async () => {
  const at = MIGRATIONS.findIndex(({ name }) => name.endsWith('catalog_layers'))
  migrate(database, folder.path, NOW, MIGRATIONS.slice(0, at))
  const times = { createdMs: 5, updatedMs: 6 }
  const upstream = (id: string, origin: string, more: object = {}) => ({
    ...{ id, dialect: 'openai', baseUrl: 'http://h/v1', apiKeyRef: null, local: false, enabled: true },
    ...{ deadlines: { idle: 5 }, options: { rpm: 3 }, origin, ...times, ...more },
  })
  const managed = { baseUrl: null, enabled: false, options: { process: 'sha256:0', concurrency: 2 } }
  const upstreams = [
    upstream('a', 'file', { apiKeyRef: `\${KEY}` }),
    upstream('b', 'admin', { apiKeyRef: [`\${B}`, `\${A}`] }),
    upstream('c', 'admin', managed),
  ]
  const pricing = [{ prompt: '0.0000001', completion: '2' }]
  const model = (slug: string, origin: string, more: object = {}) => ({
    ...{ slug, name: slug, ownedBy: 'v', contextLength: 9, maxOutputLength: 5, inputModalities: ['text'] },
    ...{ outputModalities: ['text'], supportedFeatures: ['tools'], pricing, priceId: `p ${slug}`, enabled: true },
    ...{ listed: true, fromWildcard: false, fromList: ['pricing'], origin, ...times, ...more },
  })
  const models = [model('v/m', 'file'), model('v/edited', 'admin', { listed: false }), model('v/found', 'discovered')]
  const route = (model: string, upstream: string, origin: string, more: object = {}) => ({
    ...{ model, upstream, upstreamModel: 'a b', priority: 0, weight: 1, pricing: null, priceId: null },
    ...{ contextLength: null, maxOutputLength: null, supportedFeatures: null, options: { sampling: false } },
    ...{ fromList: [], enabled: true, origin, ...more },
  })
  const own = { pricing, priceId: 'own', contextLength: 8, supportedFeatures: [] }
  const routes = [route('v/m', 'a', 'file'), route('v/edited', 'a', 'admin', own), route('v/found', 'b', 'discovered')]
  const aliases = [{ alias: 'fast', model: 'v/m', listed: false, origin: 'file' }]
  const write = (table: string, rows: readonly object[]) => {
    for (const row of rows) {
      const named = Object.entries(row).filter(([name]) => name !== 'apiKeyRef')
      const names = named.map(([name]) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`))
      const values = named.map(([, value]) => (typeof value === 'object' && value ? JSON.stringify(value) : value))
      database.run(`INSERT INTO ${table} (${names.join()}) VALUES (${names.map(() => '?').join()})`, values)
    }
  }
  write('upstreams', upstreams)
  write('models', models)
  write('routes', routes)
  write('aliases', aliases)
  for (const [id, refs] of [
    ['a', [`\${KEY}`]],
    ['b', [`\${B}`, `\${A}`]],
  ] as const)
    for (const [index, ref] of refs.entries())
      database.run('INSERT INTO upstream_credentials VALUES (?, ?, ?, NULL)', [id, index + 1, ref])
  database.run("INSERT INTO upstream_credentials VALUES ('c', 1, NULL, '1.x')")
  const before = { upstreams: upstreams.slice(0, 1), models: models.slice(0, 1), routes: routes.slice(0, 1), aliases }
  database.run("INSERT INTO catalog_versions VALUES (1, 1, 'cli', 'catalog.apply', 'c.yaml', 4, 0, 0, 0, ?)", [
    Bun.zstdCompressSync(JSON.stringify(before)),
  ])

  migrate(database, folder.path, NOW)
  const store = createConfigStore(database)
  const rows: unknown = await store.readCatalog()
  expect(rows).toEqual({ upstreams, models, routes, aliases })
  expect((await store.readSealed()).map(({ id, sealed }) => [id, sealed])).toEqual([['c', '1.x']])
  const back = await revertCatalog(store, 1, { actor: 'cli', nowMs: NOW })
  expect(back).toMatchObject({ deleted: 6, version: 3 })
  const reverted: unknown = await store.readCatalog()
  expect(reverted).toEqual(before)
  await revertCatalog(store, 2, { actor: 'cli', nowMs: 6 })
  const again: unknown = await store.readCatalog()
  expect(again).toEqual({ upstreams, models, routes, aliases })
})

test('settings and upstreams have the names of today, in the history of the catalog, too', async () => {
  const at = MIGRATIONS.findIndex(({ name }) => name.endsWith('public_names'))
  migrate(database, folder.path, NOW, MIGRATIONS.slice(0, at))
  const entry = (options: object) => ({
    ...{ id: 'a', dialect: 'openai', baseUrl: 'http://h/v1', apiKeyRef: null, local: false, enabled: true },
    ...{ deadlines: {}, options, origin: 'file', createdMs: 5, updatedMs: 6 },
  })
  const old = entry({ rpm: 3, leave: '5s', native: ['responses'] })
  const now = entry({ rpm: 3, disconnect_grace: '5s', passthrough: ['responses'] })
  const layers = { upstreams: [old], models: [], routes: [], aliases: [] }
  database.run("INSERT INTO catalog_entries VALUES ('upstreams', 'a', 'file', ?)", [JSON.stringify(old)])
  database.run("INSERT INTO catalog_versions VALUES (1, 1, 'cli', 'catalog.apply', 'c.yaml', 1, 0, 0, ?)", [
    Bun.zstdCompressSync(JSON.stringify({ layers })),
  ])
  for (const [key, value] of Object.entries({ keep: '7d', leave: 'off', port: '4001' }))
    database.run('INSERT INTO settings VALUES (?, ?, 1)', [key, value])

  migrate(database, folder.path, NOW)
  const store = createConfigStore(database)
  const rows: unknown = (await store.readCatalog()).upstreams
  expect(rows).toEqual([now])
  const version: unknown = (await store.readVersion(1))?.layers.upstreams
  expect(version).toEqual([now])
  expect(await store.readSettings()).toMatchObject({ retention: '7d', 'disconnect-grace': 'off', port: '4001' })
  expect(await store.readSettings()).not.toHaveProperty('keep')
})

test('keys that have requests on record are known to have been used', () => {
  const at = MIGRATIONS.findIndex(({ name }) => name.endsWith('key_uses'))
  migrate(database, folder.path, NOW, MIGRATIONS.slice(0, at))
  const insert = database.query(
    `INSERT INTO requests (id, instance, key_id, model, upstream, upstream_model, created_ms, status)
     VALUES (?, 'i', ?, ?, 'u', 'm', ?, 'ok')`,
  )
  insert.run('1', 'k', 'v/old', 5)
  insert.run('2', 'k', 'v/new', 7)
  insert.run('3', 'k', 'v/old', 6)
  insert.run('4', 'l', 'v/old', 1)
  migrate(database, folder.path, NOW)
  expect(database.query('SELECT * FROM key_uses ORDER BY key_id').all()).toEqual([
    { key_id: 'k', last_used_ms: 7, last_model: 'v/new' },
    { key_id: 'l', last_used_ms: 1, last_model: 'v/old' },
  ])
})

test('what others have set on a member’s key, by the audit log, is a ceiling from then on', () => {
  const at = MIGRATIONS.findIndex(({ name }) => name.endsWith('ceilings'))
  migrate(database, folder.path, NOW, MIGRATIONS.slice(0, at))
  const key = database.query(
    `INSERT INTO keys (id, name, owner_id, budget_nano_usd, budget_period, metadata, created_ms) VALUES (?, ?, ?, 7, 'week', '{}', 1)`,
  )
  for (const [id, owner] of [...['held', 'half', 'own'].map((name) => [name, 'mia']), ['shared', null]])
    key.run(String(id), String(id), owner ?? null)
  const audit = database.query(`INSERT INTO audit VALUES (?, 1, ?, 'keys.edit', ?, ?)`)
  const say = (n: number, actor: string, id: string, after: object) =>
    audit.run(String(n), actor, id, JSON.stringify({ name: id, before: {}, after }))
  say(1, 'ed', 'held', { rpm: 5, tpm: 9, models: ['a/*'], scope: 'local', expires_ms: 77 })
  say(2, 'cli', 'held', { rpm: 6, tpm: null, budget_nano_usd: 20, budget_period: 'month', name: 'held' })
  say(3, 'mia', 'held', { rpm: null, models: [] })
  say(4, 'ed', 'half', { budget_nano_usd: 3 })
  say(5, 'mia', 'own', { rpm: 5 })
  say(6, 'ed', 'shared', { rpm: 5 })
  migrate(database, folder.path, NOW)
  const rows = database.query<{ id: string; ceilings: string }, []>('SELECT id, ceilings FROM keys').all()
  expect(Object.fromEntries(rows.map(({ id, ceilings }) => [id, JSON.parse(ceilings)]))).toEqual({
    held: { rpm: 6, models: ['a/*'], scope: 'local', expires_ms: 77, budget_nano_usd: 20, budget_period: 'month' },
    ...{ half: { budget_nano_usd: 3, budget_period: 'week' }, own: {}, shared: {} },
  })
})

const LATER = ['0021_how_calls_were_served', '0034_other_units']
const sqlOf = (migrations: readonly string[]) =>
  MIGRATIONS.flatMap(({ name, sql }) => (migrations.includes(name) ? sql : [])).join('\n')

test.each([
  ['by the day', 'DROP TABLE usage_daily', ['0015_usage_by_day', '0020_usage_within', ...LATER]],
  [
    'within models and teams',
    `DELETE FROM usage_daily WHERE dimension NOT IN ('key', 'team', 'model', 'upstream', 'endpoint')`,
    ['0020_usage_within', ...LATER],
  ],
])(
  'a ledger from before it was summed %s has the same sums as one that was from the first request on',
  (_, undo, names) => {
    migrate(database, folder.path, NOW)
    const fields = {
      teamId: 'team',
      model: 'other/x',
      upstream: 'spare',
      durationMs: 9_000,
      costNanoUsd: 2 ** 52,
      estimated: 1,
    }
    const records = [0, 1, 2, 3, 24, 25, 48].map((hours) => {
      const open = toOpen({ createdMs: HOUR + hours * 3_600_000, ...(hours % 2 ? fields : {}) })
      return settling(toSettled(open, hours % 3 ? fields : { firstTokenMs: null }))
    })
    createLedgerWriter(database).apply(records)
    const { days } = contentsOf(database)
    expect(days.length).toBeGreaterThan(40)
    database.run(undo)
    // Columns that came later were not there yet.
    for (const [, table, name] of sqlOf(LATER).matchAll(/ALTER TABLE `(\w+)` ADD `(\w+)`/g))
      if (table !== 'usage_daily' || !undo.startsWith('DROP')) database.run(`ALTER TABLE ${table} DROP COLUMN ${name}`)
    for (const name of names) database.query('DELETE FROM migrations WHERE name = ?').run(name)
    expect(readSchemaState(database).missing.map(({ name }) => name)).toEqual(names)
    migrate(database, folder.path, NOW)
    expect(contentsOf(database).days).toEqual(days)
  },
)

describe('an existing database', () => {
  beforeEach(() => {
    migrate(database, folder.path, NOW)
    database.run(`INSERT INTO keys (id, name, metadata, created_ms) VALUES ('k', 'kept', '{}', 0)`)
    database.run(`INSERT INTO key_models VALUES ('k', 'openai/*')`)
  })

  test('is copied to backups/ before it is changed, and keeps its rows', () => {
    migrate(database, folder.path, NOW, next('ALTER TABLE keys ADD COLUMN note text'))
    expect(database.query('SELECT name, note FROM keys').all()).toEqual([{ name: 'kept', note: null }])
    const [file = ''] = backups()
    expect(backups()).toEqual(['before-migration-2026-11-21T12-00-00-000Z.sqlite'])
    const copy = new Database(join(folder.path, 'backups', file), { readonly: true })
    expect(readSchemaState(copy).applied).toEqual(MIGRATIONS.map(({ name }) => name))
    expect(copy.query('SELECT name FROM keys').all()).toEqual([{ name: 'kept' }])
    copy.close()
  })

  test('has one copy of the last change, and nothing that failed and killed ones have left', () => {
    const { pid } = Bun.spawnSync(['true'])
    const copies = join(folder.path, 'backups')
    mkdirSync(copies)
    // Versions before this one wrote under the final name, and the first page last.
    const cut = 'before-migration-2026-11-20T12-00-00-000Z.sqlite'
    for (const name of [cut, `${cut}-journal`]) writeFileSync(join(copies, name), Buffer.alloc(4_096))
    writeFileSync(join(copies, `before-migration-2026-11-20T13-00-00-000Z.sqlite.${pid}.part`), 'half')
    writeFileSync(join(copies, 'mine.sqlite'), 'whatever')
    for (let hour = 0; hour < 4; hour++)
      expect(() => migrate(database, folder.path, NOW + hour * HOUR_MS, next('DROP TABLE no_such'))).toThrow()
    const toName = (hour: number) => `before-migration-2026-11-21T${hour}-00-00-000Z.sqlite`
    expect(backups().sort()).toEqual([toName(15), 'mine.sqlite'])
    const first = next('CREATE TABLE next (a)')
    const second = (sql: string) => [...first, { name: '9999_second', sql }]
    migrate(database, folder.path, NOW + 3 * HOUR_MS, first)
    expect(() => migrate(database, folder.path, NOW + 4 * HOUR_MS, second('DROP TABLE no_such'))).toThrow()
    // That of the last change stays until the next one has succeeded.
    expect(backups().sort()).toEqual([toName(15), toName(16), 'mine.sqlite'])
    migrate(database, folder.path, NOW + 4 * HOUR_MS, second('DROP TABLE next'))
    expect(backups().sort()).toEqual([toName(16), 'mine.sqlite'])
  })

  test('is not changed while backups/ links to a missing folder', () => {
    migrate(database, folder.path, NOW)
    symlinkSync(join(folder.path, 'unmounted'), join(folder.path, 'backups'))
    expect(() => migrate(database, folder.path, NOW, next('DROP TABLE keys'))).toThrow('links to a missing folder')
    expect(readSchemaState(database).missing).toEqual([])
  })

  test.skipIf(whyNoSmallDisk() !== null)(
    'is not changed where its disk has no room for the copy, which says how much is missing',
    () => {
      const disk = mountSmallDisk(join(folder.path, 'disk'), 8)
      if (typeof disk === 'string') throw new Error(disk)
      try {
        const small = openDatabase(join(disk.folder, 'tollgate.db'), { busyMs: 0 })
        migrate(small, disk.folder, NOW)
        expect(() => migrate(small, disk.folder, NOW, next('ALTER TABLE keys ADD COLUMN note text'))).toThrow(
          /Can't back up the database before migrating it: not enough disk space: \d+ MiB needed, \d+ MiB free, \d+ MiB missing\. Nothing was changed\./,
        )
        expect(readSchemaState(small).missing).toEqual([])
        expect(readdirSync(join(disk.folder, 'backups'))).toEqual([])
        small.close()
      } finally {
        disk.unmount()
      }
    },
  )

  test('keeps the children of a table that is rebuilt', () => {
    const rebuild = [
      'CREATE TABLE __new_keys (id text PRIMARY KEY NOT NULL, name text NOT NULL)',
      'INSERT INTO __new_keys SELECT id, name FROM keys',
      'DROP TABLE keys',
      'ALTER TABLE __new_keys RENAME TO keys',
    ].join('--> statement-breakpoint\n')
    migrate(database, folder.path, NOW, next(rebuild))
    expect(database.query('SELECT * FROM key_models').all()).toEqual([{ key_id: 'k', pattern: 'openai/*' }])
  })

  const failing: [string, string, RegExp][] = [
    [
      'a statement that fails',
      'ALTER TABLE keys ADD COLUMN note text;--> statement-breakpoint\nDROP TABLE no_such',
      /no such table/,
    ],
    [
      'references that it would break',
      'ALTER TABLE keys ADD COLUMN note text;--> statement-breakpoint\nDELETE FROM keys',
      /would break references of table key_models/,
    ],
  ]
  for (const [name, sql, sentence] of failing) {
    test(`is left as it was by a migration with ${name}`, () => {
      const before = schemaOf(database)
      expect(() => migrate(database, folder.path, NOW, next(sql))).toThrow(sentence)
      expect(schemaOf(database)).toEqual(before)
      expect(database.query('SELECT name FROM keys').all()).toEqual([{ name: 'kept' }])
      expect(database.query('PRAGMA foreign_keys').get()).toEqual({ foreign_keys: 1 })
      expect(backups()).toHaveLength(1)
    })
  }

  test('gets a migration that was merged late, under an older name than its last', () => {
    migrate(database, folder.path, NOW, [{ name: '0000_earlier', sql: 'CREATE TABLE late (a)' }, ...MIGRATIONS])
    expect(database.query('SELECT COUNT(*) AS n FROM late').get()).toEqual({ n: 0 })
  })

  test('of a newer Tollgate is refused, by the server and by commands', () => {
    migrate(database, folder.path, NOW, next('CREATE TABLE future (a)'))
    for (const use of [() => migrate(database, folder.path, NOW), () => requireCurrentSchema(database)]) {
      expect(use).toThrow(/used by a newer Tollgate \(unknown migrations: 9999_next\)/)
    }
  })
})

test('a command refuses a database that the server has not brought up to date', () => {
  expect(() => requireCurrentSchema(database)).toThrow('is empty')
  migrate(database, folder.path, NOW, MIGRATIONS.slice(0, 1))
  expect(() => requireCurrentSchema(database)).toThrow('This database is from an older Tollgate.')
})
