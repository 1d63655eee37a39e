/** The audit log as commands show it. */

import { describe, expect, test } from 'bun:test'
import type { AuditAction } from '../../src/domain/changes.ts'
import { inviteAdmin } from '../../src/identity/admins.ts'
import { createToken } from '../../src/identity/principal.ts'
import { createTeam } from '../../src/keys/service.ts'
import { createIdentityStore } from '../../src/store/sqlite/identity-store.ts'
import { openForCommand } from '../../src/store/sqlite/open.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createBench } from './run.ts'

const bench = forEachTest(createBench)

const json = async (...argv: string[]) => JSON.parse((await bench.run(...argv, '--json')).stdout)
const actionsOf = async (...options: string[]): Promise<string[]> =>
  (await json('audit', 'log', ...options)).audit.map((row: { action: string }) => row.action)

/** A key that is created, edited, renamed, and rotated, and a second one. */
async function change() {
  const { id, key } = await json('keys', 'create', '--name', 'dev', '--rpm', '60')
  await bench.run('keys', 'edit', 'dev', '--rpm', 'none', '--budget', '20/month', '--expires', '90d')
  await bench.run('keys', 'edit', 'dev', '--name', 'new', '--metadata', 'owner=ann')
  await bench.run('keys', 'create', '--name', 'other')
  const rotated = await json('keys', 'rotate', 'new')
  return { id, secrets: [key, rotated.key] }
}

test('each change is listed, newest first, with old and new values, in 80 columns and without a secret', async () => {
  const { id, secrets } = await change()
  const { code, stdout, stderr } = await bench.run('audit', 'log', '--subject', 'new')
  expect([code, stderr]).toEqual([0, ''])
  const [old, next] = secrets.map((secret) => secret.slice(-4))
  expect(stdout).toBe(`TIME (UTC)        ACTOR  ACTION       SUBJECT
2026-11-21 00:00  cli    keys.rotate  new      ${id.slice(-8)}
          secrets last_four=${old} -> last_four=${old} expires=2026-11-22 00:00,
          last_four=${next}
2026-11-21 00:00  cli    keys.edit    new      ${id.slice(-8)}
          name dev -> new; metadata none -> owner=ann
2026-11-21 00:00  cli    keys.edit    dev      ${id.slice(-8)}
          rpm 60 -> none; budget none -> $20; budget_period none -> month;
          expires none -> 2027-02-19 00:00
2026-11-21 00:00  cli    keys.create  dev      ${id.slice(-8)}
          name dev; scope all; rpm 60
`)
  for (const secret of secrets) expect(JSON.stringify(await json('audit', 'log'))).not.toContain(secret)
})

test('--json has the columns, and pages that continue from the last one', async () => {
  const { id } = await change()
  const first = await json('audit', 'log', '--limit', '2')
  expect(first.audit[1]).toMatchObject({ actor: 'cli', action: 'keys.create', at_ms: Date.UTC(2026, 10, 21) })
  expect(Object.keys(first.audit[0])).toEqual(['id', 'at_ms', 'actor', 'actor_name', 'action', 'subject', 'detail'])
  expect(first.next).toBe(first.audit[1].id)
  const second = await json('audit', 'log', '--limit', '3', '--before', first.next)
  expect(second.next).toBeNull()
  expect(second.audit[1]).toMatchObject({
    ...{ action: 'keys.edit', subject: id },
    detail: { name: 'dev', before: { rpm: 60, budget_nano_usd: null }, after: { rpm: null, budget_period: 'month' } },
  })
  expect((await bench.run('audit', 'log', '--limit', '2')).stderr).toBe(`For older entries: --before ${first.next}\n`)
})

