/** Backups while the built binary serves: scheduled ones, and replication that reads its database. */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createWorkplace, type RunningBinary, runBinary } from '../support/binary.ts'
import { HELLO } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

const place = forEachTest(createWorkplace)

const chat = ({ baseUrl, key }: RunningBinary) =>
  fetch(`${baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...HELLO, model: 'tollgate/demo' }),
  })

test('a server with a backup schedule makes a backup, which has its responses and restores elsewhere', async () => {
  const server = await place.serve(['--first-key', '--probe', 'off', '--backup-every', '24h', '--log-level', 'info'])
  expect((await chat(server)).status).toBe(200)
  await server.logged('"event":"backup_created"')
  const folder = join(place.folder, 'data/backups')
  const [made = '', ...others] = readdirSync(folder)
  expect(others).toEqual([])
  expect(made).toMatch(/^scheduled-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.sqlite$/)
  expect((await place.run('doctor')).stdout).toMatch(/ok +backup +Newest: /)
  expect((await place.run('restore', join(folder, made))).stderr).toContain('Another Tollgate server is using')

  const elsewhere = ['--data', join(place.folder, 'elsewhere'), '--json']
  const restored = await runBinary(['restore', join(folder, made), ...elsewhere])
  expect(JSON.parse(restored.stdout)).toMatchObject({ requests: 1, given_up: 0, findings: [] })
  expect(JSON.parse((await runBinary(['keys', 'list', ...elsewhere])).stdout)).toMatchObject({
    keys: [{ name: 'first key', status: 'active' }],
  })
})

test("the journal is deleted even if another process always reads the database's log, as replication does", async () => {
  const server = await place.serve(['--first-key', '--probe', 'off'])
  using reader = new Database(join(place.folder, 'data/tollgate.db'), { readonly: true })
  reader.run('BEGIN')
  reader.query('SELECT COUNT(*) FROM requests').get()
  const segments = () => readdirSync(join(place.folder, 'data/journal')).map((name) => name.split('-')[1])
  await until('a segment that was given up', async () => {
    await Promise.all(Array.from({ length: 50 }, () => chat(server).then((response) => response.text())))
    return !segments().includes('1.log')
  })
  expect(segments()).toContain('2.log')
  expect(JSON.parse((await place.run('ledger', 'verify', '--json')).stdout)).toMatchObject({ ok: true })
})
