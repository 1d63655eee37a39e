/** Failures between nodes and the engine of their limits, and the guarantees that remain. */
import { expect, test } from 'bun:test'
import { GatewayError } from '../../src/domain/error.ts'
import { DAY_MS } from '../../src/domain/time.ts'
import type { Ask, Batch, LimitEngine, Told } from '../../src/limits/shared/engine.ts'
import { describeWith } from '../support/engines.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'
import { budget, CENT, cents, held, limited, refused } from './asking.ts'
import { admitted, ENGINES, mint, named, openNode, times, toScope } from './shared-nodes.ts'

/** An engine that a node can be disconnected from. */
function toCuttable(engine: LimitEngine) {
  const sent: Batch[] = []
  const cuttable = {
    ...{ isCut: false, sent },
    engine: {
      ...engine,
      async call(batch: Batch) {
        if (cuttable.isCut) throw new Error('cut off')
        sent.push(batch)
        return await engine.call(batch)
      },
    },
  }
  return cuttable
}

for (const [name, start] of Object.entries(ENGINES))
  describeWith(name as keyof typeof ENGINES)(`trouble with ${name}`, () => {
    const engine = forAllTests(start)

    test('a request that is settled while it requests more leaves nothing', async () => {
      await using node = openNode(engine.open())
      await node.limiter.started
      const key = named(limited({ concurrency: 1 }, { budget: budget(100) }))
      const reservation = held(await node.admit(key, null, cents(10)))
      const raised = reservation.raise(cents(20))
      await Bun.sleep(0)
      reservation.settle(cents(5))
      await raised
      await until('its slot', async () => !((await node.admit(key, null, cents(95))) instanceof GatewayError))
    })

    test('a slice ends with its period or with a lower budget, and isn’t spent in two outages', async () => {
      const own = await start()
      const way = toCuttable(own.open())
      let laterMs = 0
      const monotonicMs = () => performance.now() + laterMs
      const sliceMs = 9 * DAY_MS
      await using node = openNode(way.engine, { monotonicMs, nodes: () => 1, times: { ...times, sliceMs } })
      await node.limiter.started
      const [first, second] = [named(limited({}, { budget: budget(800) })), named(limited({}, { budget: budget(800) }))]
      node.limiter.renew([first, second], [])
      const hasSlices = () =>
        [...node.limiter.budgetUses('key')].every(({ reservedNanoUsd }) => reservedNanoUsd > 50 * CENT)
      await until('slices', async () => {
        for (const key of [first, second]) held(await node.admit(key, null, cents(1))).settle(cents(1))
        return hasSlices()
      })
      const cut = async (isCut: boolean) => {
        way.isCut = isCut
        await until('that it shows', () => (node.limiter.outage() !== null) === isCut)
      }
      await cut(true)
      held(await node.admit(first, null, cents(70))).settle(cents(70))
      await cut(false)
      await cut(true)
      expect(refused(await node.admit(first, null, cents(70))).kind).toBe('overloaded')
      held(await node.admit(second, null, cents(10))).cancel()
      laterMs = DAY_MS
      expect(refused(await node.admit(second, null, cents(10))).kind).toBe('overloaded')
      laterMs = 0
      node.limiter.renew([{ ...second, budget: budget(20) }], [])
      expect(refused(await node.admit(second, null, cents(10))).kind).toBe('overloaded')
      await own.close()
    })

    test('excessive amounts, and values that the engine rejects, are no outage', async () => {
      await using node = openNode(engine.open())
      await node.limiter.started
      const key = named(limited({ rpm: 1_000, concurrency: 1_000 }, { budget: budget(800) }))
      expect(refused(await node.admit(key, null, { tokens: 1.5, nanoUsd: 1e300 })).message).toStartWith(
        'Budget exceeded',
      )
      held(await node.admit(key, null, { tokens: Number.POSITIVE_INFINITY, nanoUsd: 1.5 })).cancel()
      const asked = Array.from({ length: 100 }, () => node.admit(key, null, cents(1)))
      const wrong = { ...key, limits: { ...key.limits, rpm: 'many' as never } }
      expect(refused(await node.admit(wrong, null, cents(1))).kind).toBe('overloaded')
      const reservations = (await Promise.all(asked)).map(held)
      const odd = held(await node.admit(named(key), null, cents(1)))
      // Sent together with the ends of other requests.
      for (const one of reservations.slice(0, 50)) one.settle(cents(1))
      odd.settle({ tokens: 1, nanoUsd: 'x' as never })
      for (const one of reservations.slice(50)) one.settle(cents(1))
      await until('all ends', async () => {
        const { message } = refused(await node.admit(key, null, cents(800)))
        return message.includes('$1 spent, $0 reserved')
      })
      expect(node.refused.map((what) => what.op)).toEqual(['take', 'end'])
      expect(node.outages).toEqual([])
    })

    test('an engine that lost its state reads a ledger that has all earlier spend', async () => {
      const own = await start()
      const sent = Promise.withResolvers<void>()
      let sending = Promise.resolve()
      let spent = 0
      await using late = openNode(own.open(), { shipped: () => sending, spent: async () => spent })
      await using node = openNode(own.open(), { spent: async () => spent })
      await Promise.all([late.limiter.started, node.limiter.started])
      const key = named(limited({}, { budget: budget(10) }))
      held(await late.admit(key, null, cents(9))).settle(cents(9))
      sending = sent.promise
      await own.kill()
      await until('the outage', () => [late, node].every(({ limiter }) => limiter.outage() !== null))
      await own.start()
      await until('the end', () => [late, node].every(({ limiter }) => limiter.outage() === null))
      const asked = node.admit(key, null, cents(2))
      await Bun.sleep(2 * times.youngMs)
      spent = 9 * CENT
      sent.resolve()
      expect(refused(await asked).message).toContain('$0.09 spent')
      await own.close()
    })

    test('a request that began and ended in an outage leaves nothing, and nothing to send', async () => {
      const way = toCuttable(engine.open())
      await using node = openNode(way.engine)
      await node.limiter.started
      const key = named(limited({ concurrency: 1, tpm: 1_000 }))
      way.isCut = true
      await until('the outage', () => node.limiter.outage() !== null)
      const reservation = held(await node.admit(key, null, cents(0)))
      await reservation.raise({ tokens: 20, nanoUsd: 0 })
      reservation.releaseSlot()
      await Bun.sleep(0)
      reservation.settle(cents(0))
      way.sent.length = 0
      way.isCut = false
      await until('the end', () => node.limiter.outage() === null)
      held(await node.admit(key, null, cents(0)))
      expect(way.sent.flatMap(({ told }) => told.map(({ op }) => op))).toEqual([])
    })

    test('a repeated message counts once, even if the node counted as gone meanwhile', async () => {
      const client = engine.open()
      const key = named(limited({}, { budget: budget(10) }))
      const scope = toScope(key)
      const base: Batch = {
        ...{ epoch: mint('e'), seq: 1, leaseMs: 100, youngMs: 0, sliceMs: 60_000 },
        told: [],
        asks: [],
      }
      const want = { requests: 1, slots: 0, likelyNanoUsd: 0, heldNanoUsd: 0 } as const
      const figures = async (epoch: string) => {
        const ask: Ask = { ...want, id: mint('r'), op: 'take', scopes: [scope] }
        return (await client.call({ ...base, epoch, seq: 2, asks: [ask] })).replies[0]?.[0]
      }
      const told: Told[] = [{ op: 'spend', name: scope.name, usage: scope.budget?.usage ?? '', nanoUsd: CENT }]
      await client.call(base)
      await figures(base.epoch)
      await client.call({ ...base, seq: 3, told })
      await Bun.sleep(150)
      const other = mint('e')
      await client.call({ ...base, epoch: other })
      await client.call({ ...base, seq: 3, told })
      expect(await figures(other)).toMatchObject({ spentNanoUsd: CENT })
      await client.close()
    })

    test("a node's settlements are applied before its requests", async () => {
      const way = toCuttable(engine.open())
      await using node = openNode(way.engine)
      await node.limiter.started
      const key = named(limited({ concurrency: 10_000 }))
      await Promise.all(Array.from({ length: 500 }, () => node.admit(key, null, cents(0))))
      way.isCut = true
      await until('the outage', () => node.limiter.outage() !== null)
      way.isCut = false
      way.sent.length = 0
      await until('the end', () => node.limiter.outage() === null)
      held(await node.admit(named(key), null, cents(0)))
      const told = way.sent.slice(0, 1 + way.sent.findIndex(({ asks }) => asks.length > 0)).flatMap(({ told }) => told)
      expect(told.filter((one) => one.op === 'hold' && !one.id.startsWith('slice:')).length).toBe(500)
    })
  })

