/** Users and tokens, changed by commands from the definition of their fields. */
import { expect, test } from 'bun:test'
import { forEachTest } from '../support/lifetime.ts'
import { createBench } from './run.ts'

const bench = forEachTest(() => createBench())

test('named fields are changed, and opposite options exclude each other', async () => {
  await bench.run('admin', 'create', 'bob')
  const edit = async (...flags: string[]) => (await bench.run('admin', 'edit', 'bob', ...flags)).stdout
  expect(await edit('--disable')).toEndWith(': viewer, disabled.\n')
  expect(await edit('--enable', '--role', 'editor')).toEndWith(': editor, invited.\n')
  expect(await edit('--role', 'editor')).toStartWith('No changes to ')
  const { code, stderr } = await bench.run('admin', 'edit', 'bob', '--disable', '--enable')
  expect([code, stderr]).toEqual([2, expect.stringContaining('Pass either --disable or --enable, not both')])
})

test('revoking a token again says so', async () => {
  await bench.run('admin', 'token', 'create', 'ci')
  const revoke = async (...flags: string[]) => (await bench.run('admin', 'token', 'revoke', 'ci', ...flags)).stdout
  expect(await revoke()).toMatch(/^Revoked token [0-9a-f]{8} \(ci\)\.\n$/)
  expect(await revoke()).toMatch(/^Token [0-9a-f]{8} \(ci\) is already revoked\.\n$/)
  expect(JSON.parse(await revoke('--json'))).toMatchObject({ name: 'ci', already_revoked: true })
  expect((await bench.run('admin', 'token', 'list')).stdout).toMatch(/^ID .* CREATED \(UTC\) +EXPIRES\n/)
})
