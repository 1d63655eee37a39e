/** The teams command as a user meets it. What it says of budgets is in `budget.test.ts`. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { type Bench, createBench } from './run.ts'

const NOW = Date.UTC(2026, 10, 21, 12, 30)

let bench: Bench
beforeEach(() => {
  bench = createBench(NOW)
})
afterEach(() => bench.close())

const json = async (...argv: string[]) => JSON.parse((await bench.run(...argv, '--json')).stdout)

describe('teams create', () => {
  test('prints the team, which keys may then name, and the list shows what create printed', async () => {
    const team = await json('teams', 'create', '--name', ' Blue ', '--budget', '20/month')
    expect(team).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{32}$/),
      name: 'Blue',
      budget_nano_usd: 20_000_000_000,
      budget_period: 'month',
      spent_nano_usd: 0,
      budget_reset_ms: Date.UTC(2026, 11),
      budget_state: 'ok',
      metadata: {},
      created_ms: NOW,
    })
    expect(await json('teams', 'list')).toEqual({ teams: [team] })
    for (const name of ['Blue', team.id]) {
      const key = await json('keys', 'create', '--name', `of ${name}`, '--team', name)
      expect(key).toMatchObject({ team_id: team.id, team: 'Blue' })
    }
  })

  test('says in words how to make keys of it', async () => {
    const { code, stdout, stderr } = await bench.run('teams', 'create', '--name', 'Blue')
    const [, id] = /^Team ([0-9a-f]{8}) \(Blue\) is made\. /.exec(stdout) ?? []
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toContain(`--team ${id}\n`)
    expect((await bench.run('keys', 'create', '--name', 'dev', '--team', String(id))).code).toBe(0)
  })

  const scenarios: [string, string[], number, string, RegExp][] = [
    ['a name that is taken', ['--name', ' Blue '], 1, 'team_exists', /There is a team 'Blue' already \([0-9a-f]{8}\)/],
    ['a missing name', [], 2, 'usage', /--name is missing: .* --name research/],
    ['an empty name', ['--name', ' '], 2, 'usage', /1 to 200 characters/],
    ['a wrong budget', ['--name', 'x', '--budget', '5/year'], 2, 'usage', /--budget '5\/year' has no known period/],
  ]
  for (const [name, argv, code, kind, sentence] of scenarios) {
    test(`refuses ${name} and makes none`, async () => {
      await bench.run('teams', 'create', '--name', 'Blue')
      const ran = await bench.run('teams', 'create', ...argv, '--json')
      expect(ran).toMatchObject({ code, stdout: '' })
      expect(JSON.parse(ran.stderr).error).toEqual({ kind, message: expect.stringMatching(sentence) })
      expect((await json('teams', 'list')).teams).toHaveLength(1)
    })
  }
})

test('teams list says how to make the first one where there is none', async () => {
  expect(await bench.run('teams', 'list')).toMatchObject({
    code: 0,
    stdout: '',
    stderr: expect.stringContaining('tollgate teams create'),
  })
  expect(await json('teams', 'list')).toEqual({ teams: [] })
})
