/** The teams command. `budget.test.ts` tests budgets. */
import { describe, expect, test } from 'bun:test'
import { applyCatalog } from '../../src/catalog/apply.ts'
import { parseCatalog } from '../../src/catalog/file.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { toCatalogue } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createBench } from './run.ts'

const CATALOGUE = toCatalogue({ url: 'http://127.0.0.1:1/v1' })
const NOW = Date.UTC(2026, 10, 21, 12, 30)

const bench = forEachTest(() => createBench(NOW))

const json = async (...argv: string[]) => JSON.parse((await bench.run(...argv, '--json')).stdout)

describe('teams create', () => {
  test('prints the team, which keys can then name, and the list shows the same', async () => {
    const { warnings, ...team } = await json('teams', 'create', '--name', ' Blue ', '--budget', '20/month')
    expect(warnings).toEqual([])
    expect(team).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{32}$/),
      revision: expect.stringMatching(/^[0-9a-f]{16}$/),
      name: 'Blue',
      scope: 'all',
      models: [],
      ...{ rpm: null, tpm: null, concurrency: null, max_keys: 10 },
      budget_nano_usd: 20_000_000_000,
      budget_period: 'month',
      spent_nano_usd: 0,
      budget_reset_ms: Date.UTC(2026, 11),
      budget_state: 'ok',
      spent_month_nano_usd: 0,
      spent_total_nano_usd: 0,
      ...{ refused_24h: 0, last_refused_ms: null, last_refused_code: null },
      metadata: {},
      created_ms: NOW,
    })
    expect(await json('teams', 'list')).toEqual({ teams: [team] })
    for (const name of ['Blue', team.id]) {
      const key = await json('keys', 'create', '--name', `of ${name}`, '--team', name)
      expect(key).toMatchObject({ team_id: team.id, team: 'Blue' })
    }
  })

  test('says how to create its keys', async () => {
    const { code, stdout, stderr } = await bench.run('teams', 'create', '--name', 'Blue')
    const [, id] = /^Created team ([0-9a-f]{8}) \(Blue\)\. /.exec(stdout) ?? []
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toContain(`--team ${id}\n`)
    expect((await bench.run('keys', 'create', '--name', 'dev', '--team', String(id))).code).toBe(0)
  })

  const scenarios: [string, string[], number, string, RegExp][] = [
    [
      'a name that is taken',
      ['--name', ' Blue '],
      1,
      'team_exists',
      /A team named 'Blue' already exists \([0-9a-f]{8}\)/,
    ],
    ['a missing name', [], 2, 'usage', /--name is missing: .* --name research/],
    ['an empty name', ['--name', ' '], 2, 'usage', /1 to 200 visible characters/],
    [
      'a wrong count',
      ['--name', 'x', '--max-keys', '0'],
      2,
      'usage',
      /--max-keys must be a whole number of at least 1 \(got '0'\)/,
    ],
    [
      'a wrong pattern',
      ['--name', 'x', '--model', 'a b'],
      2,
      'usage',
      /--model must be a model ID or pattern, .* \(got 'a b'\)/,
    ],
    [
      'what nothing can be taken away of',
      ['--name', 'x', '--rpm', 'none'],
      2,
      'usage',
      /--rpm must be a whole number of at least 1 \(got 'none'\)/,
    ],
    [
      'a wrong budget',
      ['--name', 'x', '--budget', '5/year'],
      2,
      'usage',
      /--budget must be USD per day, week, month or total, .* \(got '5\/year'\)/,
    ],
  ]
  for (const [name, argv, code, kind, sentence] of scenarios) {
    test(`refuses ${name} and creates none`, async () => {
      await bench.run('teams', 'create', '--name', 'Blue')
      const ran = await bench.run('teams', 'create', ...argv, '--json')
      expect(ran).toMatchObject({ code, stdout: '' })
      expect(JSON.parse(ran.stderr).error).toEqual({ kind, message: expect.stringMatching(sentence) })
      expect((await json('teams', 'list')).teams).toHaveLength(1)
    })
  }
})

test('teams list says how to create the first one', async () => {
  expect(await bench.run('teams', 'list')).toMatchObject({
    code: 0,
    stdout: '',
    stderr: expect.stringContaining('tollgate teams create'),
  })
  expect(await json('teams', 'list')).toEqual({ teams: [] })
})

/** Every option of a team. */
const ALL = {
  ...{ '--model': 'openai/*', '--scope': 'local', '--rpm': '600', '--tpm': '100000', '--concurrency': '20' },
  ...{ '--budget': '200/month', '--max-keys': '3', '--metadata': 'owner=ann' },
}

test("teams list shows each team's limits and spend", async () => {
  await bench.run('teams', 'create', '--name', 'Blue', ...Object.entries(ALL).flat())
  await bench.run('teams', 'create', '--name', 'Free')
  const { stdout } = await bench.run('teams', 'list')
  expect(stdout).toMatch(
    /^ID +NAME +BUDGET +CREATED \(UTC\)\n\S+ +Blue +\$0.00 of \$200\/month.*\n {10}local only; openai\/\*; 600 rpm; 100000 tpm; 20 concurrent\n {10}\$0.00 this month, \$0.00 total\n\S+ +Free +- +2026-11-21 12:30\n {10}\$0.00 this month.*\n$/,
  )
})

