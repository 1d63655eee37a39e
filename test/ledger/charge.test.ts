/**
 * A charge is worked out again from the ledger alone, and one that does not come out is told. That every charge of a gateway comes
 * out, the tests in `gateway/` prove: each ends with a look at all that it was charged.
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

/** 8 read, 3 of them from a cache; 5 written. */
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

test('tokens of each kind times the price that the row names are what was charged', async () => {
  const read = chargeOf(settling(toSettled(row, { ...USED, costNanoUsd: COST })))
  expect(await read()).toMatchObject({ calls: [['tokens', COST]], recalculatedNanoUsd: COST, matchesLedger: true })
  folder.database.run('UPDATE requests SET cost_nano_usd = cost_nano_usd + 1')
  expect(await read()).toMatchObject({ recalculatedNanoUsd: COST, matchesLedger: false })
})

test('what was kept in a cache for an hour is told from what was kept for less', async () => {
  const used = { promptTokens: 8, cachedTokens: 0, cacheWriteTokens: 5, cacheWrite1hTokens: 2, completionTokens: 0 }
  const costNanoUsd = 3 * 100 + 3 * 300 + 2 * 1_000
  const settled = toSettled(row, { ...used, reasoningTokens: 0, priceId: 'price-2', costNanoUsd })
  expect((await chargeOf(settling(settled))()).matchesLedger).toBe(true)
})

test('what an upstream charged by its own word is the charge, whatever its tokens come to by their price', async () => {
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

test('it is far off where it differs by more than a hundredth', () => {
  const far = (reportedNanoUsd: number) =>
    isFar({
      basis: 'reported',
      charge: toCharge([{ prompt: '0.000001', completion: '0' }], { ...NO_USAGE, prompt: 10 }),
      reportedNanoUsd,
    })
  expect([9_899, 9_900, 10_000, 10_101, 10_102].map(far)).toEqual([true, false, false, false, true])
})

test('searches and the mode in which a call was served are part of what is worked out', async () => {
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

test('what another model used within a call is a call of its own, at its own price', async () => {
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

test('a call that had ended keeps by what it was charged when its server is gone', async () => {
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

test('a price that is gone leaves nothing to work out, and one that is not there is free', async () => {
  const read = chargeOf(settling(toSettled(row, { ...USED, costNanoUsd: COST })))
  folder.database.run('DELETE FROM prices')
  expect(await read()).toMatchObject({ calls: [['unknown', null]], recalculatedNanoUsd: null, matchesLedger: false })
  folder.database.run('UPDATE requests SET price_id = NULL, cost_nano_usd = 0')
  expect(await read()).toMatchObject({ calls: [['free', 0]], matchesLedger: true })
})

test('a request under way has no charge yet, and one that a start gave up costs what its calls had reserved', async () => {
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

test('what a fallback was made in the place of costs nothing where nobody knows how it ended', async () => {
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
