/**
 * Promise 3: 200 requests at once never spend more than a ten-cent budget, and all accounts agree. Upstream overbilling
 * is the declared margin.
 */
import { describe, expect, test } from 'bun:test'
import { HELLO_TOKENS } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'
import { type Accounts, type Asked, BUDGET, BUDGET_NANO_USD, createStampedeBench, reserveOf } from './stampede-bench.ts'

const CROWD = 200
/** Max output, reserved without a client cap. */
const DEFAULT_CAP = 1_000

const bench = forEachTest(createStampedeBench)

/** How many reservations fit in the budget while no request has ended. */
const roomFor = (cap: number) => Math.floor(BUDGET_NANO_USD / reserveOf(cap))

/** No request gets a response until all others are refused or sent. */
async function stampede(secretOf: (number: number) => string, body: Record<string, unknown>): Promise<Asked[]> {
  bench.hold()
  let refused = 0
  const all = Array.from({ length: CROWD }, async (_, number) => {
    const asked = await bench.ask(secretOf(number), number, body)
    if (asked.status !== 200) refused++
    return asked
  })
  while (refused + bench.calls() < CROWD) await Bun.sleep(2)
  bench.free()
  return Promise.all(all)
}

/** All accounts and receipts must agree on the amount. */
function expectExact(asked: readonly Asked[], accounts: Accounts, payer: string): number {
  const served = asked.filter(({ status }) => status === 200)
  const receipts = served.reduce((sum, { costNanoUsd }) => sum + (costNanoUsd ?? Number.NaN), 0)
  const { requests, open, ledger, rollup, spent, auditCode } = accounts
  expect({ requests, open, ledger, rollup, spent, auditCode }).toEqual({
    requests: served.length,
    open: 0,
    ledger: receipts,
    rollup: receipts,
    spent: { [payer]: receipts },
    auditCode: 0,
  })
  const others = asked.filter(({ status }) => status !== 200)
  expect(others.filter(({ status, code }) => status !== 429 || code !== 'insufficient_quota')).toEqual([])
  expect(bench.calls()).toBe(served.length)
  return receipts
}

describe('a stampede on ten cents', () => {
  const bodies: [string, Record<string, unknown>, number][] = [
    ['the cap of the client', { max_tokens: 700 }, 700],
    ['no cap of the client', {}, DEFAULT_CAP],
  ]
  test.each(bodies)('with %s spends as many reservations as fit, and refuses all others', async (_, body, cap) => {
    const { id, secret } = await bench.key('--budget', BUDGET)
    const room = roomFor(cap)
    const asked = await stampede(() => secret, body)
    const spent = expectExact(asked, await bench.accounts(), id)
    expect(spent).toBe(room * reserveOf(cap))
    expect(spent).toBeLessThanOrEqual(BUDGET_NANO_USD)
  })

  test('of a team is shared by all of its keys', async () => {
    const team = await bench.team('crew')
    const [ann, bob] = [await bench.key('--team', 'crew'), await bench.key('--team', 'crew')]
    const room = roomFor(DEFAULT_CAP)
    const asked = await stampede((number) => (number % 4 < 2 ? ann : bob).secret, {})
    const spent = expectExact(asked, await bench.accounts(), team)
    expect(spent).toBe(room * reserveOf(DEFAULT_CAP))
  })

  test('whose responses cost less than reserved admits later requests, and still holds', async () => {
    const { id, secret } = await bench.key('--budget', BUDGET)
    bench.bill((cap) => ({ prompt_tokens: 1, completion_tokens: cap - 100 }))
    const asked = await Promise.all(Array.from({ length: CROWD }, (_, number) => bench.ask(secret, number, {})))
    const spent = expectExact(asked, await bench.accounts(), id)
    expect(spent).toBeLessThanOrEqual(BUDGET_NANO_USD)
    // Then one after the other, until none fits.
    const later: Asked[] = []
    while (later.at(-1)?.status !== 429) later.push(await bench.ask(secret, later.length, {}))
    const total = expectExact([...asked, ...later], await bench.accounts(), id)
    expect(total).toBeLessThanOrEqual(BUDGET_NANO_USD)
    expect(total).toBeGreaterThan(BUDGET_NANO_USD - reserveOf(DEFAULT_CAP))
  })

  test('of an upstream that bills more than allowed is exceeded by exactly that', async () => {
    const { id, secret } = await bench.key('--budget', BUDGET)
    // 100 input tokens beyond the estimate and 300 output tokens beyond the cap, at 1,000 and 2,000 nano-dollars.
    const beyond = 100 * 1_000 + 300 * 2_000
    bench.bill((cap) => ({ prompt_tokens: HELLO_TOKENS + 100, completion_tokens: cap + 300 }))
    const room = roomFor(DEFAULT_CAP)
    const asked = await stampede(() => secret, {})
    const accounts = await bench.accounts()
    const spent = expectExact(asked, accounts, id)
    expect(accounts.reserved).toBe(room * reserveOf(DEFAULT_CAP))
    expect(spent).toBe(accounts.reserved + room * beyond)
    expect(spent).toBeGreaterThan(BUDGET_NANO_USD)
    // Then no more requests are accepted.
    expect((await bench.ask(secret, 0, { max_tokens: 1 })).code).toBe('insufficient_quota')
  })
})
