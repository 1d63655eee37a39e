/** The operations on a catalog, from plan to revert. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createBench } from './run.ts'

const bench = forEachTest(createBench)

const FACTS =
  'owned_by: acme, context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text], supported_features: []'

const toText = (models: string, upstream = 'http://127.0.0.1:1/v1') => `version: 1
upstreams: { near: { dialect: openai, base_url: "${upstream}", local: true } }
models:
${models}`
const A = `  acme/a: { name: A, ${FACTS}, routes: [{ upstream: near, model: a }] }\n`
const B = `  acme/b: { name: B, ${FACTS}, routes: [{ upstream: near, model: b }] }\n`

const write = (text: string) => Bun.write(join(bench.folder, 'mine.yaml'), text)
const catalog = (command: string, ...argv: string[]) => bench.run('catalog', command, ...argv)
const json = async (command: string, ...argv: string[]) =>
  JSON.parse((await catalog(command, ...argv, '--json')).stdout)
const own = (sql: string) => {
  const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
  sqlite.run(sql)
  sqlite.close()
}

test('a plan names each row and field that differs, changes nothing, and fails a check', async () => {
  await write(toText(A + B))
  await catalog('apply', 'mine.yaml')
  own(
    `INSERT INTO catalog_entries VALUES ('upstreams', 'near', 'admin', '{"id":"near","origin":"admin","baseUrl":"http://127.0.0.1:2/v1"}')`,
  )
  await write(toText(A.replace('8192', '4096') + B.replaceAll('acme/b', 'acme/c')))

  const planned = await catalog('plan', 'mine.yaml', '--check')
  expect(planned).toMatchObject({ code: 1, stderr: expect.stringMatching(/^error: The database differs from /) })
  expect(planned.stdout).toBe(`~ models.acme/a (file)
    context_length: 8192 -> 4096
+ models.acme/c, 1 route
= upstreams.near (set manually, overrides file)
    base_url: http://127.0.0.1:2/v1 -> http://127.0.0.1:1/v1
= models.acme/b, 1 route (not in the file: kept; --prune deletes it)
${join(bench.folder, 'mine.yaml')}: 2 rows to create, 1 to update, 0 to delete, 4 unchanged; keeps 2 rows that aren't in the file; 1 row is overridden. Apply: tollgate catalog apply mine.yaml
`)
  expect(await json('plan', 'mine.yaml')).toMatchObject({
    differs: true,
    created: 2,
    overridden: { length: 1 },
    kept: { length: 2 },
  })

  expect((await catalog('plan', 'mine.yaml', '--prune', '--discard-edits')).stdout).toStartWith(
    'Deletes 2 rows:\n- models.acme/b, 1 route (file)\n',
  )
  expect(await json('apply', 'mine.yaml', '--prune', '--discard-edits')).toMatchObject({
    ...{ created: 2, updated: 2, deleted: 2, overridden: [], kept: [], version: 3 },
  })
  const clean = await catalog('plan', 'mine.yaml', '--check')
  expect([clean.code, clean.stdout]).toEqual([0, expect.stringContaining(': no changes.')])
})

test('a plan, an apply, and a list of versions fit 80 columns, and lose nothing', async () => {
  const folder = join(bench.folder, 'a-folder-whose-name-is-long/and-another-one-in-it')
  const file = join(folder, 'catalog.yaml')
  await Bun.write(file, toText(A))
  await catalog('apply', file)
  const name = 'a name that is of more words than any other model has in its name'
  const prices = 'pricing: [{ prompt: "0.00000015", completion: "0.0000006", input_cache_read: "0.000000075" }], '
  await Bun.write(file, toText(A.replace('name: A', `${prices}name: ${name}`)))
  const fields = `~ models.acme/a (file)
    name: A -> ${name}
    pricing:
      - [{"prompt": "0", "completion": "0", "input_cache_read": "0"}]
      + [{"prompt": "0.00000015", "completion": "0.0000006", "input_cache_read":
        "0.000000075"}]
`
  expect((await catalog('plan', file)).stdout).toStartWith(fields)
  await catalog('apply', file)
  const [shown, list, log] = [await catalog('history', '2'), await catalog('history'), await bench.run('audit', 'log')]
  const path = `          ${file}\n`
  expect(shown.stdout.split('\n').slice(1, 2)).toEqual([
    '2  2026-11-21 00:00  cli    apply   +0 ~1 -0  …nother-one-in-it/catalog.yaml',
  ])
  expect(shown.stdout).toEndWith(`${path}${fields}`)
  expect(log.stdout).toContain(path)
  for (const { stdout } of [shown, list, log])
    for (const line of stdout.replaceAll(path, '').split('\n')) expect(line.length).toBeLessThanOrEqual(80)
})

test("an apply says what it doesn't change, and how to override that", async () => {
  await write(toText(A + B))
  await catalog('apply', 'mine.yaml')
  own(
    `INSERT INTO catalog_entries VALUES ('models', 'acme/a', 'admin', '{"slug":"acme/a","origin":"admin","name":"By hand"}')`,
  )
  await write(toText(A))
  const { stdout, stderr } = await catalog('apply', 'mine.yaml')
  expect(stderr).toContain('note: overridden by manual changes: models.acme/a. Use --discard-edits')
  expect(stderr).toMatch(/^note: not in the file but kept: models.acme\/b, .* Use --prune to delete;/m)
  expect(stdout).toContain('no changes')
  expect((await catalog('plan', 'mine.yaml')).stdout).toEndWith(
    ": no changes; keeps 2 rows that aren't in the file; 1 row is overridden.\n",
  )
  expect((await catalog('plan', 'mine.yaml', '--prune')).stdout).toEndWith(
    ' tollgate catalog apply mine.yaml --prune\n',
  )
})

test('equal values from another source are no difference', async () => {
  await catalog('apply')
  await Bun.write(join(bench.folder, 'mine.yaml'), Bun.file(join(import.meta.dir, '../../catalog.yaml')))
  const planned = await catalog('plan', 'mine.yaml', '--check')
  expect([planned.code, planned.stdout]).toEqual([0, expect.stringContaining(': no changes.')])
})

test('the built-in catalog deletes nothing, and is not planned if a file was applied', async () => {
  expect(await catalog('apply', '--discard-edits')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('Pass its file'),
  })
  await write(toText(A))
  await catalog('apply', 'mine.yaml')
  expect(await catalog('plan')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('pass it with --catalog FILE'),
  })
})

test('history lists versions, shows one, and revert restores it', async () => {
  expect((await catalog('history')).stderr).toBe('No versions yet. Apply a catalog: tollgate catalog apply\n')
  await write(toText(A))
  await catalog('apply', 'mine.yaml')
  await write(toText(A.replace('name: A', 'name: Other')))
  await catalog('apply', 'mine.yaml')
  expect((await catalog('history')).stdout).toMatch(/^# .*\n1 +2026-11-21 00:00 +cli +apply +\+3 ~0 -0 .*\n2 /)
  expect((await catalog('history', '2')).stdout).toContain('    name: A -> Other\n')

  expect((await catalog('revert', '1', '--plan')).stdout).toContain('Version 1: ')
  expect(await json('history')).toMatchObject({ versions: { length: 2 } })
  const back = await catalog('revert', '1')
  expect(back.stdout).toContain('name: Other -> A')
  expect(back.stderr).toContain('catalog export FILE')
  expect(await json('history')).toMatchObject({
    versions: [{}, {}, { number: 3, action: 'catalog.revert', updated: 1 }],
  })
  expect(await json('revert', '1')).toMatchObject({ version: null, updated: 0 })
})

test('an unknown or invalid version says where to look', async () => {
  expect(await catalog('revert', '7')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('tollgate catalog history'),
  })
  expect(await catalog('revert', '-1')).toMatchObject({ code: 2 })
  expect(await catalog('history', 'x')).toMatchObject({ code: 2, stderr: expect.stringContaining('Invalid version') })
})

test('an export can be planned and applied, as YAML and as JSON, and overwrites no file unless forced', async () => {
  await write(toText(A + B))
  await catalog('apply', 'mine.yaml')
  expect(await catalog('export', 'mine.yaml')).toMatchObject({ code: 1, stderr: expect.stringContaining('--force') })
  const written = await catalog('export', 'out.yaml')
  expect(written).toMatchObject({
    code: 0,
    stderr: '',
    stdout: expect.stringContaining('1 upstream, 2 models, 0 aliases'),
  })
  await Bun.write(join(bench.folder, 'out.json'), (await catalog('export', '--json')).stdout)
  for (const file of ['out.yaml', 'out.json'])
    expect((await catalog('plan', file, '--prune', '--check')).stdout).toContain(': no changes.')
  expect((await catalog('export')).stdout).toBe(await Bun.file(join(bench.folder, 'out.yaml')).text())
  expect(await catalog('export', 'out.yaml', '--force')).toMatchObject({ code: 0 })
  expect(await catalog('export', 'nowhere/out.yaml')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('ENOENT'),
  })
})

test('an export warns of values that it could not write', async () => {
  await write(toText(A))
  await catalog('apply', 'mine.yaml')
  own("INSERT INTO upstream_credentials VALUES ('near', 1, 'abc')")
  own(
    `INSERT INTO catalog_entries VALUES ('aliases', 'gone', 'admin', '{"alias":"gone","model":"acme/gone","listed":true,"origin":"admin"}')`,
  )
  const { stdout, stderr } = await catalog('export')
  expect(stderr).toContain("warning: aliases.gone was omitted: unknown model 'acme/gone' in this file.")
  expect(stderr).toContain('warning: upstreams.near: its stored credential was not exported')
  expect(stdout).toContain('# Left out: aliases.gone')
})