describe('teams show', () => {
  test('shows all fields, one per line, including its keys, and fits a terminal', async () => {
    const { id } = await json('teams', 'create', '--name', 'Blue', ...Object.entries(ALL).flat())
    for (const name of ['dev', 'old']) await bench.run('keys', 'create', '--name', name, '--team', 'Blue')
    await bench.run('keys', 'create', '--name', 'other')
    await bench.run('keys', 'revoke', 'old')
    const { stdout } = await bench.run('teams', 'show', 'Blue')
    expect(stdout.replace(/\([0-9a-f]{8}\)/g, '(…)')).toBe(`Team ${id.slice(-8)} (Blue)
  ID             ${id}
  models         openai/*
  scope          local upstreams only
  rpm            600
  tpm            100000
  concurrency    20
  budget         $200/month
  max keys       3 per member
  metadata       owner=ann
  budget used    $0.00 of $200/month (0%), resets on 2026-12-01
  spent          $0.00 this month, $0.00 total
  keys           dev (…)
  inactive keys  old (…)
  created        2026-11-21 12:30 UTC
`)
  })

  test('has with --json the fields of the list, and the keys', async () => {
    await bench.run('teams', 'create', '--name', 'Blue')
    const { id } = await json('keys', 'create', '--name', 'dev', '--team', 'Blue')
    const { keys, ...shown } = await json('teams', 'show', 'Blue')
    expect((await json('teams', 'list')).teams).toEqual([shown])
    expect(keys).toEqual([{ id, name: 'dev', status: 'active' }])
  })
})

describe('teams edit', () => {
  test('sets every field of a team, and removes it with the word none', async () => {
    const { warnings: _, ...made } = await json('teams', 'create', '--name', 'Blue')
    const set = await json('teams', 'edit', 'Blue', ...Object.entries(ALL).flat())
    expect(set).toMatchObject({
      ...{ id: made.id, models: ['openai/*'], scope: 'local', rpm: 600, tpm: 100_000, concurrency: 20, max_keys: 3 },
      ...{ budget_nano_usd: 200_000_000_000, budget_period: 'month', metadata: { owner: 'ann' }, spent_nano_usd: 0 },
      warnings: [{ field: 'models', message: expect.stringContaining("'openai/*'") }],
    })
    const help = (await bench.run('teams', 'edit', '--help')).stdout.replace(/\s+/g, ' ')
    const optional = Object.keys(ALL).filter((option) => option !== '--scope')
    expect(help.match(/; or none/g)).toHaveLength(optional.length)
    const none = optional.flatMap((option) => [option, 'none'])
    const { changed, warnings, ...bare } = await json('teams', 'edit', made.id, ...none, '--scope', 'all')
    expect(bare).toEqual({ ...made, max_keys: null, revision: expect.any(String) })
    expect([changed.includes('max_keys'), warnings]).toEqual([true, []])
  })

  test('shows old and new values, and no unchanged fields', async () => {
    const { id } = await json('teams', 'create', '--name', 'Blue', '--rpm', '60', '--budget', '20/month')
    const edited = await bench.run('teams', 'edit', 'Blue', '--rpm', '600', '--name', 'Red', '--max-keys', 'none')
    expect(edited).toEqual({
      code: 0,
      stdout: `Updated team ${id.slice(-8)} (Blue):
  name      Blue -> Red
  rpm       60 -> 600
  max keys  10 per member -> none
`,
      stderr: '',
    })
    expect((await bench.run('teams', 'edit', 'Red', '--rpm', '600')).stdout).toMatch(
      /^No changes to team \w{8} \(Red\)\.\n$/,
    )
  })

  test.each<[string, string[], number, RegExp]>([
    ['no changes', ['Blue'], 2, /Nothing to change. Pass an option, e.g. --rpm 600/],
    ['the name of another team', ['Blue', '--name', 'Red'], 1, /A team named 'Red' already exists/],
    ['a team that there is not', ['Green', '--rpm', '1'], 1, /no team 'Green'.*tollgate teams list/],
    ['none for a scope', ['Blue', '--scope', 'none'], 2, /--scope must be all or local \(got 'none'\)/],
    ['none beside others', ['Blue', '--model', 'a/*', '--model', 'none'], 2, /--model none can't be combined/],
  ])('is told of %s, and changes nothing', async (_, argv, code, sentence) => {
    for (const name of ['Blue', 'Red']) await bench.run('teams', 'create', '--name', name)
    const before = await json('teams', 'list')
    const ran = await bench.run('teams', 'edit', ...argv)
    expect(ran).toEqual({ code, stdout: '', stderr: expect.stringMatching(sentence) })
    expect(await json('teams', 'list')).toEqual(before)
  })
})

test("a key gets a warning about patterns that its team doesn't allow", async () => {
  const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
  const { catalog } = await parseCatalog(CATALOGUE, { name: 'test', environment: {} })
  const how = { origin: 'file', actor: 'test', subject: 'test', digest: 'd', nowMs: NOW } as const
  await applyCatalog(createConfigStore(sqlite), catalog, how)
  sqlite.close()
  await bench.run('teams', 'create', '--name', 'Blue', '--model', 'acme/s*')
  const create = (name: string, pattern: string) =>
    bench.run('keys', 'create', '--name', name, '--team', 'Blue', '--model', pattern)
  expect((await create('one', 'acme/large')).stderr).toStartWith(
    "warning: the pattern 'acme/large' matches no model that the team Blue can use.\n",
  )
  expect((await create('two', 'acme/*')).stderr).not.toContain('warning')
})
