/** Records of a request whose upstream called another model within a call: complete, and each at its own price. */

import { beforeEach, expect, test } from 'bun:test'
import { addBills, charge, toBilled, toReportedBill } from '../../src/accounting/bill.ts'
import { Call, type CallDeps, DisconnectedCalls } from '../../src/accounting/call.ts'
import { askForAll } from '../../src/accounting/cost.ts'
import { isAlone, toEndedCall, toSettledCalls } from '../../src/accounting/settle.ts'
import { addUsage, NO_USAGE, type PricingItem, type Usage } from '../../src/domain/usage.ts'
import { readCharge } from '../../src/ledger/charge.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { createLedgerAudit } from '../../src/store/sqlite/ledger-audit.ts'
import { createReaders } from '../../src/store/sqlite/readers.ts'
import { createFolder, HOUR, settling, toCall, toOpen, toSettled } from '../ledger/fixture.ts'
import { DONE, text } from '../support/answers.ts'
import { forEachTest } from '../support/lifetime.ts'
import { toKey, toTarget } from '../support/snapshot.ts'

const PRICES: Record<string, PricingItem[]> = {
  own: [
    { prompt: '0.000001', completion: '0.000002' },
    { prompt: '0.000003', completion: '0.000005', mode: 'fast' },
  ],
  advisor: [{ prompt: '0.00001', completion: '0.00002', web_search: '0.01' }],
}

const folder = forEachTest(createFolder)
beforeEach(() => {
  for (const [id, pricing] of Object.entries(PRICES))
    folder.database
      .query('INSERT INTO prices (id, model, pricing, created_ms) VALUES (?, ?, ?, ?)')
      .run(id, 'acme/large', JSON.stringify(pricing), HOUR)
})

const toUsage = (prompt: number, completion: number, webSearches = 0): Usage => ({
  ...NO_USAGE,
  ...{ prompt, completion, webSearches },
})

const DEPS: CallDeps = {
  key: toKey(),
  reservation: { releaseSlot() {} },
  disconnectedCalls: new DisconnectedCalls({ disconnectGraceMs: 0 }),
  monotonicMs: () => 0,
}

/** A successful call that used the advisor. */
function toCalled(number: number, usage: Usage, advised: Usage | null, mode: string | null = null): Call {
  const advisor = { pricing: PRICES.advisor ?? [], priceId: 'advisor' }
  const target = {
    ...toTarget({ prices: new Map([['advisor-1', advisor]]) }),
    ...{ pricing: PRICES.own ?? [], priceId: 'own' },
  }
  const row =
    number === 1 ? null : toCall(OPEN, number, { upstream: 'paid', upstreamModel: 'large-v1', priceId: 'own' })
  const call = new Call(DEPS, number, target, { model: 'm', messages: [] }, 'translated', row)
  const others = advised ? [{ model: 'advisor-1', usage: advised }] : []
  call.meter.take([{ kind: 'mode', mode }, { kind: 'usage', usage, others }, DONE])
  return call
}

const OPEN = toOpen({ priceId: 'own' })

async function record(calls: readonly Call[]) {
  const bills = calls.map((call) => charge(call, 'ok', call.meter.usage ?? NO_USAGE, false))
  const each = toSettledCalls(OPEN, calls, bills)
  const sum = addBills(bills)
  const row = toSettled(OPEN, { ...toBilled(sum), attempts: each.length })
  createLedgerWriter(folder.database).apply([settling(row, each)])
  const reader = createReaders(folder.database).requests
  const request = await reader.get(OPEN.id)
  if (request === null) throw new Error('nothing is on record')
  return { bills, ...(await readCharge(reader, request)) }
}

