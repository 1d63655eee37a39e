/**
 * A charge is worked out again from the ledger alone, and one that does not come out is told. That every charge of a gateway comes
 * out, the tests in `gateway/` prove: each ends with a look at all that it was charged.
 */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { PricingItem } from '../../src/domain/usage.ts'
import { readCharge } from '../../src/ledger/charge.ts'
import type { LedgerRecord } from '../../src/store/ledger-rows.ts'
import { createLedgerStore } from '../../src/store/sqlite/ledger-apply.ts'
import { createRequestReader } from '../../src/store/sqlite/request-reader.ts'
import { calling, createFolder, type Folder, HOUR, opening, settling, toCall, toOpen, toSettled } from './fixture.ts'

let folder: Folder
beforeEach(() => {
  folder = createFolder()
  for (const [id, item] of Object.entries(PRICES))
    folder.database
      .query('INSERT INTO prices (id, model, pricing, created_ms) VALUES (?, ?, ?, ?)')
      .run(id, 'acme/large', JSON.stringify([item]), HOUR)
})
afterEach(() => folder.close())

const PRICES: Record<string, PricingItem> = {
  'price-1': { prompt: '0.00000001', completion: '0.00000002', input_cache_read: '0.000000001' },
  'price-2': {
    prompt: '0.0000001',
    completion: '0.0000002',
    input_cache_write: '0.0000003',
    input_cache_write_1h: '0.000001',
  },
}

/** 8 read, 3 of them from a cache; 5 written. */
const USED = { promptTokens: 8, cachedTokens: 3, completionTokens: 5, reasoningTokens: 0 }
const COST = 5 * 10 + 3 * 1 + 5 * 20

const row = toOpen()

function chargeOf(...records: LedgerRecord[]) {
  const store = createLedgerStore(folder.database, async () => true)
  store.apply(records)
  return () => {
    const reader = createRequestReader(folder.database)
    const request = reader.get(row.id)
    if (request === null) throw new Error('nothing is on record')
    const { calls, ...rest } = readCharge(reader, request)
    return { ...rest, calls: calls.map(({ basis, workedOutNanoUsd }) => [basis, workedOutNanoUsd]) }
  }
}

test('tokens of each kind times the price that the row names are what was charged', () => {
  const read = chargeOf(settling(toSettled(row, { ...USED, costNanoUsd: COST })))
  expect(read()).toMatchObject({ calls: [['tokens', COST]], workedOutNanoUsd: COST, agrees: true })
  folder.database.run('UPDATE requests SET cost_nano_usd = cost_nano_usd + 1')
  expect(read()).toMatchObject({ workedOutNanoUsd: COST, agrees: false })
})

test('what was kept in a cache for an hour is told from what was kept for less', () => {
  const used = { promptTokens: 8, cachedTokens: 0, cacheWriteTokens: 5, cacheWrite1hTokens: 2, completionTokens: 0 }
  const costNanoUsd = 3 * 100 + 3 * 300 + 2 * 1_000
  const settled = toSettled(row, { ...used, reasoningTokens: 0, priceId: 'price-2', costNanoUsd })
  expect(chargeOf(settling(settled))().agrees).toBe(true)
})

test('a price that is gone leaves nothing to work out, and one that is not there is free', () => {
  const read = chargeOf(settling(toSettled(row, { ...USED, costNanoUsd: COST })))
  folder.database.run('DELETE FROM prices')
  expect(read()).toMatchObject({ calls: [['unknown', null]], workedOutNanoUsd: null, agrees: false })
  folder.database.run('UPDATE requests SET price_id = NULL, cost_nano_usd = 0')
  expect(read()).toMatchObject({ calls: [['free', 0]], agrees: true })
})

test('a request under way has no charge yet, and one that a start gave up costs what its calls had reserved', () => {
  const read = chargeOf(opening(row), calling(toCall(row, 2)), calling(toCall(row, 3, { reason: 'retry' })))
  expect(read()).toMatchObject({
    calls: [
      ['open', null],
      ['open', null],
      ['open', null],
    ],
    agrees: null,
  })
  createLedgerStore(folder.database, async () => true).abandonOthers('another')
  const calls = [
    ['reserve', 9_000],
    ['reserve', 9_100],
    ['reserve', 9_100],
  ]
  expect(read()).toMatchObject({ calls, workedOutNanoUsd: 27_200, agrees: true })
})

test('what a fallback was made in the place of costs nothing where nobody knows how it ended', () => {
  const read = chargeOf(
    opening(row),
    calling(toCall(row, 2, { reason: 'fallback', endedBefore: '[{"number":1,"status":"failed"}]' })),
  )
  createLedgerStore(folder.database, async () => true).abandonOthers('another')
  expect(read()).toMatchObject({
    calls: [
      ['nothing', 0],
      ['reserve', 9_100],
    ],
    agrees: true,
  })
})