test('requests that would wait too long for a slow engine are refused, and others continue', async () => {
  const reply = { nowMs: 0, bornMs: -9_999, nodes: 1, isNew: false, warnings: [] }
  const granted = {
    refusal: 'none',
    used: 0,
    retryAfterMs: 0,
    budget: 'fits',
    spentNanoUsd: 0,
    reservedNanoUsd: 0,
  } as const
  const none = { requests: 0, requestsEmptyMs: 0, tokens: 0, tokensEmptyMs: 0 }
  await using node = openNode({
    ...{ name: 'Slow', place: null, maxBatch: 1, timeoutMs: 10_000, reset() {}, close() {} },
    async call({ asks }) {
      await Bun.sleep(asks.length > 0 ? 500 : 0)
      return { ...reply, replies: asks.map(() => [{ ...granted, ...none }]) }
    },
  })
  await node.limiter.started
  const key = named(limited({ rpm: 100 }))
  const decided = await Promise.all(Array.from({ length: 20 }, () => node.admit(key, null, cents(0))))
  expect(admitted(decided).length).toBeWithin(1, 10)
  expect(decided.find((one) => one instanceof GatewayError)).toMatchObject({
    status: 503,
    message: expect.stringContaining('Slow is too slow'),
  })
  expect(node.outages).toEqual([])
})
