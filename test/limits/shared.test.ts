/** Limits of several nodes on one engine: the same for Valkey and PostgreSQL. */
import { expect, test } from 'bun:test'
import { GatewayError, UpstreamError } from '../../src/domain/error.ts'
import type { Key, Team } from '../../src/domain/snapshot.ts'
import type { Amount, PastRequest, Reservation } from '../../src/limits/limiter.ts'
import type { Ask, Batch, LimitEngine, ScopeAsk, Told } from '../../src/limits/shared/engine.ts'
import { openPostgresLimits } from '../../src/limits/shared/postgres.ts'
import { openValkey } from '../../src/limits/shared/valkey.ts'
import { openPostgres } from '../../src/store/postgres/client.ts'
import { migratePostgres } from '../../src/store/postgres/migrate.ts'
import { describeWith, startDroppingProxy, startPostgres, startValkey } from '../support/engines.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'
import { at, budget, CENT, cents, held, limited, refused, toTeam, toUpstream } from './asking.ts'
import { admitted, ENGINES, log, mint, named, openNode, timeoutMs, times, toScope } from './shared-nodes.ts'

for (const [name, start] of Object.entries(ENGINES)) {
  describeWith(name as keyof typeof ENGINES)(`limits of all nodes in ${name}`, () => {
    const engine = forAllTests(start)

    const stampede = async (key: Key, team: Team | null, amount: Amount, each: number) => {
      const nodes = [1, 2, 3].map(() => openNode(engine.open()))
      await Promise.all(nodes.map(({ limiter }) => limiter.started))
      const asked = nodes.flatMap(({ admit }) => Array.from({ length: each }, () => admit(key, team, amount)))
      const decided = await Promise.all(asked)
      return { nodes, decided, close: () => Promise.all(nodes.map(({ limiter }) => limiter.close())) }
    }

    test('many concurrent requests on three nodes spend a whole budget, and no more', async () => {
      const key = named(limited({}, { budget: budget(200) }))
      const { decided, nodes, close } = await stampede(key, null, cents(1), 200)
      let taken = admitted(decided).length
      await until('the rest, which a node had leased', async () => {
        if (taken < 200) for (const { admit } of nodes) taken += admitted([await admit(key, null, cents(1))]).length
        return taken >= 200
      })
      expect(taken).toBe(200)
      for (const { admit } of nodes)
        expect(refused(await admit(key, null, cents(1))).message).toContain(
          'Budget exceeded for key `ann`: $2 per day limit, $0 spent, $2 reserved by running requests',
        )
      await close()
    })

    test.each([
      ['requests per minute', { rpm: 40 }, 'request_limit'],
      ['tokens per minute', { tpm: 400 }, 'token_limit'],
      ['concurrency', { concurrency: 40 }, 'request_limit'],
    ] as const)('a stampede on three nodes takes all of %s, and nothing more', async (_, limits, kind) => {
      const key = named(limited(limits))
      const { decided, nodes, close } = await stampede(key, null, { tokens: 10, nanoUsd: 0 }, 40)
      expect(admitted(decided).length).toBe(40)
      expect(new Set(decided.flatMap((one) => (one instanceof GatewayError ? one.kind : [])))).toEqual(new Set([kind]))
      for (const one of admitted(decided).slice(0, 10)) one.cancel()
      await Bun.sleep(100)
      const again = await Promise.all(
        nodes.flatMap(({ admit }) => Array.from({ length: 10 }, () => admit(key, null, { tokens: 10, nanoUsd: 0 }))),
      )
      expect(admitted(again).length).toBe(10)
      await close()
    })

    test('a request that its team refuses leaves nothing on its key', async () => {
      await using node = openNode(engine.open())
      await node.limiter.started
      const key = named(limited({ rpm: 5, tpm: 100, concurrency: 2 }, { budget: budget(10) }))
      const team = toTeam(budget(5), key.id)
      for (let i = 0; i < 3; i++)
        expect(refused(await node.admit(key, team, cents(6))).message).toStartWith('Budget exceeded for team')
      expect(held(await node.admit(key, team, cents(5))).headers).toMatchObject({
        'x-ratelimit-remaining-requests': '4',
        'x-ratelimit-remaining-tokens': '99',
      })
    })

    test('the cost replaces the reservation, once; an invalid request counts in its rate', async () => {
      await using node = openNode(engine.open())
      await node.limiter.started
      const key = named(limited({ rpm: 4 }, { budget: budget(10) }))
      const reservation = held(await node.admit(key, null, cents(8)))
      expect(await reservation.raise(cents(9))).toBeNull()
      expect((await reservation.raise(cents(11)))?.code).toBe('insufficient_quota')
      reservation.settle(cents(3))
      reservation.settle(cents(9))
      reservation.cancel()
      expect(refused(await node.admit(key, null, cents(8))).message).toContain('$0.03 spent, $0 reserved')
      const invalid = new GatewayError('invalid_request', '')
      await node.limiter.enter('invalid', key, null).refuse(invalid, 0)
      expect(invalid.headers['x-ratelimit-remaining-requests']).toBe('2')
      expect(held(await node.admit(key, null, cents(7))).headers['x-ratelimit-remaining-requests']).toBe('1')
    })

    test('a call stays within its upstream’s limits', async () => {
      await using node = openNode(engine.open())
      await node.limiter.started
      const upstream = { ...toUpstream({ concurrency: 1 }), id: mint('u') }
      const permit = await node.limiter.permit(upstream, 5)
      if (permit instanceof UpstreamError) throw permit
      expect(await node.limiter.permit(upstream, 5)).toBeInstanceOf(UpstreamError)
      expect(node.limiter.isFull(upstream, 5, performance.now())).toBe(true)
      permit.leave(3)
      expect(await node.limiter.permit(upstream, 5)).not.toBeInstanceOf(UpstreamError)
    })

    test('a budget is exact to the nano-dollar at 2^53, and warns once for all nodes', async () => {
      await using node = openNode(engine.open())
      await using other = openNode(engine.open())
      await Promise.all([node.limiter.started, other.limiter.started])
      const most = Number.MAX_SAFE_INTEGER
      const key = named(limited({}, { budget: { nanoUsd: most, period: 'total' } }))
      for (const { limiter } of [node, other]) limiter.renew([key], [])
      held(await node.admit(key, null, cents(0))).settle({ tokens: 1, nanoUsd: most - 1 })
      await until('the warning', () => node.warnings.length > 0)
      expect(node.warnings).toMatchObject([{ percent: 80, spentNanoUsd: most - 1 }])
      refused(await other.admit(key, null, { tokens: 1, nanoUsd: 2 }))
      held(await other.admit(key, null, { tokens: 1, nanoUsd: 1 })).settle({ tokens: 1, nanoUsd: most })
      await until('the warning', () => other.warnings.length > 0)
      expect(other.warnings.map(({ percent }) => percent)).toEqual([100])
      expect(node.warnings.length).toBe(1)
    })

    test('warns once per amount reached, while nodes disagree on a budget', async () => {
      const key = named(limited({}, { budget: budget(100) }))
      const lowered = { ...key, budget: budget(50) }
      await using behind = openNode(engine.open())
      await using node = openNode(engine.open())
      await Promise.all([behind.limiter.started, node.limiter.started])
      behind.limiter.renew([key], [])
      node.limiter.renew([lowered], [])
      const warned = () =>
        [...node.warnings, ...behind.warnings].map(({ percent, budget: of }) => [percent, of.nanoUsd / CENT])
      const alternate = async () => {
        for (let each = 0; each < 5; each++) {
          refused(await node.admit(lowered, null, cents(1)))
          held(await behind.admit(key, null, cents(1))).cancel()
        }
      }
      held(await behind.admit(key, null, cents(60))).settle(cents(60))
      await alternate()
      expect(warned()).toEqual([[100, 50]])
      held(await behind.admit(key, null, cents(25))).settle(cents(25))
      await alternate()
      expect(warned().sort()).toEqual([
        [100, 50],
        [80, 100],
      ])
      held(await behind.admit(key, null, cents(15))).settle(cents(15))
      await until('the last one', () => warned().length > 2)
      expect(behind.warnings.at(-1)).toMatchObject({ percent: 100, budget: { nanoUsd: 100 * CENT } })
      // All nodes know by now; a larger budget causes a new warning.
      behind.limiter.renew([{ ...key, budget: budget(110) }], [])
      held(await behind.admit({ ...key, budget: budget(110) }, null, cents(10))).settle(cents(10))
      await until('that of the larger one', () => warned().length > 3)
      expect(warned().length).toBe(4)
    })

    test('the engine’s clock decides the current period, and the ledger the earlier spend', async () => {
      const asked: number[] = []
      const spent = async (_: unknown, { fromMs }: { fromMs: number }) => asked.push(fromMs) && 4 * CENT
      await using wrong = openNode(engine.open(), { now: () => Date.UTC(2020, 0), spent })
      await using node = openNode(engine.open(), { spent })
      await Promise.all([wrong.limiter.started, node.limiter.started])
      const key = named(limited({}, { budget: budget(10, 'day') }))
      refused(await wrong.admit(key, null, cents(7)))
      held(await node.admit(key, null, cents(6)))
      expect(asked).toEqual([Math.floor(Date.now() / 86_400_000) * 86_400_000])
    })

    test('a request that is abandoned before its admission leaves nothing', async () => {
      await using node = openNode(engine.open())
      await node.limiter.started
      const key = named(limited({ rpm: 1, concurrency: 1 }, { budget: budget(10) }))
      const request = node.limiter.enter('given up', key, null)
      const asked = request.admit(cents(10), at(0))
      await Bun.sleep(0)
      request.cancel()
      await asked
      held(await node.admit(key, null, cents(10)))
    })

    test('a prompt is counted if its worst case doesn’t fit, as are those of other requests on its node', async () => {
      await using node = openNode(engine.open())
      await node.limiter.started
      const key = named(limited({}, { budget: budget(10) }))
      const counted = (worst: number, likely: number) => ({
        ...cents(worst),
        counting: {
          leastNanoUsd: () => 0,
          count: async () => ({ likelyNanoUsd: likely * CENT, mostNanoUsd: likely * CENT, reservedNanoUsd: 0 }),
        },
      })
      const first = held(await node.admit(key, null, counted(9, 2)))
      held(await node.admit(key, null, counted(12, 7)))
      expect(refused(await node.admit(key, null, cents(2))).message).toContain('$0 spent, $0.09 reserved')
      first.cancel()
      held(await node.admit(key, null, cents(2)))
    })

    test('a budget whose spend can’t be read admits nothing, and says so', async () => {
      let isThere = false
      let asked = 0
      const spent = async () => {
        asked++
        if (!isThere) throw new Error('away')
        await Bun.sleep(20)
        return 9 * CENT
      }
      await using node = openNode(engine.open(), { spent })
      await node.limiter.started
      const key = named(limited({}, { budget: budget(10) }))
      expect(refused(await node.admit(key, null, cents(1))).message).toContain('read what its budgets have spent')
      isThere = true
      const decided = await Promise.all([1, 2, 3].map(() => node.admit(key, null, cents(1))))
      expect([admitted(decided).length, asked]).toEqual([1, 2])
    })

    test('the slots of a node that is gone are free, and its reservations count as spent until it returns', async () => {
      const lost = engine.open()
      const base: Batch = {
        epoch: mint('gone'),
        seq: 1,
        leaseMs: times.leaseMs,
        youngMs: 0,
        sliceMs: 60_000,
        told: [],
        asks: [],
      }
      const key = named(limited({ concurrency: 1 }, { budget: budget(10) }))
      const scopes: ScopeAsk[] = [toScope(key)]
      const ask: Ask = {
        id: 'a',
        op: 'take',
        scopes,
        requests: 1,
        slots: 1,
        tokens: 1,
        likelyNanoUsd: 6 * CENT,
        heldNanoUsd: 6 * CENT,
      }
      await lost.call(base)
      await lost.call({ ...base, asks: [ask] })
      await using node = openNode(engine.open())
      await node.limiter.started
      refused(await node.admit(key, null, cents(1)))
      await until('its slot', async () => !((await node.admit(key, null, cents(0))) instanceof GatewayError))
      const standing = () => node.admit({ ...key, limits: limited({}).limits }, null, cents(5))
      expect(refused(await standing()).message).toContain('$0.06 spent, $0 reserved')
      const back = await lost.call({
        ...base,
        seq: 2,
        told: [{ op: 'end', id: 'a', isCanceled: false, nanoUsd: 2 * CENT }],
      })
      expect(back.isNew).toBe(true)
      expect(held(await standing())).toBeDefined()
      await lost.close()
    })

    test('nodes that lease ahead exceed no limit, and eventually use all of it', async () => {
      const leased: Ask[] = []
      const watched = () => {
        const own = engine.open()
        const call: LimitEngine['call'] = (batch) => {
          leased.push(...batch.asks.filter(({ op }) => op === 'lease'))
          return own.call(batch)
        }
        return { ...own, call }
      }
      const nodes = [1, 2, 3].map(() => openNode(watched()))
      await Promise.all(nodes.map(({ limiter }) => limiter.started))
      const key = named(limited({ rpm: 600, tpm: 100_000, concurrency: 90 }, { budget: budget(900) }))
      const team = toTeam(budget(600), key.id)
      const [running, all] = [new Set<Reservation>(), { admitted: 0, most: 0, isOver: false }]
      const clients = nodes.flatMap(({ admit }) =>
        Array.from({ length: 8 }, async () => {
          while (!all.isOver) {
            const one = await admit(key, team, { tokens: 90, nanoUsd: 3 * CENT })
            if (one instanceof GatewayError) {
              await Bun.sleep(30)
              continue
            }
            all.admitted++
            running.add(one)
            all.most = Math.max(all.most, running.size)
            await Bun.sleep(Math.random() * 20)
            running.delete(one)
            one.settle({ tokens: 9, nanoUsd: CENT })
          }
        }),
      )
      await until('all of it to be used', () => all.admitted >= 598)
      await Bun.sleep(300)
      all.isOver = true
      await Promise.all(clients)
      expect(all.admitted).toBeLessThanOrEqual(600)
      expect(all.most).toBeLessThanOrEqual(90)
      expect(leased.length).toBeGreaterThan(0)
      await Promise.all(nodes.map(({ limiter }) => limiter.close()))
    })

    test('amounts leased by an idle node are soon free for others', async () => {
      await using node = openNode(engine.open())
      await using other = openNode(engine.open())
      await Promise.all([node.limiter.started, other.limiter.started])
      const key = named(limited({ rpm: 400, tpm: 40_000, concurrency: 400 }))
      const asked = { tokens: 100, nanoUsd: 0 }
      let decided: (Reservation | GatewayError)[] = []
      for (let each = 0; each < 60; each++) decided.push(await node.admit(key, null, asked))
      expect(admitted(decided).length).toBe(60)
      for (const one of admitted(decided)) one.settle({ tokens: 100, nanoUsd: 0 })
      let taken = 60
      await until('the rest', async () => {
        decided = await Promise.all(Array.from({ length: 400 - taken }, () => other.admit(key, null, asked)))
        taken += admitted(decided).length
        return taken === 400
      })
      refused(await other.admit(key, null, asked))
      refused(await node.admit(key, null, asked))
    })

    test('a request that costs more than its node has leased continues, and its node may lease less then', async () => {
      await using node = openNode(engine.open())
      await using other = openNode(engine.open())
      await Promise.all([node.limiter.started, other.limiter.started])
      const key = named(limited({ concurrency: 100 }, { budget: budget(1_000) }))
      const mine = admitted(await Promise.all(Array.from({ length: 9 }, () => node.admit(key, null, cents(2)))))
      for (let each = 0; each < 9; each++) mine.push(held(await node.admit(key, null, cents(2))))
      expect(await Promise.all(mine.map((one) => one.raise(cents(50))))).toEqual(mine.map(() => null))
      await until('all but what is held to be free', async () => {
        const one = await other.admit(key, null, cents(100))
        if (one instanceof GatewayError) return false
        one.cancel()
        return true
      })
      refused(await other.admit(key, null, cents(101)))
      for (const one of mine) one.settle(cents(10))
      await until(
        'the rest to be free',
        async () => !((await other.admit(key, null, cents(820))) instanceof GatewayError),
      )
      refused(await other.admit(key, null, cents(1)))
    })

    test('the slices of a node that is gone are free once it would no longer spend them', async () => {
      const client = engine.open()
      const base = { seq: 1, leaseMs: 500, youngMs: 0, sliceMs: 1_000, told: [], asks: [] }
      const dead = { ...base, epoch: mint('dead') }
      const key = named(limited({}, { budget: budget(10) }))
      const want = { requests: 0, slots: 0, likelyNanoUsd: CENT, heldNanoUsd: CENT } as const
      const scopes = [toScope(key)]
      await client.call(dead)
      const lease = { ...want, slots: 1, heldNanoUsd: 4 * CENT, aheadMs: 0 }
      await client.call({ ...dead, asks: [{ ...lease, id: 'slice:1', op: 'lease', scopes }] })
      const draw = { slots: 0, heldNanoUsd: CENT, nanoUsd: CENT, usedNanoUsd: 2 * CENT }
      await client.call({ ...dead, seq: 2, told: [{ ...draw, op: 'draw', id: 'slice:1' }] })
      const figures = async (epoch: string) => {
        const asks: Ask[] = [{ ...want, id: epoch, op: 'take', scopes, likelyNanoUsd: 0, heldNanoUsd: 0 }]
        return (await client.call({ ...base, epoch, asks })).replies[0]?.[0]
      }
      const other = mint('other')
      await figures(other)
      expect(await figures(other)).toMatchObject({ spentNanoUsd: CENT, reservedNanoUsd: 3 * CENT })
      await until('its slice', async () => (await figures(other))?.reservedNanoUsd === 0)
      // Its requests' maximum cost.
      expect(await figures(other)).toMatchObject({ spentNanoUsd: 3 * CENT })
      await client.close()
    })

    test('past requests that arrive out of order count, and later ones do too', async () => {
      const client = engine.open()
      const key = named(limited({ rpm: 5 }))
      const base: Batch = {
        ...{ epoch: mint('e'), seq: 0, leaseMs: 1_500, youngMs: 0, sliceMs: 0 },
        told: [],
        asks: [],
      }
      const rate = (agoMs: number): Told => ({ op: 'rate', name: `key:${key.id}`, requests: 1, tokens: 10, agoMs })
      await client.call({ ...base, seq: 1, told: [rate(2_400), rate(2_900), rate(2_000), rate(300), rate(700)] })
      const want = { requests: 1, slots: 0, tokens: 1, heldNanoUsd: 0 } as const
      const ask: Ask = { id: 'one', op: 'take', scopes: [toScope(key)], ...want, likelyNanoUsd: 0 }
      const { replies } = await client.call({ ...base, seq: 1, asks: [ask] })
      expect(replies[0]?.[0]).toMatchObject({ refusal: 'rpm', requests: 5, tokens: 50 })
      await client.close()
    })

    test('unused leases of requests and tokens are returned, but not to a state that was lost', async () => {
      const client = engine.open()
      const key = named(limited({ rpm: 20, tpm: 200 }))
      const base = { epoch: mint('e'), leaseMs: 1_500, youngMs: 0, sliceMs: 0, told: [], asks: [] }
      const lease = { id: 'slice:1', op: 'lease', scopes: [toScope(key)], requests: 9, slots: 0, tokens: 90 } as const
      await client.call({ ...base, seq: 1 })
      const asks: Ask[] = [{ ...lease, heldNanoUsd: 0, likelyNanoUsd: 0, aheadMs: 500 }]
      const { nowMs, bornMs, replies } = await client.call({ ...base, seq: 1, asks })
      expect(replies[0]?.[0]).toMatchObject({ refusal: 'none', requests: 9, tokens: 90 })
      const back = { op: 'return', name: `key:${key.id}`, atMs: nowMs + 500, requests: 7, tokens: 80 } as const
      const told: Told[] = [
        { ...back, bornMs },
        { ...back, bornMs: bornMs - 1 },
      ]
      const again = await client.call({ ...base, seq: 2, told, asks })
      expect(again.replies[0]?.[0]).toMatchObject({ refusal: 'none', requests: 11, tokens: 100 })
      const more = await client.call({ ...base, seq: 2, asks: [...asks, ...asks] })
      expect(more.replies.map(([one]) => one?.refusal)).toEqual(['none', 'rpm'])
      await client.close()
    })

    test('a message that is repeated after a lost reply counts once', async () => {
      const client = engine.open()
      const base: Batch = {
        epoch: mint('again'),
        seq: 1,
        leaseMs: times.leaseMs,
        youngMs: 0,
        sliceMs: 60_000,
        told: [],
        asks: [],
      }
      await client.call(base)
      const scopes = [{ ...toScope(named(limited({ rpm: 9, tpm: 90 }, { budget: budget(10) }))) }]
      const ask: Ask = {
        id: 'a',
        op: 'take',
        scopes,
        requests: 1,
        slots: 1,
        tokens: 5,
        likelyNanoUsd: CENT,
        heldNanoUsd: CENT,
      }
      const told: Told[] = [
        { op: 'spend', name: scopes[0]?.name ?? '', usage: scopes[0]?.budget?.usage ?? '', nanoUsd: CENT },
      ]
      await client.call({ ...base, asks: [ask] })
      for (let i = 0; i < 2; i++) await client.call({ ...base, seq: 2, told, asks: [ask] })
      const { replies } = await client.call({ ...base, asks: [ask] })
      expect(replies[0]?.[0]).toMatchObject({ requests: 1, tokens: 5, spentNanoUsd: CENT, reservedNanoUsd: CENT })
      await client.close()
    })
  })

  describeWith(name as keyof typeof ENGINES)(`an outage of ${name}`, () => {
    test('leaves each node its share, exceeds no budget, and settlements are counted afterwards', async () => {
      const engine = await start()
      const ledger = { spent: 0 }
      const recent: PastRequest[] = []
      const deps = { spent: async () => ledger.spent, recent: () => recent }
      await using node = openNode(engine.open(), deps)
      await using other = openNode(engine.open(), deps)
      await using strict = openNode(engine.open(), { ...deps, onOutage: 'refuse' })
      await Promise.all([node.limiter.started, other.limiter.started, strict.limiter.started])
      const key = named(limited({ rpm: 30, concurrency: 6 }, { budget: budget(1_000) }))
      const early = held(await node.admit(key, null, cents(10)))
      held(await other.admit(key, null, cents(10)))
      await Bun.sleep(100)
      await engine.kill()
      await until('the outage', () => [node, other, strict].every(({ limiter }) => limiter.outage() !== null))
      expect(refused(await strict.admit(key, null, cents(1)))).toMatchObject({ status: 503, kind: 'overloaded' })
      const mine: Reservation[] = []
      // A third of six slots, one of which is in use.
      mine.push(held(await node.admit(key, null, cents(10))))
      expect(mine[0]?.headers).toMatchObject({ 'x-tollgate-limits': 'share', 'x-ratelimit-limit-requests': '10' })
      refused(await node.admit(key, null, cents(10)))
      mine.pop()?.settle(cents(9))
      // More than its slice.
      expect(refused(await node.admit(key, null, cents(60))).status).toBe(503)
      const open = held(await node.admit(key, null, cents(10)))
      ledger.spent = 9 * CENT
      await engine.start()
      await until('the end', () => [node, other, strict].every(({ limiter }) => limiter.outage() === null))
      // Two of its own and one of the other's: none is free for the slots of four more.
      const decided = await Promise.all([1, 2, 3, 4].map(() => strict.admit(key, null, cents(1))))
      expect(admitted(decided).length).toBe(3)
      for (const one of [early, open, ...admitted(decided)]) one.settle(cents(10))
      await Bun.sleep(100)
      const standing = refused(await strict.admit(key, null, cents(990))).message
      expect(standing).toContain('$0.59 spent')
      await engine.close()
    }, 30_000)
  })
}

