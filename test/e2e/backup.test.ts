/** A running server's own backups, made by the built binary: as a process beside it. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createWorkplace, runBinary, type Workplace } from '../support/binary.ts'
import { HELLO } from '../support/gateway.ts'

let place: Workplace
beforeEach(() => {
  place = createWorkplace()
})
afterEach(() => place.close())

test('a server that is to make backups makes one, which has what it answered and restores elsewhere', async () => {
  const server = await place.serve(['--first-key', '--probe', 'off', '--backup', '24h', '--log-level', 'info'])
  const response = await fetch(`${server.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...HELLO, model: 'tollgate/demo' }),
  })
  expect(response.status).toBe(200)
  await server.logged('"event":"backup_made"')
  const folder = join(place.folder, 'data/backups')
  const [made = '', ...others] = readdirSync(folder)
  expect(others).toEqual([])
  expect(made).toMatch(/^scheduled-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.sqlite$/)
  expect((await place.run('doctor')).stdout).toMatch(/ok +backup +The newest is of /)
  expect((await place.run('restore', join(folder, made))).stderr).toContain('Another Tollgate is serving')

  const elsewhere = ['--data', join(place.folder, 'elsewhere'), '--json']
  const restored = await runBinary(['restore', join(folder, made), ...elsewhere])
  expect(JSON.parse(restored.stdout)).toMatchObject({ requests: 1, given_up: 0, findings: [] })
  expect(JSON.parse((await runBinary(['keys', 'list', ...elsewhere])).stdout)).toMatchObject({
    keys: [{ name: 'first key', status: 'active' }],
  })
})
