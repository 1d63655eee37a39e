/** What needs attention, over the admin API. */
import { expect, test } from 'bun:test'
import { DAY_MS, dayOf, HOUR_MS, hourOf } from '../../src/domain/time.ts'
import { createKey, createTeam } from '../../src/keys/service.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { HOUR, settling, toOpen, toSettled } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createFixture } from './fixture.ts'

const fixture = forEachTest(createFixture)

const BUDGET = { nanoUsd: 1_000, period: 'month' } as const
const by = { actor: 'test', nowMs: HOUR }
const spend = (of: { keyId: string; teamId?: string }) => {
  const row = toSettled(toOpen({ teamId: null, ...of }), { costNanoUsd: 1_000 })
  createLedgerWriter(fixture.folder.database).apply([settling(row)])
}

test('a spent budget shows at once, with the action of each role, and disappears once it is raised', async () => {
  const owner = await fixture.signIn('owner')
  const viewer = await fixture.signIn('viewer')
  const { key } = await createKey(fixture.store, { name: 'ann', budget: BUDGET }, by)
  spend({ keyId: key.id })
  const seen = (await owner.ask('GET', '/attention')).body.findings
  expect(seen).toMatchObject([{ kind: 'budget_spent', severity: 'problem', action: { label: 'Raise budget' } }])
  expect((await viewer.ask('GET', '/attention')).body.findings).toMatchObject([{ action: { label: 'View key' } }])
  await owner.ask('PATCH', `/keys/${key.id}`, { body: { budget_nano_usd: 1_000_000_000, budget_period: 'month' } })
  expect((await owner.ask('GET', '/attention')).body).toEqual({ findings: [], problems: 0, warnings: 0 })
})

test('members see only budgets of their own keys and of their team', async () => {
  const { key } = await createKey(fixture.store, { name: 'of another', budget: BUDGET }, by)
  const team = await createTeam(fixture.store, { name: 'research', budget: BUDGET }, by)
  spend({ keyId: key.id, teamId: team.id })
  const member = await fixture.signIn('member', 'mia', 'research')
  expect((await member.ask('GET', '/attention')).status).toBe(403)
  const { findings } = (await member.ask('GET', '/own/attention')).body
  expect(findings).toMatchObject([
    {
      kind: 'budget_spent',
      subject: { type: 'team', name: 'research' },
      action: { label: 'View team', path: '/team' },
    },
  ])
})

test('usage without a price counts in full, however many models have it', async () => {
  const owner = await fixture.signIn('owner')
  const models = JSON.stringify(Array.from({ length: 20_005 }, (_, at) => `acme/${at}`))
  fixture.folder.database.run(
    `INSERT INTO usage_hourly (hour_ms, key_id, model, upstream, requests, unpriced)
     SELECT ?, 'k', value, 'acme', 2, 1 FROM json_each(?)`,
    [dayOf(HOUR) - HOUR_MS, models],
  )
  const { findings } = (await owner.ask('GET', '/attention')).body
  expect(findings.map(({ message }: { message: string }) => message)).toEqual([
    expect.stringMatching(/^20000 models had usage without a price .* and 19995 more\.$/),
    expect.stringMatching(/^5 requests to other models in the last day had usage without a price/),
  ])
})

test('errors above normal are compared with the week before, even in the first hour of a day, without requests that clients stopped', async () => {
  const owner = await fixture.signIn('owner')
  for (const nowMs of [HOUR + DAY_MS, dayOf(HOUR) + 2 * DAY_MS + 60_000]) {
    fixture.clock.ms = nowMs
    const write = (createdMs: number, ok: number, failed: number) =>
      createLedgerWriter(fixture.folder.database).apply(
        Array.from({ length: ok + failed }, (_, at) =>
          settling(toSettled(toOpen({ createdMs }), at < ok ? {} : { status: 'failed' })),
        ),
      )
    const stop = (createdMs: number, count: number) =>
      createLedgerWriter(fixture.folder.database).apply(
        Array.from({ length: count }, () =>
          settling(toSettled(toOpen({ createdMs }), { status: 'cut', errorCode: 'client_closed_request' })),
        ),
      )
    write(nowMs - 3 * DAY_MS, 99, 1)
    stop(nowMs - 3 * DAY_MS, 50)
    write(hourOf(nowMs) - 60_000, 6, 6)
    write(hourOf(nowMs), 0, 6)
    stop(hourOf(nowMs), 4)
    const { findings } = (await owner.ask('GET', '/attention')).body
    const found = findings
      .map(({ message }: { message: string }) => message)
      .filter((text: string) => /failed/.test(text))
    expect([nowMs, found]).toEqual([
      nowMs,
      [expect.stringMatching(/^12 of 22 requests failed .*54\.5%, usually [04]\.\d%/)],
    ])
  }
})
