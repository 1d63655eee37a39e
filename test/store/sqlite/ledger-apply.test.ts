/** Applying ledger records: idempotent, order-free, and the rollup always the sum of the rows. */
import { describe, expect, test } from 'bun:test'
import type { LedgerRecord } from '../../../src/store/ledger-rows.ts'
import { createLedgerWriter } from '../../../src/store/sqlite/ledger-apply.ts'
import {
  abandonOthers,
  contentsOf,
  createFolder,
  findingsOf,
  HOUR,
  opening,
  settling,
  toCall,
  toOpen,
  toSettled,
  toSettledCall,
} from '../../ledger/fixture.ts'
import { forEachTest } from '../../support/lifetime.ts'
import { createPicker } from '../../support/random.ts'

const folder = forEachTest(createFolder)

const createHere = () => createLedgerWriter(folder.database)

/** What the audit says of the rollup; open rows are another matter. */
function differences(): unknown[] {
  return findingsOf(folder.database, folder.path).filter((finding) => finding.kind === 'difference')
}

describe('any order and repetition of the same records', () => {
  /** Some requests settle, some never do, some elsewhere than they were opened, over two hours and three cells. */
  const pick = createPicker(3)
  const statuses = ['ok', 'failed', 'cut'] as const
  const rows = Array.from({ length: 12 }, (_, i) =>
    toOpen({
      instance: 'gone',
      keyId: i % 3 === 0 ? 'key-b' : 'key-a',
      createdMs: HOUR + (i % 2) * 3_600_000 + i,
      reservedNanoUsd: 100 + i,
    }),
  )
  const records = rows.flatMap((row, i): LedgerRecord[] => {
    if (i % 4 === 3) return [opening(row)]
    const outcome = {
      status: statuses[i % 3] ?? 'ok',
      upstream: i % 5 === 0 ? 'fallback' : 'paid',
      estimated: i % 2,
      durationMs: 10 * i,
      firstTokenMs: i % 2 === 0 ? null : i,
      costNanoUsd: 1_000 + i,
      promptTokens: i,
      completionTokens: 2 * i,
    }
    return [opening(row), settling(toSettled(row, outcome))]
  })

  test('gives the same ledger and the same rollup', () => {
    const applier = createHere()
    applier.apply(records)
    abandonOthers(folder.database, 'here')
    const expected = contentsOf(folder.database)
    expect(expected.requests).toHaveLength(rows.length)
    expect(differences()).toEqual([])

    for (let round = 0; round < 60; round++) {
      folder.database.run('DELETE FROM requests')
      folder.database.run('DELETE FROM usage_hourly')
      folder.database.run('DELETE FROM usage_daily')
      folder.database.run('DELETE FROM key_uses')
      const shuffled = [...records, ...records, ...records.slice(0, pick(records.length))]
        .map((record) => ({ record, at: pick(1 << 30) }))
        .sort((a, b) => a.at - b.at)
        .map(({ record }) => record)
      for (let at = 0; at < shuffled.length; ) {
        const size = 1 + pick(6)
        expect(applier.apply(shuffled.slice(at, at + size))).toEqual([])
        if (pick(3) === 0) abandonOthers(folder.database, 'here')
        at += size
      }
      abandonOthers(folder.database, 'here')
      expect({ round, ...contentsOf(folder.database) }).toEqual({ round, ...expected })
      expect(differences()).toEqual([])
    }
  })
})

test('an abandoned row costs what it had reserved, estimated, and counts as an error', () => {
  const applier = createHere()
  const row = toOpen({ instance: 'gone' })
  applier.apply([opening(row), opening(toOpen())])
  expect(abandonOthers(folder.database, 'here')).toBe(1)
  const cell = {
    requests: 1,
    errors: 1,
    cost_nano_usd: 9_000,
    estimated_cost_nano_usd: 9_000,
    completion_tokens: 1_000,
  }
  expect(contentsOf(folder.database).rollup).toEqual([expect.objectContaining(cell)])
})

test('a record of an older version, which knew no modes, searches or charges of upstreams, has none of them', () => {
  const row = toSettled(toOpen(), { attempts: 2 })
  const call = toSettledCall(toCall(row, 2))
  const [older, olderCall] = [row, call].map((each) => {
    const { mode, reportedNanoUsd, unpriced, toolPromptTokens, webSearches, ...rest } = each
    return rest
  })
  createHere().apply([settling(older as typeof row, [olderCall as typeof call])])
  const none = { mode: null, reported_nano_usd: null, unpriced: 0, tool_prompt_tokens: 0, web_searches: 0 }
  for (const table of ['requests', 'calls'])
    expect(folder.database.query(`SELECT * FROM ${table}`).get()).toMatchObject({ ...none, status: 'ok' })
  expect(folder.database.query('SELECT * FROM usage_hourly').get()).toMatchObject({
    requests: 1,
    unpriced: 0,
    web_searches: 0,
  })
  expect(differences()).toEqual([])
})

test('a database that refuses throws, takes nothing, and takes the same records afterwards', () => {
  const applier = createHere()
  const other = folder.other()
  const row = toOpen()
  other.run('BEGIN IMMEDIATE')
  expect(() => applier.apply([opening(row), settling(toSettled(row))])).toThrow('locked')
  other.run('ROLLBACK')
  applier.apply([opening(row), settling(toSettled(row))])
  expect(contentsOf(folder.database).rollup).toEqual([expect.objectContaining({ requests: 1 })])
  expect(differences()).toEqual([])
})

test('a disk that fills within a transaction leaves no trace of it, in memory neither', () => {
  const applier = createHere()
  const { page_count } = folder.database.query<{ page_count: number }, []>('PRAGMA page_count').get() ?? {
    page_count: 0,
  }
  folder.database.run(`PRAGMA max_page_count = ${page_count}`)
  const rows = Array.from({ length: 200 }, () => toOpen({ user: 'x'.repeat(256) }))
  const records = rows.flatMap((row) => [opening(row), settling(toSettled(row))])
  expect(() => applier.apply(records)).toThrow('full')
  expect(contentsOf(folder.database)).toEqual({ requests: [], calls: [], rollup: [], days: [], uses: [] })
  folder.database.run('PRAGMA max_page_count = 100000')
  applier.apply(records)
  expect(contentsOf(folder.database).rollup).toEqual([expect.objectContaining({ requests: 200 })])
  expect(differences()).toEqual([])
})
