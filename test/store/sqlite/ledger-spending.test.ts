/** What lists of keys and teams learn from the ledger: sums by period for all of them at once, and when each was last used. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import type { LedgerRecord } from '../../../src/store/ledger-rows.ts'
import { createLedgerWriter } from '../../../src/store/sqlite/ledger-apply.ts'
import { createLedgerReader, SPENDING_QUERIES } from '../../../src/store/sqlite/ledger-reader.ts'
import {
  abandonOthers,
  calling,
  createFolder,
  type Folder,
  HOUR,
  opening,
  settling,
  since,
  toCall,
  toOpen,
  toSettled,
} from '../../ledger/fixture.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const TODAY = HOUR - (HOUR % DAY_MS)
/** As long as they should not be told apart by mistake. */
const SPANS = {
  day: { fromMs: TODAY, untilMs: TODAY + DAY_MS },
  week: { fromMs: TODAY - DAY_MS, untilMs: TODAY + DAY_MS },
  month: { fromMs: TODAY - 2 * DAY_MS, untilMs: TODAY + DAY_MS },
  total: since(0),
}

let folder: Folder
let store: ReturnType<typeof createLedgerWriter>
const commit = (...records: LedgerRecord[]) => store.apply(records)
const spending = (kind: 'key' | 'team', id?: string) =>
  Object.fromEntries(createLedgerReader(folder.database).spending(kind, SPANS, id))
const lastUse = () => spending('key')['key-a']?.lastUse
beforeEach(() => {
  folder = createFolder()
  store = createLedgerWriter(folder.database)
})
afterEach(() => folder.close())

test('each key has in each period what was settled in it, and all that its open requests have reserved', () => {
  const at = (days: number, costNanoUsd: number, keyId = 'key-a') =>
    settling(toSettled(toOpen({ createdMs: HOUR + days * DAY_MS, keyId }), { costNanoUsd }))
  commit(at(0, 1), at(-1, 10), at(-2, 100), at(-3, 1_000), at(1, 10_000), at(0, 7, 'key-b'))
  const open = toOpen({ createdMs: TODAY - 1, reservedNanoUsd: 20 })
  commit(opening(open), calling(toCall(open, 2, { reservedNanoUsd: 300 })))
  commit(opening(toOpen({ keyId: 'key-c', reservedNanoUsd: 5 })))
  const found = spending('key')
  expect(found).toMatchObject({
    'key-a': { nanoUsd: { day: 1, week: 331, month: 431, total: 11_431 } },
    'key-b': { nanoUsd: { day: 7, week: 7, month: 7, total: 7 } },
    'key-c': { nanoUsd: { day: 5, week: 5, month: 5, total: 5 } },
  })
  expect(Object.keys(found)).toHaveLength(3)
  for (const [id, one] of Object.entries(found)) expect(spending('key', id)).toEqual({ [id]: one })
  expect(spending('key', 'nobody')).toEqual({})
})

test('a team has what its keys spent while they were in it', () => {
  const teamId = 'team-a'
  commit(
    settling(toSettled(toOpen({ teamId }), { costNanoUsd: 1 })),
    settling(toSettled(toOpen({ teamId, keyId: 'key-b' }), { costNanoUsd: 10 })),
    settling(toSettled(toOpen(), { costNanoUsd: 100 })),
    opening(toOpen({ teamId, reservedNanoUsd: 1_000 })),
    opening(toOpen({ reservedNanoUsd: 10_000 })),
  )
  const nanoUsd = { day: 1_011, week: 1_011, month: 1_011, total: 1_011 }
  expect(spending('team')).toEqual({ 'team-a': { nanoUsd, lastUse: null } })
  expect(spending('team', 'team-a')).toEqual(spending('team'))
})

describe('the last use of a key', () => {
  const first = toOpen({ createdMs: HOUR, model: 'acme/large' })
  const last = toOpen({ createdMs: HOUR + 5, model: 'acme/small' })
  const use = { atMs: HOUR + 5, model: 'acme/small' }

  test('is its newest request, whichever ends or is applied last, and however often', () => {
    commit(opening(first))
    expect(lastUse()).toEqual({ atMs: HOUR, model: 'acme/large' })
    commit(opening(last), settling(toSettled(last)))
    expect(lastUse()).toEqual(use)
    commit(settling(toSettled(first)))
    commit(opening(first), settling(toSettled(first)), opening(first))
    expect(lastUse()).toEqual(use)
  })

  test('is one that failed, or that nobody saw the end of', () => {
    commit(settling(toSettled(first, { status: 'failed', httpStatus: 502 })))
    expect(lastUse()).toEqual({ atMs: HOUR, model: 'acme/large' })
    commit(opening({ ...last, instance: 'gone' }))
    abandonOthers(folder.database, 'here')
    expect(lastUse()).toEqual(use)
  })

  test('stays when its request is taken off the record', () => {
    commit(settling(toSettled(last)))
    folder.database.run('DELETE FROM requests')
    expect(lastUse()).toEqual(use)
  })

  test('is not of a transaction that was undone', () => {
    const other = folder.other()
    other.run('BEGIN IMMEDIATE')
    expect(() => commit(settling(toSettled(last)))).toThrow('locked')
    other.run('ROLLBACK')
    commit(settling(toSettled(first)))
    expect(lastUse()).toEqual({ atMs: HOUR, model: 'acme/large' })
  })
})

describe('reading for a list goes once through the sums of days, and never through all hours or requests', () => {
  const OF_ALL = ['SEARCH usage_daily USING PRIMARY KEY (dimension=?)', 'SCAN requests USING INDEX requests_open']
  for (const [kind, { all, one }] of Object.entries(SPENDING_QUERIES)) {
    const planOf = (sql: string) =>
      folder.database
        .query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${sql}`)
        .all()
        .map(({ detail }) => detail)
        .filter((detail) => /^(SCAN|SEARCH) (requests|usage_)/.test(detail))

    test(`of every ${kind}`, () => {
      expect(planOf(all)).toEqual(OF_ALL)
    })

    test(`of one ${kind}, through that part of it`, () => {
      const [rollup, requests, ...more] = planOf(one)
      expect(rollup).toMatch(new RegExp(`^SEARCH usage_hourly .*INDEX usage_hourly_${kind} \\(${kind}_id=\\?\\)$`))
      expect([requests, ...more]).toEqual(['SCAN requests USING INDEX requests_open'])
    })
  }
})