test('an unreachable engine is reported with possible causes', async () => {
  const engine = openValkey({ url: 'valkey://:hidden@127.0.0.1:1' })
  const asked = engine.call({ epoch: 'e', seq: 0, leaseMs: 1, youngMs: 0, sliceMs: 1, told: [], asks: [] })
  await expect(asked).rejects.toThrow('nothing listens there, it needs another user or password')
})

describeWith('Valkey')('a network that drops everything', () => {
  test('is noticed, and requests continue', async () => {
    const server = await startValkey()
    const proxy = await startDroppingProxy(server.port)
    const engine = openValkey({ url: `redis://127.0.0.1:${proxy.port}` })
    await using node = openNode(engine)
    await node.limiter.started
    const key = named(limited({ rpm: 10 }))
    held(await node.admit(key, null, cents(0)))
    proxy.set('drop')
    expect(held(await node.admit(key, null, cents(0))).headers['x-tollgate-limits']).toBe('share')
    proxy.set('forward')
    await until('the end', () => node.limiter.outage() === null)
    expect(held(await node.admit(key, null, cents(0))).headers['x-tollgate-limits']).toBeUndefined()
    await proxy.close()
    await server.close()
  })
})

describeWith('PostgreSQL')('limits of all nodes in PostgreSQL', () => {
  test('find a reservation by its index, even after a look at its table while it was empty', async () => {
    const server = await startPostgres()
    const postgres = openPostgres({ url: server.url, log })
    await migratePostgres(postgres)
    await server.query('vacuum analyze tollgate.limit_holds')
    await using node = openNode(openPostgresLimits(postgres, timeoutMs), { epoch: 'e' })
    await node.limiter.started
    for (let each = 0; each < 50; each++) held(await node.admit(named(limited({ concurrency: 100 })), null, cents(0)))
    await node.limiter.close()
    const counted = 'select seq_scan::int as scans, idx_scan::int as found from pg_stat_user_tables'
    const read = () => server.query<{ scans: number; found: number }>(`${counted} where relname = 'limit_holds'`)
    // Counted once the connection has ended.
    await until('the figures', async () => ((await read())[0]?.found ?? 0) > 50)
    expect((await read())[0]?.scans).toBeLessThan(10)
    await server.close()
  })
})

