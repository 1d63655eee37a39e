/** The keys command. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { inviteAdmin } from '../../src/identity/admins.ts'
import { createKey } from '../../src/keys/service.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createIdentityStore } from '../../src/store/sqlite/identity-store.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createBench } from './run.ts'

const bench = forEachTest(createBench)

describe('keys create', () => {
  test('prints the key once, on its own line', async () => {
    const { code, stdout, stderr } = await bench.run('keys', 'create', '--name', 'dev')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^sk-tg-[A-Za-z0-9]{38}\n$/)
    expect(stderr).not.toContain(stdout.trim())
    expect((await bench.run('keys', 'list')).stdout).not.toContain(stdout.trim())
  })

  test('prints one JSON document with --json before or after the command', async () => {
    const created = await bench.run(
      ...['--json', 'keys', 'create', '--name', 'dev', '--model', 'openai/*', '--model', 'a/b', '--scope', 'local'],
      ...['--rpm', '5', '--tpm', '6', '--concurrency', '7', '--budget', '0.10/day', '--expires', '90d'],
      ...['--allow-ip', '203.0.113.7/32', '--allow-ip', '2001:DB8::/32'],
    )
    const { key, warnings, ...rest } = JSON.parse(created.stdout)
    expect(warnings.map(({ field }: { field: string }) => field)).toEqual(['models', 'models'])
    expect(key).toMatch(/^sk-tg-/)
    const { keys } = JSON.parse((await bench.run('keys', 'list', '--json')).stdout)
    expect(keys).toEqual([{ ...rest, models: expect.arrayContaining(['openai/*', 'a/b']) }])
    expect(rest).toMatchObject({
      name: 'dev',
      team_id: null,
      team: null,
      scope: 'local',
      allowed_ips: ['203.0.113.7', '2001:db8::/32'],
      rpm: 5,
      tpm: 6,
      concurrency: 7,
      budget_nano_usd: 100_000_000,
      budget_period: 'day',
      spent_nano_usd: 0,
      budget_reset_ms: Date.UTC(2026, 10, 22),
      budget_state: 'ok',
      expires_ms: Date.UTC(2027, 1, 19),
      revoked_ms: null,
    })
  })
})

test("a member's own key is shown with its owner", async () => {
  await bench.run('teams', 'create', '--name', 'research')
  await bench.run('keys', 'create', '--name', 'dev')
  const by = { actor: 'test', nowMs: Date.UTC(2026, 10, 21) }
  using sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
  const { admin } = await inviteAdmin(
    createIdentityStore(sqlite),
    { name: 'mia', role: 'member', team: 'research' },
    by,
  )
  await createKey(createConfigStore(sqlite), { name: 'laptop', team: 'research', ownerId: admin.id }, by)
  const listed = (await bench.run('keys', 'list')).stdout
  expect(listed.match(/\bowner mia\b/g)).toHaveLength(1)
  expect((await bench.run('keys', 'show', 'laptop')).stdout).toMatch(/^ *owner +mia \([0-9a-f]{8}\)$/m)
  expect((await bench.run('keys', 'show', 'dev')).stdout).not.toMatch(/^ *owner /m)
  const { keys } = JSON.parse((await bench.run('keys', 'list', '--json')).stdout)
  expect(keys.map((key: Record<string, unknown>) => [key.owner_id, key.owner])).toEqual([
    [null, null],
    [admin.id, 'mia'],
  ])
})

describe('a pattern of --model', () => {
  beforeEach(async () => {
    await Bun.write(
      `${bench.folder}/catalog.yaml`,
      `version: 1
upstreams: { openai: { dialect: openai, base_url: http://h/v1 } }
models: { openai/gpt-4o*: { listed: false, routes: [{ upstream: openai, model: gpt-4o* }] } }
aliases: { fast: openai/gpt-4o }
`,
    )
    expect(await bench.run('catalog', 'apply')).toMatchObject({ code: 0 })
  })

  test.each([
    ['openia/*', /matches none of the current \d+ models \(did you mean 'openai\/\*'\?\)\./],
    ['openai/gpt-4o-mni', /did you mean 'openai\/gpt-4o-mini'/],
    ['fast', /is an alias; patterns only match model IDs, here openai\/gpt-4o\./],
  ])('%s that allows nothing is warned of, and the key made all the same', async (pattern, sentence) => {
    const { code, stdout, stderr } = await bench.run('keys', 'create', '--name', 'x', '--model', pattern)
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^sk-tg-/)])
    expect(stderr).toStartWith(`warning: the pattern '${pattern}' `)
    expect(stderr).toMatch(sentence)
  })

  test('without a match is a warning, except for a key of local scope', async () => {
    const create = (name: string) => ['keys', 'create', '--name', name, '--model', 'openai/*']
    expect((await bench.run(...create('a'))).stderr).not.toContain('warning')
    expect((await bench.run(...create('b'), '--scope', 'local')).stderr).toContain(
      'matches no local model, but the scope is local',
    )
    expect(JSON.parse((await bench.run(...create('c'), '--json')).stdout).warnings).toEqual([])
  })
})

describe('keys list', () => {
  test('fits a terminal of 80 columns, whatever a key allows', async () => {
    const models = Array.from({ length: 12 }, (_, i) => ['--model', `provider-${i}/some-model-*`]).flat()
    await bench.run('teams', 'create', '--name', 'Blue')
    await bench.run(
      ...['keys', 'create', '--name', 'the key of somebody with a long name', '--scope', 'local', '--team', 'Blue'],
      ...['--rpm', '5', '--tpm', '6', '--concurrency', '7', '--budget', '1234/month', '--expires', '90d', ...models],
    )
    const { stdout } = await bench.run('keys', 'list')
    expect(stdout.split('\n').filter((line) => Bun.stringWidth(line) > 80)).toEqual([])
    expect(stdout).toMatch(/\n[0-9a-f]{8} {2}the key of somebo… {2}….{4} {2}2027-02-19 {2}\$0.00 of \$1234\/month/)
    const rules = stdout.split('\n').slice(2).join(' ').replace(/\s+/g, ' ')
    expect(rules).toContain(' provider-11/some-model-*; 5 rpm; 6 tpm; 7 concurrent; team Blue ')
  })
})

describe('keys revoke', () => {
  test('accepts a name, or some digits of an ID as listed', async () => {
    const { id } = JSON.parse((await bench.run('keys', 'create', '--name', 'one', '--json')).stdout)
    await bench.run('keys', 'create', '--name', 'two')
    expect((await bench.run('keys', 'revoke', id.slice(-5))).code).toBe(1)
    expect((await bench.run('keys', 'revoke', id.slice(-8))).stdout).toBe(`Revoked key ${id.slice(-8)} (one).\n`)
    expect((await bench.run('keys', 'revoke', 'two')).stdout).toContain('(two).')
  })

  test('frees its name for another key; until then names are unique', async () => {
    await bench.run('keys', 'create', '--name', 'dev')
    const { code, stderr } = await bench.run('keys', 'create', '--name', 'dev')
    expect(code).toBe(1)
    expect(stderr).toMatch(/^error: A key named 'dev' already exists \([0-9a-f]{8}\). Choose another name/)
    await bench.run('keys', 'revoke', 'dev')
    expect((await bench.run('keys', 'create', '--name', 'dev')).code).toBe(0)
    // Now the name means the active one.
    expect((await bench.run('keys', 'revoke', 'dev')).stdout).toStartWith('Revoked key ')
    expect((await bench.run('keys', 'revoke', 'dev')).stderr).toMatch(
      /'dev' matches 2 keys: [0-9a-f]{32}, [0-9a-f]{32}/,
    )
  })

  test('removes the key from the list, except with --all, and may be repeated', async () => {
    const { id } = JSON.parse((await bench.run('keys', 'create', '--name', 'dev', '--json')).stdout)
    expect((await bench.run('keys', 'revoke', id)).stdout).toStartWith('Revoked key ')
    expect((await bench.run('keys', 'revoke', id)).stdout).toContain('is already revoked.')
    expect((await bench.run('keys', 'list')).stdout).toBe('')
    expect((await bench.run('keys', 'list', '--all')).stdout).toMatch(/dev .* revoked\n +never used\n$/)
    const count = async (...argv: string[]) => JSON.parse((await bench.run(...argv)).stdout).keys.length
    expect([await count('keys', 'list', '--json'), await count('keys', 'list', '--all', '--json')]).toEqual([0, 1])
  })
})

describe('invalid options', () => {
  const scenarios: [string, string[], number, RegExp][] = [
    ['an unknown command', ['kyes'], 2, /unknown command 'kyes'.*Did you mean keys/],
    ['an unknown subcommand', ['keys', 'drop'], 2, /unknown command 'drop'.*`tollgate keys --help`/],
    [
      'an unknown option',
      ['keys', 'create', '--nam', 'x'],
      2,
      /unknown option '--nam'.*Did you mean --name.*`tollgate keys create --help`/,
    ],
    ['a missing name', ['keys', 'create'], 2, /--name is missing/],
    ['a missing argument', ['keys', 'revoke'], 2, /missing required argument 'key'/],
    ['an argument too many', ['keys', 'list', 'all'], 2, /too many arguments.*`tollgate keys list --help`/],
    [
      'a wrong count',
      ['keys', 'create', '--name', 'x', '--rpm', '0'],
      2,
      /--rpm must be a whole number of at least 1 \(got '0'\)/,
    ],
    [
      'a wrong scope',
      ['keys', 'create', '--name', 'x', '--scope', 'some'],
      2,
      /--scope must be all or local \(got 'some'\)/,
    ],
    [
      'a count too large',
      ['keys', 'create', '--name', 'x', '--tpm', '10000000000'],
      2,
      /--tpm must be at most 1000000000 \(got '10000000000'\)/,
    ],
    ['an unknown team', ['keys', 'create', '--name', 'x', '--team', 'Red'], 1, /no team 'Red'.*tollgate teams list/],
    ['an unknown key', ['keys', 'revoke', 'x'], 1, /There is no key 'x'.*tollgate keys list/],
    ['a folder without a name', ['keys', 'list', '--data', ''], 2, /--data is empty\. Pass a folder\./],
    ['a folder without a database', ['keys', 'list', '--data', 'nowhere'], 1, /No Tollgate database.*tollgate serve/],
  ]
  for (const [name, argv, code, sentence] of scenarios) {
    test(`are rejected: ${name}`, async () => {
      const plain = await bench.run(...argv)
      expect(plain).toMatchObject({ code, stdout: '' })
      expect(plain.stderr).toMatch(/^error: [^\n]+\n$/)
      expect(plain.stderr).toMatch(sentence)
      const { error } = JSON.parse((await bench.run(...argv, '--json')).stderr)
      expect(error).toEqual({ kind: expect.any(String), message: expect.stringMatching(sentence) })
    })
  }

  test('without a subcommand print help', async () => {
    expect(await bench.run()).toMatchObject({ code: 2, stdout: '' })
    expect((await bench.run('--help')).stdout).toContain('Usage: tollgate')
  })
})
