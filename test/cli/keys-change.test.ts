/** Existing keys: shown, edited, and rotated. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { forEachTest } from '../support/lifetime.ts'
import { createBench } from './run.ts'

let id = ''
let secret = ''
const bench = forEachTest(createBench)
beforeEach(async () => {
  await bench.run('teams', 'create', '--name', 'Blue')
  ;({ id, key: secret } = await json('keys', 'create', '--name', 'dev', '--rpm', '60', '--budget', '20/month'))
})

const json = async (...argv: string[]) => JSON.parse((await bench.run(...argv, '--json')).stdout)

describe('keys show', () => {
  test('shows all fields, one per line, and fits a terminal', async () => {
    await bench.run(
      ...['keys', 'edit', 'dev', '--team', 'Blue', '--metadata', 'owner=ann', '--expires', '90d', '--scope', 'local'],
      ...Array.from({ length: 12 }, (_, i) => ['--model', `provider-${i}/some-model-*`]).flat(),
    )
    const { stdout } = await bench.run('keys', 'show', 'dev')
    expect(stdout).toStartWith(`Key ${id.slice(-8)} (dev), active\n  ID           ${id}\n`)
    expect(stdout).toContain(
      `\n  key          sk-tg-…${secret.slice(-4)}, created 2026-11-21 00:00 UTC\n  models       provider-0/`,
    )
    expect(stdout).toMatch(/\n {2}team {9}Blue \([0-9a-f]{8}\)\n {2}rpm {10}60\n {2}tpm {10}none\n/)
    expect(stdout).toContain('\n  expires      2027-02-19 00:00 UTC\n  metadata     owner=ann\n')
    expect(stdout).toContain('\n  budget used  $0.00 of $20/month (0%), resets on 2026-12-01\n')
    expect(stdout).toContain('\n  spent        $0.00 this month, $0.00 total\n  last used    never\n')
    expect(stdout.split('\n').filter((line) => Bun.stringWidth(line) > 80)).toEqual([])
    expect(stdout).not.toContain(secret)
  })

  test('has the same fields with --json as the list, also for a revoked key', async () => {
    await bench.run('keys', 'revoke', 'dev')
    const { keys } = await json('keys', 'list', '--all')
    const shown = await json('keys', 'show', id)
    expect(keys).toEqual([shown])
    const secrets = [{ last_four: secret.slice(-4), created_ms: shown.created_ms, expires_ms: null }]
    expect(shown).toMatchObject({ status: 'revoked', secrets, revoked_ms: Date.UTC(2026, 10, 21) })
    expect((await bench.run('keys', 'show', id)).stdout).toEndWith('\n  revoked      2026-11-21 00:00 UTC\n')
  })
})

describe('keys edit', () => {
  test('shows old and new values, and no unchanged fields', async () => {
    const edited = await bench.run('keys', 'edit', 'dev', '--rpm', '120', '--budget', 'none', '--name', 'new')
    expect(edited).toEqual({
      code: 0,
      stdout: `Updated key ${id.slice(-8)} (dev):
  name    dev -> new
  rpm     60 -> 120
  budget  $20/month -> none
`,
      stderr: '',
    })
    const again = await bench.run('keys', 'edit', 'new', '--rpm', '120')
    expect(again.stdout).toBe(`No changes to key ${id.slice(-8)} (new).\n`)
  })

  test('removes any optional value with the word none', async () => {
    const made = await json('keys', 'show', 'dev')
    const all = {
      ...{ '--model': 'a/*', '--allow-ip': '::1', '--team': 'Blue', '--rpm': '1', '--tpm': '2', '--concurrency': '3' },
      ...{ '--budget': '5', '--expires': '1d', '--metadata': 'owner=ann' },
    }
    const help = (await bench.run('keys', 'edit', '--help')).stdout.replace(/\s+/g, ' ')
    expect(help.match(/; or none/g)).toHaveLength(Object.keys(all).length)
    const set = await json('keys', 'edit', id, ...Object.entries(all).flat())
    expect(set).toMatchObject({
      models: ['a/*'],
      team: 'Blue',
      rpm: 1,
      budget_period: 'total',
      metadata: { owner: 'ann' },
    })
    expect(set.warnings).toEqual([{ field: 'models', message: expect.stringContaining("'a/*'") }])
    const bare = await json('keys', 'edit', id, ...Object.keys(all).flatMap((option) => [option, 'none']))
    expect(bare).toMatchObject({ models: [], team_id: null, tpm: null, expires_ms: null, metadata: {} })
    expect(bare.changed).toContain('budget_nano_usd')
    expect(await json('keys', 'edit', id, '--rpm', '60', '--budget', '20/month')).toMatchObject(made)
  })

  test('warns of a model list that allows nothing after the change', async () => {
    const { code, stderr } = await bench.run('keys', 'edit', 'dev', '--model', 'openia/*')
    expect([code, stderr]).toEqual([0, expect.stringMatching(/^warning: the pattern 'openia\/\*' matches none/)])
    expect((await bench.run('keys', 'edit', 'dev', '--rpm', '7')).stderr).toBe('')
  })

  test.each<[string, string[], number, RegExp]>([
    ['no changes', [], 2, /Nothing to change. Pass an option, e.g. --rpm 60/],
    ['a wrong count', ['--rpm', 'many'], 2, /--rpm must be a whole number of at least 1 \(got 'many'\)/],
    [
      'none beside others',
      ['--model', 'a/*', '--model', 'none'],
      2,
      /--model none can't be combined with other values\./,
    ],
    ['none for a name', ['--scope', 'none'], 2, /--scope must be all or local \(got 'none'\)/],
    [
      'a note without a value',
      ['--metadata', 'owner'],
      2,
      /--metadata must be name=value, e.g. owner=ann \(got 'owner'\)/,
    ],
    ['the name of another key', ['--name', 'other'], 1, /A key named 'other' already exists/],
    ['an unknown team', ['--team', 'Red'], 1, /no team 'Red'/],
  ])('is told of %s, and changes nothing', async (_, options, code, sentence) => {
    await bench.run('keys', 'create', '--name', 'other')
    const before = await json('keys', 'list')
    const ran = await bench.run('keys', 'edit', 'dev', ...options)
    expect(ran).toEqual({ code, stdout: '', stderr: expect.stringMatching(sentence) })
    expect(await json('keys', 'list')).toEqual(before)
  })

  test('does not reactivate a revoked key', async () => {
    await bench.run('keys', 'revoke', 'dev')
    for (const command of ['edit', 'rotate'])
      expect((await bench.run('keys', command, 'dev', ...(command === 'edit' ? ['--rpm', '1'] : []))).stderr).toMatch(
        /^error: The key 'dev' \([0-9a-f]{8}\) was revoked on 2026-11-21\. .*tollgate keys create --name NAME\n$/,
      )
  })
})

test("an error with a name can't control the terminal", async () => {
  const { code, stderr } = await bench.run('keys', 'show', 'a\u001b[2Jb')
  expect([code, stderr]).toEqual([1, expect.stringContaining("There is no key 'a?[2Jb'")])
})

describe('keys rotate', () => {
  test('prints the new secret once, on its own line, and says until when the old one works', async () => {
    const { code, stdout, stderr } = await bench.run('keys', 'rotate', 'dev')
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^sk-tg-[A-Za-z0-9]{38}\n$/)])
    expect(stderr).toStartWith(`Rotated key ${id.slice(-8)} (dev). The old secret works until 2026-11-22 00:00 UTC`)
    expect(stderr).toContain('\nIf it leaked, end it now: tollgate keys end-overlap KEY\n')
    expect(stderr).not.toContain(stdout.trim())
    const shown = (await bench.run('keys', 'show', 'dev')).stdout
    expect(shown).toContain(
      `  key          sk-tg-…${secret.slice(-4)}, created 2026-11-21 00:00, expires 2026-11-22 00:00\n               UTC\n`,
    )
    expect(shown).toContain(`  key          sk-tg-…${stdout.trim().slice(-4)}, created 2026-11-21 00:00 UTC\n`)
    expect((await bench.run('keys', 'list')).stdout).toContain(`…${secret.slice(-4)} …${stdout.trim().slice(-4)}`)
    // Either secret identifies the key.
    expect((await bench.run('keys', 'revoke', stdout.trim())).code).toBe(1)
    expect((await bench.run('keys', 'revoke', secret.slice(-4))).stdout).toStartWith('Revoked key ')
  })

  test('with --overlap 0 only says that the old one has ended', async () => {
    const { stderr } = await bench.run('keys', 'rotate', 'dev', '--overlap', '0')
    const what = `Rotated key ${id.slice(-8)} (dev). The old secret no longer works.`
    expect(stderr).toBe(`${what}\nSave the new secret now; it won't be shown again:\n`)
  })

  test('leaves an old secret that can be ended later', async () => {
    await bench.run('keys', 'rotate', 'dev')
    const end = async () => (await bench.run('keys', 'end-overlap', 'dev')).stdout
    expect(await end()).toBe(`Ended 1 old secret of key ${id.slice(-8)} (dev).\n`)
    expect(await end()).toBe(`Key ${id.slice(-8)} (dev) has no old secret that still works.\n`)
  })

  test('with --json has the secret in the same field as `keys create`', async () => {
    const rotated = await json('keys', 'rotate', 'dev', '--overlap', '0')
    expect(rotated.key).toMatch(/^sk-tg-[A-Za-z0-9]{38}$/)
    expect(rotated).toMatchObject({ id, name: 'dev', status: 'active' })
    expect(rotated.last_four).toBe(rotated.key.slice(-4))
    expect(rotated.secrets.map((one: { expires_ms: number | null }) => one.expires_ms)).toEqual([
      Date.UTC(2026, 10, 21),
      null,
    ])
  })

  test.each(['soon', '1', '366d', ''])('rejects the overlap %p', async (overlap) => {
    const { code, stderr } = await bench.run('keys', 'rotate', 'dev', '--overlap', overlap)
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/^error: --overlap must be a duration up to 365d, .*, or 0 \(got '.*'\)/),
    ])
  })
})