describeWith('Valkey', 'PostgreSQL')('both engines', () => {
  const engines = forAllTests(async () => {
    const [valkey, postgres] = [await ENGINES.Valkey(), await ENGINES.PostgreSQL()]
    return { valkey, postgres, close: async () => void (await Promise.all([valkey.close(), postgres.close()])) }
  })

  test('make the same decisions, whatever the order of requests and messages', async () => {
    const [one, two] = [engines.valkey.open(), engines.postgres.open()]
    const random = (below: number) => Math.floor(Math.random() * below)
    const base = { epoch: 'x', leaseMs: 60_000, youngMs: 0, sliceMs: 60_000 }
    let seq = 1
    for (const engine of [one, two]) await engine.call({ ...base, seq, told: [], asks: [] })
    const scope = (name: string): ScopeAsk => ({
      ...{ name, rpm: 30, tpm: 300, concurrency: 12 },
      budget: {
        usage: 'total:0',
        fromMs: 0,
        untilMs: Number.MAX_SAFE_INTEGER,
        nanoUsd: 500,
        warnNanoUsd: 400,
        spentNanoUsd: 7,
      },
    })
    for (let round = 0; round < 60; round++) {
      const own = () => {
        const number = random(40)
        return { id: `r${number}`, scopes: [scope(`key:${number % 3}`), scope(`team:${number % 2}`)] }
      }
      const toLease = () => {
        const number = random(5)
        return { id: `slice:${number}`, scopes: [scope(number < 3 ? `key:${number}` : `team:${number - 3}`)] }
      }
      const asks = Array.from({ length: random(6) }, (): Ask => {
        const likelyNanoUsd = random(60)
        const want = { requests: 1, slots: 1, tokens: random(40), heldNanoUsd: likelyNanoUsd + random(20) } as const
        if (random(4) > 0) return { ...own(), op: random(4) ? 'take' : 'raise', ...want, likelyNanoUsd }
        const slots = random(2)
        return { ...toLease(), op: 'lease', ...want, requests: random(4), slots, likelyNanoUsd, aheadMs: 500 }
      })
      const told = Array.from({ length: random(6) }, (): Told => {
        const op = (['end', 'end', 'free', 'lower', 'hold', 'rate', 'draw'] as const)[random(7)] ?? 'end'
        if (op === 'draw') {
          const nanoUsd = random(20)
          return { op, id: toLease().id, slots: random(3), heldNanoUsd: nanoUsd + random(9), nanoUsd, usedNanoUsd: 0 }
        }
        const { id, scopes } = own()
        if (op === 'end') return { op, id, isCanceled: random(3) === 0, tokens: random(60), nanoUsd: random(60) }
        if (op === 'lower') return { op, id, heldNanoUsd: random(40) }
        if (op === 'free') return { op, id }
        if (op === 'rate') return { op, name: 'key:0', requests: 1, tokens: random(9), agoMs: random(3_000) }
        return { op, id, scopes, requests: 1, slots: 1, tokens: random(9), heldNanoUsd: random(9) }
      })
      const batch: Batch = { ...base, seq: ++seq, told, asks }
      const [a, b] = [await one.call(batch), await two.call(batch)]
      const timeless = ({ replies, warnings }: typeof a) => ({
        warnings: warnings.map(({ name }) => name).sort(),
        replies: replies.map((each) =>
          each.map(({ retryAfterMs, requestsEmptyMs, tokensEmptyMs, ...rest }) => ({
            ...rest,
            isLater: retryAfterMs !== null,
            isUsed: requestsEmptyMs > 0,
            isSpent: tokensEmptyMs > 0,
          })),
        ),
      })
      expect(timeless(b)).toEqual(timeless(a))
    }
    await Promise.all([one.close(), two.close()])
  })
})
