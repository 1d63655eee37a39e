/**
 * The binary whose data are removed, while it runs and while it doesn't: it never serves requests that it can't record,
 * never starts a new ledger over remains of one, and `audit` reports missing rows.
 */
import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, renameSync, rmSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { applyJournal, createWorkplace, type RunningBinary } from '../support/binary.ts'
import { HELLO } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'

const place = forEachTest(createWorkplace)

const data = (...names: string[]) => join(place.folder, 'data', ...names)

const chat = ({ baseUrl, key }: RunningBinary) =>
  fetch(`${baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...HELLO, model: 'tollgate/demo' }),
  })

const readiness = async ({ baseUrl }: RunningBinary) => {
  const response = await fetch(new URL('/readyz', baseUrl))
  return [response.status, await response.json()]
}

/** A server that has served one request. */
async function serve(): Promise<RunningBinary> {
  const server = await place.serve(['--first-key', '--probe', 'off'])
  expect((await chat(server)).status).toBe(200)
  return server
}

/** The folder of a server that was killed after one response. */
async function leave({ isApplied = false } = {}): Promise<void> {
  const server = await serve()
  if (isApplied) await applyJournal(data())
  server.signal('SIGKILL')
  await server.exited
}

const filesIn = (folder: string) => readdirSync(folder, { recursive: true }).map(String)

const audit = async () => JSON.parse((await place.run('ledger', 'verify', '--json')).stdout)

describe('while it serves', () => {
  test.each<[what: string, lose: () => void]>([
    ['folder deleted', () => rmSync(data(), { recursive: true })],
    ['folder moved', () => renameSync(data(), data('../moved'))],
    ['database deleted', () => unlinkSync(data('tollgate.db'))],
    ['database emptied', () => truncateSync(data('tollgate.db'))],
    ["database's log deleted", () => unlinkSync(data('tollgate.db-wal'))],
    ['journal deleted', () => rmSync(data('journal'), { recursive: true })],
  ])('its %s: it says so once, and takes nothing that it could not keep', async (_, lose) => {
    const server = await serve()
    lose()
    await server.logged('"event":"data_missing"')
    for (let each = 0; each < 2; each++) {
      const response = await chat(server)
      expect(response.status).toBe(503)
      expect(await response.json()).toMatchObject({ error: { code: 'ledger_unavailable' } })
    }
    expect(await readiness(server)).toEqual([503, { status: 'ledger_unavailable' }])
    server.signal('SIGTERM')
    expect(await server.exited).toBe(0)
    expect(server.stderr().match(/"level":"(error|warn)","event":"\w+"/g)).toEqual([
      '"level":"error","event":"data_missing"',
    ])
  })

  test('its folder is moved away and back: it continues as before', async () => {
    const server = await serve()
    renameSync(data(), data('../moved'))
    await server.logged('"event":"data_missing"')
    renameSync(data('../moved'), data())
    await server.logged('"event":"data_recovered"')
    expect((await chat(server)).status).toBe(200)
    expect(await readiness(server)).toEqual([200, { status: 'ok' }])
    await applyJournal(data())
    expect(await audit()).toMatchObject({ ok: true, requests: 2 })
  })
})

describe('at its start', () => {
  test.each<[what: string, isApplied: boolean, lose: () => void]>([
    ['empty beside its log', true, () => truncateSync(data('tollgate.db'))],
    [
      'missing beside its journal',
      false,
      () => ['', '-wal', '-shm'].map((end) => unlinkSync(data(`tollgate.db${end}`))),
    ],
    [
      'missing with all but the mark',
      false,
      () => readdirSync(data()).map((name) => name === 'ledger.mark' || rmSync(data(name), { recursive: true })),
    ],
  ])('a database that is %s is no new one: it says what is left, and changes nothing', async (_, isApplied, lose) => {
    await leave({ isApplied })
    lose()
    const before = filesIn(data())
    for (const command of [
      ['serve', '--port', '0'],
      ['keys', 'list'],
      ['ledger', 'verify'],
    ]) {
      const { code, stderr } = await place.run(...command)
      expect(code).toBe(1)
      expect(stderr).toContain(`${data('tollgate.db')} is `)
      expect(stderr).toContain('ledger.mark (counts 1 request):')
    }
    expect((await place.run('doctor')).stdout).toContain('the database was removed or emptied')
    expect(new Set(filesIn(data()))).toEqual(new Set([...before, 'serve.lock']))
  })

  test.each<[what: string, says: string, spoil: () => void]>([
    ['garbage', 'is not a database (', () => writeFileSync(data('tollgate.db'), 'x'.repeat(20_000))],
    ['a part of itself', 'is damaged (', () => truncateSync(data('tollgate.db'), 10_000)],
    ['without a table', 'is incomplete (no such table', () => change('DROP TABLE requests')],
    ["somebody else's", 'is not a Tollgate database', () => replaceByOther()],
  ])('a database that is %s is named by every command, with what to do', async (_, says, spoil) => {
    await leave()
    spoil()
    for (const command of [['serve', '--port', '0'], ['ledger', 'verify'], ['doctor']]) {
      const { code, stdout, stderr } = await place.run(...command)
      expect(code).toBe(1)
      expect(stdout + stderr).toContain(`${data('tollgate.db')} ${says}`)
      expect(stdout + stderr).toContain('restore a backup')
    }
  })
})

function change(statement: string): void {
  using database = new Database(data('tollgate.db'), { readwrite: true, create: true })
  database.run('PRAGMA foreign_keys = OFF')
  database.run(statement)
}

function replaceByOther(): void {
  for (const end of ['', '-wal', '-shm']) rmSync(data(`tollgate.db${end}`), { force: true })
  change('CREATE TABLE others (id)')
}

describe('missing rows', () => {
  test.each<[what: string, isApplied: boolean, lose: () => void]>([
    ['a deleted journal', false, () => rmSync(data('journal'), { recursive: true })],
    [
      'a deleted log and a deleted journal',
      true,
      () => ['journal', 'tollgate.db-wal'].map((name) => rmSync(data(name), { recursive: true })),
    ],
  ])('with %s are counted by audit, until they are accepted', async (_, isApplied, lose) => {
    await leave({ isApplied })
    lose()
    const gone = { ok: false, findings: [expect.objectContaining({ kind: 'missing', requests: 1 })] }
    expect(await audit()).toMatchObject(gone)
    for (const accepts of [false, true]) {
      if (accepts) unlinkSync(data('ledger.mark'))
      const server = await place.serve(['--probe', 'off'])
      server.signal('SIGTERM')
      await server.exited
      expect(existsSync(data('ledger.mark'))).toBe(true)
      expect(await audit()).toMatchObject(accepts ? { ok: true } : gone)
    }
  })

  test('are none after a kill, next to a server, or if only the log was deleted', async () => {
    await leave({ isApplied: true })
    unlinkSync(data('tollgate.db-wal'))
    const isGone = async () => JSON.stringify(await audit()).includes('"missing"')
    expect(await isGone()).toBe(false)
    const server = await serve()
    expect(await isGone()).toBe(false)
    expect(await audit()).toMatchObject({ ok: true, requests: 2 })
    server.signal('SIGKILL')
  })
})
