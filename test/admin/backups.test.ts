/** Backups over the admin API: created, listed, and downloaded by name, by owners. */
import { beforeEach, expect, test } from 'bun:test'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { forEachTest } from '../support/lifetime.ts'
import { until } from '../support/until.ts'
import { type Browser, createFixture } from './fixture.ts'

let owner: Browser
let folder: string
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  owner = await fixture.signIn('owner')
  folder = join(fixture.folder.path, 'backups')
})

const download = (name: string) =>
  fixture.admin.handle(
    new Request(`http://127.0.0.1/admin/api/backups/${name}`, {
      headers: { host: '127.0.0.1:4000', cookie: owner.cookie },
    }),
  )
const list = async () => (await owner.ask('GET', '/backups')).body
const made = async () => {
  await until('it is made', async () => (await list()).making === null)
  return list()
}

test('one is created while other requests wait, listed once it is complete, and downloaded whole, with audit rows', async () => {
  const let_go = Promise.withResolvers<void>()
  fixture.making.make = async (file) => {
    await let_go.promise
    writeFileSync(file, 'all of it')
    return null
  }
  const begun = await owner.ask('POST', '/backups')
  const name = begun.body.making
  expect([begun.status, name]).toEqual([202, expect.stringMatching(/^made-[\dTZ-]+\.sqlite$/)])
  expect(await list()).toEqual({ backups: [], making: name, failed: null })
  expect((await owner.ask('POST', '/backups')).body.error.kind).toBe('backup_under_way')
  let_go.resolve()
  const { backups } = await made()
  expect(backups).toEqual([{ name, kind: 'made', bytes: 9, made_ms: expect.any(Number) }])
  const answer = await download(name)
  expect(answer.headers.get('content-disposition')).toBe(`attachment; filename="${name}"`)
  expect([answer.headers.get('content-type'), answer.headers.get('cache-control'), await answer.text()]).toEqual([
    ...['application/vnd.sqlite3', 'no-store', 'all of it'],
  ])
  const rows = await fixture.store.readAudit({ action: 'backups' })
  expect(rows.map(({ action, subject }) => [action, subject])).toEqual([
    ['backups.download', name],
    ['backups.create', name],
  ])
})

test('the reason for a failed backup is shown until one succeeds', async () => {
  fixture.making.make = async () => 'the disk is too full'
  await owner.ask('POST', '/backups')
  expect(await made()).toEqual({ backups: [], making: null, failed: 'the disk is too full' })
  fixture.making.make = (file) => Bun.write(file, '').then(() => null)
  await owner.ask('POST', '/backups')
  expect((await made()).failed).toBeNull()
})

test('backups by schedule, migrations, and users are listed; parts, folders, and links are not', async () => {
  mkdirSync(join(folder, 'replaced-1.sqlite'), { recursive: true })
  const names = ['scheduled-2027-01-31T12-00-00Z.sqlite', 'before-migration-1.sqlite', 'mine.sqlite']
  for (const name of [...names, 'x.sqlite.7.part', 'notes.txt']) writeFileSync(join(folder, name), '')
  symlinkSync(join(fixture.folder.path, 'tollgate.db'), join(folder, 'link.sqlite'))
  const { backups } = await list()
  const kinds = Object.fromEntries(backups.map(({ name, kind }: { name: string; kind: string }) => [name, kind]))
  expect(kinds).toEqual({ [names[0] ?? '']: 'scheduled', [names[1] ?? '']: 'before_migration', 'mine.sqlite': 'other' })
})

test.each([
  'tollgate.db',
  '..%2Ftollgate.db',
  '..%2Fbackups%2Fmine.sqlite',
  '.%2Fmine.sqlite',
  '%2Fetc%2Fpasswd',
  'mine.sqlite%00',
  'link.sqlite',
  'replaced-1.sqlite',
  'notes.txt',
  'MINE.sqlite',
])('%s is not given out', async (name) => {
  mkdirSync(join(folder, 'replaced-1.sqlite'), { recursive: true })
  for (const file of ['mine.sqlite', 'notes.txt']) writeFileSync(join(folder, file), 'mine')
  writeFileSync(join(fixture.folder.path, 'secret'), 'secret')
  symlinkSync(join(fixture.folder.path, 'secret'), join(folder, 'link.sqlite'))
  const answer = await download(name)
  const { error } = (await answer.json()) as { error: { kind: string } }
  expect([answer.status, error.kind]).toEqual([404, 'backup_not_found'])
  expect((await download('mine.sqlite')).status).toBe(200)
})

test('editors neither see nor create them', async () => {
  const editor = await fixture.signIn('editor')
  for (const [method, path] of [
    ['GET', '/backups'],
    ['POST', '/backups'],
    ['GET', '/backups/mine.sqlite'],
  ] as const)
    expect((await editor.ask(method, path)).body.error.kind).toBe('role_too_small')
})
