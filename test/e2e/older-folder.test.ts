/** A data folder of the version before the journal, with rows, a rollup, and a spool: it starts without losing any. */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { mintId } from '../../src/domain/id.ts'
import { MIGRATIONS, migrate } from '../../src/store/sqlite/migrate.ts'
import { createWorkplace } from '../support/binary.ts'
import { forEachTest } from '../support/lifetime.ts'

const HOUR_MS = 3_600_000
/** Yesterday, on the hour. */
const THEN = Math.floor((Date.now() - 86_400_000) / HOUR_MS) * HOUR_MS

const place = forEachTest(createWorkplace)

/** A row of that version, by the columns of the database. */
const toRow = (key: string, fields: Record<string, string | number | null> = {}) => ({
  id: mintId(THEN + 1_000),
  instance: 'old',
  key_id: key,
  model: 'acme/large',
  upstream: 'paid',
  upstream_model: 'large-v1',
  stream: 0,
  created_ms: THEN + 1_000,
  reserved_prompt_tokens: 20,
  reserved_completion_tokens: 100,
  reserved_nano_usd: 9_000,
  price_id: 'price-1',
  user: null,
  ...fields,
})

const OUTCOME = {
  status: 'ok',
  http_status: 200,
  error_code: null,
  duration_ms: 120,
  first_token_ms: 30,
  prompt_tokens: 11,
  cached_tokens: 3,
  cache_write_tokens: 0,
  completion_tokens: 7,
  reasoning_tokens: 2,
  estimated: 0,
  cost_nano_usd: 500,
  upstream_request_id: null,
  attempts: 1,
}

const toCamel = (row: object) =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase()), value]),
  )

/** A line of a spool, as written by that version. */
function toLine(kind: string, row: object): string {
  const json = JSON.stringify({ kind, row: toCamel(row) })
  return `${Buffer.byteLength(json)} ${Bun.hash.crc32(json).toString(16)} ${json}\n`
}

function insert(database: Database, table: string, row: Record<string, string | number | null>): void {
  const names = Object.keys(row)
  const marks = names.map(() => '?').join(', ')
  database.query(`INSERT INTO ${table} (${names.join(', ')}) VALUES (${marks})`).run(...Object.values(row))
}

test('starts, with its spool applied, its ledger intact, and each charge with the team of its key', async () => {
  const data = join(place.folder, 'data')
  mkdirSync(join(data, 'spool'), { recursive: true, mode: 0o700 })
  const old = new Database(join(data, 'tollgate.db'), { create: true, readwrite: true })
  old.run('PRAGMA journal_mode = WAL')
  migrate(old, data, THEN, MIGRATIONS.slice(0, 2))
  insert(old, 'teams', { id: 'team', name: 'Blue', budget_nano_usd: 10_000_000, metadata: '{}', created_ms: 0 })
  old.run(`UPDATE teams SET budget_period = 'total'`)
  for (const [id, team_id] of [
    ['in-team', 'team'],
    ['alone', null],
  ] as const) {
    insert(old, 'keys', { id, name: id, team_id, metadata: '{}', created_ms: 0 })
  }
  insert(old, 'settings', { key: 'ledger_from', value: String(THEN), updated_ms: 0 })
  insert(old, 'settings', { key: 'instance', value: 'old', updated_ms: 0 })
  const settled = ['in-team', 'alone'].map((key) => ({ ...toRow(key), ...OUTCOME }))
  for (const row of settled) {
    insert(old, 'requests', row)
    const { prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, cost_nano_usd } = OUTCOME
    insert(old, 'usage_hourly', {
      ...{ hour_ms: THEN, key_id: row.key_id, model: row.model, upstream: row.upstream, requests: 1 },
      ...{ prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, cost_nano_usd },
      ...{ first_token_histogram: '{"9":1}', duration_histogram: '{"13":1}' },
    })
  }
  // One that was in progress when its server died, one whose outcome is only in the spool, one that is complete.
  const [lost, ended, spooled] = ['in-team', 'in-team', 'alone'].map((key) => toRow(key))
  if (!lost || !ended || !spooled) throw new Error('three rows')
  for (const row of [lost, ended]) insert(old, 'requests', { ...row, status: 'open' })
  old.close()
  const lines = [toLine('settle', { ...ended, ...OUTCOME }), toLine('open', spooled), 'torn']
  writeFileSync(join(data, 'spool', 'old-1.log'), lines.join('') + '\0'.repeat(4_096))
  writeFileSync(join(data, 'spool', 'old-2.log'), toLine('settle', { ...spooled, ...OUTCOME }))

  const command = await place.run('ledger', 'verify')
  expect(command.stderr).toContain('Start this version of the server once')

  const server = await place.serve(['--first-key'])
  expect(readdirSync(join(data, 'spool'))).toEqual([])
  expect(readdirSync(join(data, 'backups'))).toHaveLength(1)
  expect(await place.run('ledger', 'verify')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^The ledger is consistent: .* 5 settled requests, \$0.000011\.\n$/),
  })
  const { teams } = JSON.parse((await place.run('teams', 'list', '--json')).stdout)
  expect(teams).toMatchObject([{ id: 'team', spent_nano_usd: 500 + 9_000 + 500 }])
  server.signal('SIGTERM')
  expect(await server.exited).toBe(0)
  const database = new Database(join(data, 'tollgate.db'), { readonly: true })
  const rows = database.query('SELECT id, team_id, endpoint, lane, status, cost_nano_usd FROM requests').all()
  database.close()
  const kept = (row: { id: string; key_id: string }, status = 'ok', cost_nano_usd = 500) => ({
    ...{ id: row.id, team_id: row.key_id === 'in-team' ? 'team' : null },
    ...{ endpoint: 'chat', lane: 'translated', status, cost_nano_usd },
  })
  const expected = [...settled.map((row) => kept(row)), kept(lost, 'abandoned', 9_000), kept(ended), kept(spooled)]
  expect(rows.sort(byId)).toEqual(expected.sort(byId))
})

test('old names of flags, variables, and catalog keys work, and the server reports the new ones', async () => {
  const catalog = await place.write(
    'catalog.yaml',
    `version: 1
upstreams:
  demo: { dialect: demo }
  old: { dialect: openai, base_url: "https://a.example/v1", native: false, leave: 5s }
models:
  acme/demo:
    { name: Demo, context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text], supported_features: [], pricing: [{ prompt: "0", completion: "0" }], routes: [{ upstream: demo, model: x }] }
`,
  )
  const environment = { TOLLGATE_KEEP: '80d' }
  const server = await place.serve(['--catalog', catalog, '--leave', '7s'], { environment })
  await server.logged('upstreams.old.leave: renamed to disconnect_grace.')
  expect(server.stderr()).toContain('"event":"catalog_deprecated"')
  expect(server.stderr()).toContain('note: --leave is now --disconnect-grace.')
  expect(server.stderr()).toContain('note: TOLLGATE_KEEP is now TOLLGATE_RETENTION.')
  expect((await place.run('catalog', 'export')).stdout).toContain('disconnect_grace: 5s')
})

const byId = (a: unknown, b: unknown) => JSON.stringify(a).localeCompare(JSON.stringify(b))