test("each model within a call has its own row, and together they are the request's cost", async () => {
  const calls = [
    toCalled(1, toUsage(100, 10), toUsage(1_000, 50, 2)),
    toCalled(2, toUsage(200, 20), toUsage(2_000, 60), 'fast'),
  ]
  const own = [100 * 1_000 + 10 * 2_000, 200 * 3_000 + 20 * 5_000]
  const advised = [1_000 * 10_000 + 50 * 20_000 + 20_000_000, 2_000 * 10_000 + 60 * 20_000]
  const { calls: charged, request, matchesLedger } = await record(calls)
  expect(matchesLedger).toBe(true)
  expect(charged).toMatchObject([
    { number: 1, reason: 'first', upstreamModel: 'large-v1', costNanoUsd: own[0], mode: null, unpriced: 0 },
    { number: 2, upstreamModel: 'large-v1', costNanoUsd: own[1], mode: 'fast', unpriced: 0 },
    {
      number: 3,
      reason: 'within',
      upstreamModel: 'advisor-1',
      priceId: 'advisor',
      costNanoUsd: advised[0],
      unpriced: 0,
    },
    // The advisor has no price for this mode.
    {
      number: 4,
      reason: 'within',
      upstreamModel: 'advisor-1',
      priceId: 'advisor',
      costNanoUsd: advised[1],
      unpriced: 1,
    },
  ])
  const sum = [...own, ...advised].reduce((before, cost) => before + cost, 0)
  expect(request).toMatchObject({ promptTokens: 3_300, completionTokens: 140, webSearches: 2, attempts: 4 })
  expect(request).toMatchObject({ costNanoUsd: sum, mode: 'fast', unpriced: 1 })
  const audit = createLedgerAudit(folder.database, folder.path)
  expect(audit.callProblems(HOUR)).toEqual([])
  expect(audit.cells(HOUR)).toMatchObject([{ differences: [], costNanoUsd: sum }])
})

test('a request with one call has additional rows only if another model worked in it', async () => {
  const alone = toCalled(1, toUsage(100, 10), null)
  expect(isAlone([charge(alone, 'ok', toUsage(100, 10), false)])).toBe(true)
  const { bills, matchesLedger, request } = await record([toCalled(1, toUsage(100, 10), toUsage(5, 1))])
  expect(isAlone(bills)).toBe(false)
  expect(matchesLedger).toBe(true)
  expect(request.attempts).toBe(2)
})

test('an ended call records its charge, except with several models, which a kill charges in full', () => {
  const terms = { mode: 'fast', reportedNanoUsd: null, unpriced: 0 }
  expect(toEndedCall(OPEN, toCalled(1, toUsage(100, 10), null, 'fast'))).toMatchObject({
    ...{ number: 1, status: 'ok', promptTokens: 100, costNanoUsd: 350_000, ...terms },
  })
  expect(toEndedCall(OPEN, toCalled(1, toUsage(100, 10), toUsage(5, 1)))).toBeNull()
})

const FOR_AN_HOUR = { type: 'text' as const, text: 'hi', cache_control: { type: 'ephemeral', ttl: '1h' } }

/** The amount that a request with a budget requests after this call. */
const heldFor = (call: Call) =>
  askForAll({ bound: async () => null }, 'k', { ...OPEN, reservedNanoUsd: 400_000 }, true, [call], []).nanoUsd

test("an ended call's reservation is its charge for all of its models, and no less than a kill charges", () => {
  expect(heldFor(toCalled(1, toUsage(100, 10), null))).toBe(120_000)
  expect(heldFor(toCalled(1, toUsage(100, 10), toUsage(50, 1)))).toBe(120_000 + 50 * 10_000 + 20_000)
  expect(heldFor(toCalled(1, toUsage(100, 10), toUsage(5, 1)))).toBe(400_000)
})

test('cache writes of an ended call cost the same as at settlement: for the requested lifetime', () => {
  const pricing = [{ prompt: '0.000001', completion: '0', input_cache_write_1h: '0.000002' }]
  const body = { model: 'm', messages: [{ role: 'user' as const, content: [FOR_AN_HOUR] }] }
  const call = new Call(DEPS, 1, { ...toTarget(), pricing }, body, 'translated', null)
  call.meter.take([{ kind: 'usage', usage: { ...toUsage(10, 0), cacheWrite: 10 } }, DONE])
  expect(toReportedBill(call, 'ok')).toMatchObject({ costNanoUsd: 20_000 })
  expect(toEndedCall(OPEN, call)).toMatchObject({ cacheWrite1hTokens: 10, costNanoUsd: 20_000 })
})

test('a call whose upstream reported usage before its last words must be counted first', () => {
  const call = toCalled(1, toUsage(10, 1), null)
  const early = new Call(DEPS, 1, call.target, call.body, 'translated', null)
  early.meter.take([{ kind: 'usage', usage: toUsage(10, 1) }, text('and much more'), DONE])
  expect(toEndedCall(OPEN, early)).toBeNull()
})

test('a sum of usage has every count', () => {
  const counts = Object.fromEntries(Object.keys(NO_USAGE).map((name, at) => [name, at + 1])) as unknown as Usage
  const sum = { ...counts }
  addUsage(sum, counts)
  expect(Object.values(sum)).toEqual(Object.values(counts).map((count) => 2 * count))
})
