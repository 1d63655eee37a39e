/**
 * A charge is recalculated from the ledger only, and a mismatch is reported. The tests in `gateway/` show that every
 * charge of a gateway matches: each ends with a check of all charges.
 */
import { beforeEach, expect, test } from 'bun:test'
import { toCharge } from '../../src/domain/price.ts'
import { NO_USAGE, type PricingItem } from '../../src/domain/usage.ts'
import { isFar, readCharge } from '../../src/ledger/charge.ts'
import { type LedgerRecord, toFirstCall } from '../../src/store/ledger-rows.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { createReaders } from '../../src/store/sqlite/readers.ts'
import { forEachTest } from '../support/lifetime.ts'
import {
  abandonOthers,
  calling,
  createFolder,
  HOUR,
  opening,
  settling,
  toCall,
  toOpen,
  toSettled,
  toSettledCall,
} from './fixture.ts'

const folder = forEachTest(createFolder)
beforeEach(() => {
  for (const [id, item] of Object.entries(PRICES))
    folder.database
      .query('INSERT INTO prices (id, model, pricing, created_ms) VALUES (?, ?, ?, ?)')
      .run(id, 'acme/large', JSON.stringify([item]), HOUR)
})

const PRICES: Record<string, PricingItem> = {
  'price-1': { prompt: '0.00000001', completion: '0.00000002', input_cache_read: '0.000000001' },
  'price-2': {
    prompt: '0.0000001',
    completion: '0.0000002',
    input_cache_write: '0.0000003',
    input_cache_write_1h: '0.000001',
  },
}

/** Input 8, 3 of them from a cache; output 5. */
const USED = { promptTokens: 8, cachedTokens: 3, completionTokens: 5, reasoningTokens: 0 }
const COST = 5 * 10 + 3 * 1 + 5 * 20

const row = toOpen()

function chargeOf(...records: LedgerRecord[]) {
  const store = createLedgerWriter(folder.database)
  store.apply(records)
  return async () => {
    const reader = createReaders(folder.database).requests
    const request = await reader.get(row.id)
    if (request === null) throw new Error('nothing is on record')
    const { calls, ...rest } = await readCharge(reader, request)
    return { ...rest, calls: calls.map(({ basis, recalculatedNanoUsd }) => [basis, recalculatedNanoUsd]) }
  }
}

test("the charge is the tokens of each kind times the row's price", async () => {
  const read = chargeOf(settling(toSettled(row, { ...USED, costNanoUsd: COST })))
  expect(await read()).toMatchObject({ calls: [['tokens', COST]], recalculatedNanoUsd: COST, matchesLedger: true })
  folder.database.run('UPDATE requests SET cost_nano_usd = cost_nano_usd + 1')
  expect(await read()).toMatchObject({ recalculatedNanoUsd: COST, matchesLedger: false })
})

test('cache writes for an hour are distinguished from shorter ones', async () => {
  const used = { promptTokens: 8, cachedTokens: 0, cacheWriteTokens: 5, cacheWrite1hTokens: 2, completionTokens: 0 }
  const costNanoUsd = 3 * 100 + 3 * 300 + 2 * 1_000
  const settled = toSettled(row, { ...used, reasoningTokens: 0, priceId: 'price-2', costNanoUsd })
  expect((await chargeOf(settling(settled))()).matchesLedger).toBe(true)
})

test("an upstream's reported charge is the charge, whatever its tokens would cost", async () => {
  const read = chargeOf(settling(toSettled(row, { ...USED, costNanoUsd: 7, reportedNanoUsd: 7 })))
  expect(await read()).toMatchObject({ calls: [['reported', 7]], recalculatedNanoUsd: 7, matchesLedger: true })
  const { calls } = await readCharge(
    createReaders(folder.database).requests,
    (await createReaders(folder.database).requests.get(row.id)) as never,
  )
  expect(calls[0]).toMatchObject({ charge: { nanoUsd: COST }, reportedNanoUsd: 7 })
  expect(calls.map(isFar)).toEqual([true])
  folder.database.run('UPDATE requests SET cost_nano_usd = 8')
  expect((await read()).matchesLedger).toBe(false)
})

