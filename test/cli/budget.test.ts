/** Budgets and spend in `keys list` and `teams list`. */
import { describe, expect, test } from 'bun:test'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { HOUR, opening, settling, toOpen, toSettled } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createBench } from './run.ts'

const NOW = HOUR + 1_800_000
const CENT = 10_000_000

const bench = forEachTest(() => createBench(NOW))

const json = async (...argv: string[]) => JSON.parse((await bench.run(...argv, '--json')).stdout)

/** Adds a request of the key with this cost to the ledger. */
function spend(keyId: string, costNanoUsd: number, createdMs = HOUR, teamId: string | null = null): void {
  const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
  createLedgerWriter(sqlite).apply([settling(toSettled(toOpen({ keyId, teamId, createdMs }), { costNanoUsd }))])
  sqlite.close()
}

describe('teams list', () => {
  test("adds up the spend of a team's keys, and warns about it", async () => {
    await bench.run('teams', 'create', '--name', 'Blue', '--budget', '1')
    await bench.run('teams', 'create', '--name', 'Free')
    for (const name of ['one', 'two']) {
      const { id, team_id: teamId } = await json('keys', 'create', '--name', name, '--team', 'Blue')
      spend(id, 45 * CENT, HOUR - 400 * 86_400_000, teamId)
    }
    spend((await json('keys', 'create', '--name', 'three')).id, 500 * CENT)
    const { stdout, stderr } = await bench.run('teams', 'list')
    expect(stdout).toMatch(/Blue +\$0\.90 of \$1 total \(90%\) +2026-11-21 12:30\n/)
    expect(stdout).toMatch(/Free +- +2026/)
    expect(stderr).toBe('warning: team Blue has spent 90% of its $1 total budget. It never resets.\n')
    expect((await json('teams', 'list')).teams).toMatchObject([
      { spent_nano_usd: 90 * CENT, budget_state: 'warning', budget_reset_ms: null },
      { spent_nano_usd: null, budget_state: null, budget_nano_usd: null, budget_period: null, budget_reset_ms: null },
    ])
  })
})

describe('keys list', () => {
  const budgetOf = async () => (await json('keys', 'list')).keys[0]

  test("shows the spend of a budget's current period, including requests in flight", async () => {
    const { id } = await json('keys', 'create', '--name', 'dev', '--budget', '20/month')
    spend(id, 5_000 * CENT, Date.UTC(2026, 10) - 1)
    spend(id, 1_000 * CENT, Date.UTC(2026, 10))
    expect(await budgetOf()).toMatchObject({ spent_nano_usd: 1_000 * CENT, budget_state: 'ok' })
    const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
    createLedgerWriter(sqlite).apply([opening(toOpen({ keyId: id, reservedNanoUsd: 620 * CENT }))])
    sqlite.close()
    expect(await budgetOf()).toMatchObject({
      budget_nano_usd: 2_000 * CENT,
      spent_nano_usd: 1_620 * CENT,
      budget_reset_ms: Date.UTC(2026, 11),
      budget_state: 'warning',
    })
    const { stdout, stderr } = await bench.run('keys', 'list')
    expect(stdout).toContain('$16.20 of $20/month (81%)\n')
    expect(stderr).toBe('warning: key dev has spent 81% of its $20/month budget. It resets on 2026-12-01.\n')
  })

  const shown: [string, number, string, string][] = [
    ['0.10/day', 45_678_999, '$0.045 of $0.10/day (45%)', 'ok'],
    ['5', 4_999_999_999, '$4.99 of $5 total (99%)', 'warning'],
    ['1.5/week', 1_500_000_000, '$1.50 of $1.50/week (100%)', 'spent'],
    ['0.000001/day', 1_234, '$0.0000012 of $0.000001/day (123%)', 'spent'],
    ['20/month', 4_219_999, '$0.0042 of $20/month (0%)', 'ok'],
    ['20', 7, '$0.000000007 of $20 total (0%)', 'ok'],
    ['20', 0, '$0.00 of $20 total (0%)', 'ok'],
  ]
  for (const [budget, nanoUsd, cell, state] of shown) {
    test(`shows ${nanoUsd} nano-dollars of ${budget} as ${cell}`, async () => {
      const { id } = await json('keys', 'create', '--name', 'dev', '--budget', budget)
      spend(id, nanoUsd)
      expect((await bench.run('keys', 'list')).stdout).toContain(`  ${cell}\n`)
      expect(await budgetOf()).toMatchObject({ budget_state: state })
    })
  }

  test("shows each key's spend this month and in total, and its last use", async () => {
    const { id } = await json('keys', 'create', '--name', 'dev')
    const other = await json('keys', 'create', '--name', 'other', '--budget', '2/day')
    expect(await budgetOf()).toMatchObject({ spent_month_nano_usd: 0, spent_total_nano_usd: 0, last_used_ms: null })
    expect((await bench.run('keys', 'list')).stdout).toMatch(/other .*\n {10}never used\n$/)
    spend(id, 200 * CENT, Date.UTC(2026, 10) - 1)
    spend(id, 30 * CENT, Date.UTC(2026, 10))
    spend(id, 4 * CENT)
    spend(other.id, 5 * CENT, HOUR - 86_400_000)
    const { keys } = await json('keys', 'list')
    expect(keys).toMatchObject([
      { spent_month_nano_usd: 34 * CENT, spent_total_nano_usd: 234 * CENT, spent_nano_usd: null },
      { spent_month_nano_usd: 5 * CENT, spent_total_nano_usd: 5 * CENT, spent_nano_usd: 0 },
    ])
    expect(keys[0]).toMatchObject({ last_used_ms: HOUR, last_model: 'acme/large' })
    expect(await json('keys', 'show', 'dev')).toEqual(keys[0])
    expect((await bench.run('keys', 'list')).stdout).toContain(
      '\n          $0.34 this month, $2.34 total; last used 2026-11-21 12:00 UTC for\n          acme/large\n',
    )
  })

  test('warns of no revoked key, and has no empty column', async () => {
    const { id } = await json('keys', 'create', '--name', 'dev')
    expect((await bench.run('keys', 'list')).stdout).toMatch(/^ID +NAME +KEY\n/)
    spend(id, CENT)
    expect(await budgetOf()).toMatchObject({
      team: null,
      budget_nano_usd: null,
      spent_nano_usd: null,
      budget_state: null,
    })
    const other = await json('keys', 'create', '--name', 'other', '--budget', '0.01', '--rpm', '5')
    spend(other.id, CENT)
    const { stdout, stderr } = await bench.run('keys', 'list')
    expect(stdout).toMatch(
      /^ID +NAME +KEY +STATUS +BUDGET\n[\s\S]*other +\S+ +budget spent +\$0.01 of \$0.01 total \(100%\)\n {10}5 rpm\n/,
    )
    expect(stderr).toBe('warning: key other has spent all of its $0.01 total budget. It never resets.\n')
    expect(await json('keys', 'revoke', other.id)).toMatchObject({ spent_nano_usd: CENT, budget_state: 'spent' })
    expect((await bench.run('keys', 'list')).stderr).toBe('1 revoked or expired (show with --all).\n')
  })
})
