/** The ledger in SQLite keeps the contract, and reads by its indexes what limits and lists learn from it. */
import { describe, expect, test } from 'bun:test'
import { SPENDING_QUERIES } from '../../../src/store/reports/spend-reader.ts'
import { createLeases, createLedgerWriter } from '../../../src/store/sqlite/ledger-apply.ts'
import { createLedgerAudit } from '../../../src/store/sqlite/ledger-audit.ts'
import { createLedgerReader, SPEND_QUERIES } from '../../../src/store/sqlite/ledger-reader.ts'
import { createReaders } from '../../../src/store/sqlite/readers.ts'
import { LAST_REFUSALS } from '../../../src/store/sqlite/refusals.ts'
import { createFolder, HOUR, settling, since, toOpen, toSettled } from '../../ledger/fixture.ts'
import { forEachTest } from '../../support/lifetime.ts'
import { testLedgerStore } from '../ledger-store.ts'

testLedgerStore('SQLite', () => {
  const { database, path, close } = createFolder()
  return {
    writer: createLedgerWriter(database),
    reader: createLedgerReader(database),
    spend: createReaders(database).spend,
    leases: createLeases(database),
    audit: createLedgerAudit(database, path),
    close,
  }
})

const folder = forEachTest(createFolder)

describe('the last use of a key', () => {
  const [first, last] = [toOpen({ createdMs: HOUR }), toOpen({ createdMs: HOUR + 5, model: 'acme/small' })]
  const commit = (row: typeof first) => createLedgerWriter(folder.database).apply([settling(toSettled(row))])
  const ALL = { day: since(0), week: since(0), month: since(0), total: since(0) }
  const lastUse = async () => (await createReaders(folder.database).spend.spending('key', ALL)).get('key-a')?.lastUse

  test('stays when its request is taken off the record', async () => {
    commit(last)
    folder.database.run('DELETE FROM requests')
    expect(await lastUse()).toEqual({ atMs: HOUR + 5, model: 'acme/small' })
  })

  test('is not of a transaction that was undone', async () => {
    const other = folder.other()
    other.run('BEGIN IMMEDIATE')
    expect(() => commit(last)).toThrow('locked')
    other.run('ROLLBACK')
    commit(first)
    expect(await lastUse()).toEqual({ atMs: HOUR, model: 'acme/large' })
  })
})

describe('reading never goes through all requests', () => {
  const ALLOWED = /^SCAN (CONSTANT ROW|keys|requests USING INDEX requests_open)$/
  for (const [name, sql] of Object.entries(SPEND_QUERIES)) {
    test(`for ${name}`, () => {
      const plan = folder.database
        .query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${sql}`)
        .all()
        .map(({ detail }) => detail)
      expect(plan.filter((detail) => detail.startsWith('SCAN') && !ALLOWED.test(detail))).toEqual([])
      const found = plan.filter((detail) => /^SEARCH (requests|usage_hourly)/.test(detail))
      const ofRequests = name.startsWith('recent') ? ['SEARCH requests USING PRIMARY KEY (id>? AND id<?)'] : []
      const ofHours = `SEARCH usage_hourly USING ${name === 'key' ? 'COVERING ' : ''}INDEX usage_hourly_${name} (${name}_id=? AND hour_ms>? AND hour_ms<?)`
      expect([...new Set(found)]).toEqual(name === 'key' || name === 'team' ? [ofHours] : ofRequests)
    })
  }
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

    test(`of one ${kind}, through that part of each day`, () => {
      expect(planOf(one)).toEqual([
        'SEARCH usage_daily USING PRIMARY KEY (dimension=? AND day_ms=? AND value=?)',
        'SEARCH usage_daily USING PRIMARY KEY (dimension=?)',
        'SCAN requests USING INDEX requests_open',
      ])
    })

    test(`the refusals of each ${kind} by their index, the last first`, () => {
      const plan = folder.database
        .query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${LAST_REFUSALS[kind as keyof typeof LAST_REFUSALS]}`)
        .all()
        .map(({ detail }) => detail)
        .filter((detail) => / (refusals_hourly|last) /.test(detail))
      const by = (sort: string, which: string) => `SEARCH ${sort} INDEX refusals_hourly_${kind} (${kind}_id=?${which})`
      expect(plan.toSorted()).toEqual(
        [
          by('last USING COVERING', ' AND last_ms=?'),
          by('refusals_hourly USING COVERING', ''),
          by('refusals_hourly USING', ' AND last_ms>?'),
        ].toSorted(),
      )
    })
  }
})
