/**
 * An upgrade to this version and a rollback, with the built executable: it says what to do, and the ledger is complete
 * at each step.
 */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { MIGRATIONS, migrate, readSchemaState } from '../../src/store/sqlite/migrate.ts'
import { writeVersion } from '../../src/store/sqlite/migration-copies.ts'
import { BINARY, createWorkplace } from '../support/binary.ts'
import { forEachTest } from '../support/lifetime.ts'

const place = forEachTest(createWorkplace)

test('a rollback needs a stopped server, carries requests over, and can be undone by a start', async () => {
  const data = join(place.folder, 'data')
  const older = MIGRATIONS.slice(0, -1)
  mkdirSync(data, { mode: 0o700 })
  using database = new Database(join(data, 'tollgate.db'), { create: true, readwrite: true })
  migrate(database, null, Date.now(), older)
  writeVersion(database, '0.1.9')
  database.close()

  const server = await place.serve(['--first-key'])
  const asked = await fetch(`${server.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tollgate/demo', messages: [{ role: 'user', content: 'hi' }] }),
  })
  expect(asked.status).toBe(200)
  expect(await place.run('rollback')).toMatchObject({ code: 1, stderr: expect.stringContaining('Stop it first') })
  server.signal('SIGKILL')
  await server.exited

  // As `tollgate update` leaves the executables.
  const program = join(place.folder, 'tollgate')
  copyFileSync(BINARY, program)
  const previous = `${program}.previous`
  writeFileSync(previous, '#!/bin/sh\necho 0.1.9\n', { mode: 0o755 })
  const ran = Bun.spawn([program, 'rollback', '--data', data], { stdout: 'pipe', stderr: 'pipe' })
  const [stdout, stderr, code] = await Promise.all([ran.stdout.text(), ran.stderr.text(), ran.exited])
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toMatch(/^Restored the database from before the migration of .* UTC, without 00\d\d_\w+\.$/m)
  expect(stdout).toContain('Carried over 1 request since then, $0.00.\n')
  expect(stdout).toMatch(/keys\.create {2}first key {2}by /)
  expect(stdout).toContain(`Next: put 0.1.9 back (mv ${previous} ${program}), and start it.\n`)
  using restored = new Database(join(data, 'tollgate.db'), { readonly: true })
  expect(readSchemaState(restored).applied).toEqual(older.map(({ name }) => name))
  restored.close()

  await place.serve()
  expect(await place.run('ledger', 'verify')).toMatchObject({
    ...{ code: 0, stdout: expect.stringContaining('1 settled request,') },
  })
})
