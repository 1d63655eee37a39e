/** Reports of failures: every request with an error, by its code, once, read only from an index. */
import { expect, test } from 'bun:test'
import { type FailuresOptions, reportFailures } from '../../src/ledger/failures.ts'
import type { LedgerRecord } from '../../src/store/ledger-rows.ts'
import { NEXT_FAILURE, toFailureStatement } from '../../src/store/reports/request-reader.ts'
import { DIALECT } from '../../src/store/sqlite/engine.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { pruneSlice } from '../../src/store/sqlite/prune.ts'
import { forEachTest } from '../support/lifetime.ts'
import { abandonOthers, createFolder, HOUR, opening, settling, toOpen, toSettled } from './fixture.ts'
import { overStores } from './stores.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const NO_NAMES = { keys: [], teams: [], aliases: [] }

const settle = (fields: Parameters<typeof toSettled>[1] = {}) => settling(toSettled(toOpen(fields), fields))
const fail = (errorCode: string | null, fields: Parameters<typeof toSettled>[1] = {}) =>
  settle({ status: 'failed', errorCode, ...fields })

overStores((folder) => {
  const store = () => createLedgerWriter(folder.database)
  const commit = (...records: LedgerRecord[]) => store().apply(records)

  async function report(options: Partial<FailuresOptions> = {}, clock = () => 0) {
    const asked = { by: 'day', sinceMs: 0, untilMs: null, where: {}, limit: 50, limitMs: 1_000, ...options } as const
    return reportFailures((await folder.readers()).failures, NO_NAMES, asked, { nowMs: HOUR + 3 * DAY_MS, clock })
  }
  const told = async (options: Partial<FailuresOptions> = {}) =>
    (await report(options)).rows.map(({ atMs, status, errorCode, requests }) => [atMs, status, errorCode, requests])

  test('failed, interrupted, and abandoned requests are reported by code and time; successful and open ones are not', async () => {
    const open = opening(toOpen())
    commit(settle(), open, fail('upstream_timeout'), fail('upstream_timeout', { createdMs: HOUR + HOUR_MS }))
    commit(
      settle({ status: 'cut', errorCode: 'upstream_failed' }),
      fail('upstream_timeout'),
      fail(null, { createdMs: HOUR + HOUR_MS }),
      fail(null, { createdMs: HOUR + HOUR_MS }),
    )
    expect(await told({ by: 'hour' })).toEqual([
      [HOUR, 'failed', 'upstream_timeout', 2],
      [HOUR, 'cut', 'upstream_failed', 1],
      [HOUR + HOUR_MS, 'failed', null, 2],
      [HOUR + HOUR_MS, 'failed', 'upstream_timeout', 1],
    ])
    abandonOthers(folder.database, 'elsewhere')
    expect((await told()).filter(([, status]) => status === 'abandoned')).toEqual([
      [HOUR - 12 * HOUR_MS, 'abandoned', 'abandoned', 1],
    ])
    // Its outcome arrives later.
    if (open.kind === 'open') commit(settling({ ...toSettled(open.row, {}), ...{ status: 'ok' } }))
    expect((await told()).some(([, status]) => status === 'abandoned')).toBeFalse()
  })

  test('they are only of the period, to the ms, and of the filters', async () => {
    for (const [at, keyId, model, upstream, teamId] of [
      [0, 'a', 'acme/large', 'paid', null],
      [1, 'b', 'acme/small', 'paid', 'red'],
      [DAY_MS, 'a', 'acme/small', 'spare', 'red'],
    ] as const)
      commit(fail('upstream_failed', { createdMs: HOUR + at, keyId, model, upstream, teamId }))
    const count = async (options: Partial<FailuresOptions>) =>
      (await report(options)).rows.reduce((sum, { requests }) => sum + requests, 0)
    expect([
      await count({ sinceMs: HOUR + 1 }),
      await count({ untilMs: HOUR + DAY_MS }),
      await count({ sinceMs: HOUR, untilMs: HOUR + 1 }),
    ]).toEqual([2, 2, 1])
    expect(await count({ where: { ownKeys: ['b'] } })).toBe(1)
    expect([await count({ where: { model: ['acme/s*'] } }), await count({ where: { upstream: ['spare'] } })]).toEqual([
      2, 1,
    ])
  })

  test('codes beyond a number are combined, except the most frequent ones', async () => {
    commit(fail('a'), fail('b'), fail('b', { createdMs: HOUR + DAY_MS }), fail('c'))
    expect(await report({ limit: 1 })).toMatchObject({ rest: 2, rows: [{ errorCode: 'b' }, { errorCode: 'b' }] })
  })

  test('if requests were deleted, the report begins with the first complete hour', async () => {
    commit(fail('a'), fail('b', { createdMs: HOUR + DAY_MS }))
    await folder.ship()
    pruneSlice(folder.database, { untilMs: HOUR + HOUR_MS, after: '', limit: 100, spared: [] }, HOUR)
    expect(await report()).toMatchObject({ sinceMs: HOUR + HOUR_MS, rows: [{ errorCode: 'b' }] })
  })

  test('a report that takes too long is stopped', async () => {
    let now = 0
    commit(fail('a'), fail('a', { createdMs: HOUR + DAY_MS }))
    await expect(report({}, () => (now += 600))).rejects.toThrow('longer than 1 s')
  })
})

const folder = forEachTest(createFolder)

test('it reads an index that only has failures, and no row of the table', () => {
  const planOf = (sql: string) =>
    folder.database
      .query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${sql}`)
      .all()
      .map(({ detail }) => detail)
      .filter((detail) => /^(SEARCH|SCAN)/.test(detail))
  const where = { ownKeys: ['a'], key: ['a'], team: ['t'], model: ['acme/*'], upstream: ['paid'] }
  for (const sql of [toFailureStatement(DIALECT, {}).sql, toFailureStatement(DIALECT, where).sql, NEXT_FAILURE])
    expect(planOf(sql)).toEqual([
      'SEARCH requests USING COVERING INDEX requests_unwell (created_ms>? AND created_ms<?)',
    ])
})