describe('a filter', () => {
  test('selects by actor, subject, action, and time', async () => {
    const { id } = await change()
    expect(await actionsOf('--action', 'keys.rotate')).toEqual(['keys.rotate'])
    expect(await actionsOf('--action', 'keys')).toHaveLength(5)
    expect(await actionsOf('--subject', id.slice(-8), '--action', 'keys.create')).toHaveLength(1)
    expect([await actionsOf('--since', '1h'), await actionsOf('--since', '2026-11-22')]).toMatchObject([
      { length: 5 },
      [],
    ])
    expect([await actionsOf('--actor', 'cli'), await actionsOf('--actor', 'ann')]).toMatchObject([{ length: 5 }, []])
    expect(await bench.run('audit', 'log', '--actor', 'ann')).toEqual({
      ...{ code: 0, stdout: '', stderr: 'No matching changes. Try a longer period or fewer filters.\n' },
    })
  })

  test.each([
    ['--since', 'last week', 2, /--since must be a time ago or a date, .* \(got 'last week'\)/],
    ['--limit', '0', 2, /--limit must be a whole number of at least 1 \(got '0'\)/],
    ['--limit', '10001', 2, /Invalid limit/],
    ['--before', '1', 2, /Invalid before: must be the full ID of an audit log row/],
    ['--action', 'keys.delete', 2, /unknown action 'keys.delete'; .* keys, keys.create, .* database.restore/],
  ])('%s %s is refused', async (option, value, code, sentence) => {
    expect(await bench.run('audit', 'log', option, value)).toEqual({
      ...{ code, stdout: '', stderr: expect.stringMatching(sentence) },
    })
  })
})

test('users and tokens are shown by name, and found by it', async () => {
  const { sqlite, store } = openForCommand(bench.folder)
  const identity = createIdentityStore(sqlite)
  const { admin } = await inviteAdmin(identity, { name: 'ann@example.com', role: 'owner' }, { actor: 'cli', nowMs: 1 })
  const { token } = await createToken(identity, { name: 'deploy', scope: 'write' }, { actor: admin.id, nowMs: 2 })
  await createTeam(store, { name: 'research' }, { actor: token.id, nowMs: 3 })
  sqlite.close()
  const { stdout } = await bench.run('audit', 'log')
  expect([...stdout.matchAll(/^\S+ \S+ +(\S+)/gm)].slice(1).map(([, who]) => who)).toEqual([
    ...['deploy', 'ann@example.com', 'cli'],
  ])
  expect((await json('audit', 'log', '--actor', 'Ann@example.com')).audit).toMatchObject([
    { actor: admin.id, actor_name: 'ann@example.com', action: 'tokens.create' },
  ])
  expect(await actionsOf('--actor', token.id)).toEqual(['teams.create'])
})

test('a change of the catalog names its rows, up to the first twenty', async () => {
  const facts = 'context_length: 1, max_output_length: 1, input_modalities: [text], output_modalities: [text]'
  const apply = async (name: string, models: number) => {
    const rows = Array.from(
      { length: models },
      (_, i) => `  v/m${i}: { name: ${name}, ${facts}, supported_features: [], routes: [{ upstream: u, model: m }] }\n`,
    )
    const head = 'version: 1\nupstreams: { u: { dialect: openai, base_url: "http://h/v1", local: true } }\nmodels:\n'
    await Bun.write(`${bench.folder}/catalog.yaml`, head + rows.join(''))
    expect(await bench.run('catalog', 'apply')).toMatchObject({ code: 0 })
  }
  await apply('One', 1)
  await apply('Two', 15)
  const { stdout } = await bench.run('audit', 'log', '--action', 'catalog')
  const [, newest = '', oldest = ''] = stdout.replace(/\s+/g, ' ').split(' cli catalog.apply ')
  expect(newest).toContain('models.v/m0: name One -> Two; created models.v/m1;')
  expect(newest).toMatch(/; and 9 more /)
  expect(oldest).toContain('created upstreams.u; created models.v/m0;')
})

test("names can't control the terminal of the log's reader", async () => {
  const { sqlite, store } = openForCommand(bench.folder)
  const action = 'keys.\u001b[31m' as AuditAction
  const record = { action, subject: '\u001b[2J', detail: { before: {}, after: { name: '\u0007' } } }
  await store.changeKeys({ actor: '\u001b', nowMs: 1 }, () => ({ value: null, change: { ...record, write: {} } }))
  sqlite.close()
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it is what must not be there.
  expect((await bench.run('audit', 'log')).stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/)
})