test('it is far off if it differs by more than a hundredth', () => {
  const far = (reportedNanoUsd: number) =>
    isFar({
      basis: 'reported',
      charge: toCharge([{ prompt: '0.000001', completion: '0' }], { ...NO_USAGE, prompt: 10 }),
      reportedNanoUsd,
    })
  expect([9_899, 9_900, 10_000, 10_101, 10_102].map(far)).toEqual([true, false, false, false, true])
})

test('searches and the service mode are included in the calculation', async () => {
  folder.database.query('UPDATE prices SET pricing = ? WHERE id = ?').run(
    JSON.stringify([
      { prompt: '0.00000001', completion: '0', web_search: '0.01' },
      { prompt: '0.00000005', completion: '0', web_search: '0.02', mode: 'fast' },
    ]),
    'price-1',
  )
  const used = { ...USED, cachedTokens: 0, webSearches: 2 }
  const read = chargeOf(settling(toSettled(row, { ...used, mode: 'fast', costNanoUsd: 8 * 50 + 2 * 20_000_000 })))
  expect(await read()).toMatchObject({ calls: [['tokens', 40_000_400]], matchesLedger: true })
})

test("another model's usage within a call is a separate call, at its own price", async () => {
  const within = toSettledCall(toCall(row, 2, { reason: 'within', reservedNanoUsd: 0 }), {
    costNanoUsd: 5 * 100 + 3 * 200,
  })
  const sums = { promptTokens: 8 + 5, cachedTokens: 3 + 1, completionTokens: 5 + 3, reasoningTokens: 1 }
  const read = chargeOf(
    settling(toSettled(row, { ...sums, costNanoUsd: COST + within.costNanoUsd, attempts: 2 }), [within]),
  )
  expect(await read()).toMatchObject({
    calls: [
      ['tokens', COST],
      ['tokens', 1_100],
    ],
    matchesLedger: true,
  })
})

test('a call that had ended keeps its charge when its server is gone', async () => {
  const first = toSettledCall(toFirstCall(row), { ...USED, costNanoUsd: 7, reportedNanoUsd: 7 })
  const read = chargeOf(opening(row), calling(toCall(row, 2, { reason: 'schema' }), [first]))
  abandonOthers(folder.database, 'another')
  expect(await read()).toMatchObject({
    calls: [
      ['reported', 7],
      ['reserve', 9_100],
    ],
    matchesLedger: true,
  })
})

test('a deleted price makes a charge impossible to recalculate, and a row without one is free', async () => {
  const read = chargeOf(settling(toSettled(row, { ...USED, costNanoUsd: COST })))
  folder.database.run('DELETE FROM prices')
  expect(await read()).toMatchObject({ calls: [['unknown', null]], recalculatedNanoUsd: null, matchesLedger: false })
  folder.database.run('UPDATE requests SET price_id = NULL, cost_nano_usd = 0')
  expect(await read()).toMatchObject({ calls: [['free', 0]], matchesLedger: true })
})

test("a request in flight has no charge yet, and one abandoned by a kill costs its calls' reservations", async () => {
  const read = chargeOf(opening(row), calling(toCall(row, 2)), calling(toCall(row, 3, { reason: 'retry' })))
  expect(await read()).toMatchObject({
    calls: [
      ['open', null],
      ['open', null],
      ['open', null],
    ],
    matchesLedger: null,
  })
  abandonOthers(folder.database, 'another')
  const calls = [
    ['reserve', 9_000],
    ['reserve', 9_100],
    ['reserve', 9_100],
  ]
  expect(await read()).toMatchObject({ calls, recalculatedNanoUsd: 27_200, matchesLedger: true })
})

test('a call that a fallback replaced costs nothing if its outcome is unknown', async () => {
  const read = chargeOf(
    opening(row),
    calling(toCall(row, 2, { reason: 'fallback' }), [
      toSettledCall(toFirstCall(row), { status: 'failed', promptTokens: 0, completionTokens: 0, costNanoUsd: 0 }),
    ]),
  )
  abandonOthers(folder.database, 'another')
  expect(await read()).toMatchObject({
    calls: [
      ['nothing', 0],
      ['reserve', 9_100],
    ],
    matchesLedger: true,
  })
})
