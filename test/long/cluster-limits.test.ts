/** Three nodes spend one budget while its engine is killed repeatedly, with and without an error for the nodes. */
import { expect, test } from 'bun:test'
import { GatewayError } from '../../src/domain/error.ts'
import { createSharedLimiter } from '../../src/limits/shared/limiter.ts'
import { openPostgresLimits } from '../../src/limits/shared/postgres.ts'
import { openValkey } from '../../src/limits/shared/valkey.ts'
import { createLog } from '../../src/log.ts'
import { openPostgres } from '../../src/store/postgres/client.ts'
import { migratePostgres } from '../../src/store/postgres/migrate.ts'
import { at, budget, CENT, cents, limited } from '../limits/asking.ts'
import { describeWith, startDroppingProxy, startPostgres, startValkey } from '../support/engines.ts'
import { until } from '../support/until.ts'

const log = createLog({ now: () => 0, write: async () => {} })
const ROUNDS = 4
/** How long until a settled request is in the ledger of all nodes. */
const SHIPPED_MS = 100

describeWith('Valkey', 'PostgreSQL')('a budget of all nodes', () => {
  test.each(['Valkey', 'PostgreSQL'])(
    'is not exceeded, however often %s is lost',
    async (name) => {
      const server = name === 'Valkey' ? await startValkey() : await startPostgres()
      const proxy = await startDroppingProxy(server.port)
      const url = server.url.replace(String(server.port), String(proxy.port))
      if (name === 'PostgreSQL') {
        const postgres = openPostgres({ url: server.url, log })
        await migratePostgres(postgres)
        await postgres.close()
      }
      const open = () =>
        name === 'Valkey'
          ? openValkey({ url })
          : openPostgresLimits(openPostgres({ url, log, timing: { retryMs: 50 } }))
      let [shipped, admitted, alone, isOver] = [0, 0, 0, false]
      const key = limited({ concurrency: 60 }, { budget: budget(2_000, 'total') })
      const nodes = [1, 2, 3].map((number) =>
        createSharedLimiter({
          ...{ engine: open(), epoch: `e${number}`, onOutage: 'share', monotonicMs: () => performance.now() },
          ...{ now: Date.now, spent: async () => shipped, shipped: async () => {}, recent: () => [], nodes: () => 3 },
          ...{ onWarning() {}, onRefused() {}, onOutageChange() {} },
        }),
      )
      await Promise.all(nodes.map(({ started }) => started))
      const running = nodes.flatMap((limiter, node) =>
        Array.from({ length: 3 }, async (_, place) => {
          for (let number = 0; !isOver; number++) {
            const request = limiter.enter(`${node}-${place}-${number}`, key, null)
            const decided = await request.admit({ tokens: 1, nanoUsd: 2 * CENT }, at(0))
            if (decided instanceof GatewayError) {
              await request.refuse(decided, 0)
              await Bun.sleep(20)
              continue
            }
            admitted++
            if (decided.headers['x-tollgate-limits']) alone++
            await Bun.sleep(10 + Math.random() * 60)
            decided.settle({ tokens: 1, nanoUsd: CENT })
            setTimeout(() => {
              shipped += CENT
            }, Math.random() * SHIPPED_MS)
          }
        }),
      )
      for (let round = 0; round < ROUNDS; round++) {
        await Bun.sleep(1_500)
        if (round % 2) proxy.set('drop')
        else await server.kill()
        await Bun.sleep(1_000)
        if (round % 2) proxy.set('forward')
        else await server.start()
      }
      await Bun.sleep(14_000)
      isOver = true
      await Promise.all(running)
      await Bun.sleep(2 * SHIPPED_MS)
      console.log(`${name}: ${admitted} admitted, ${alone} of them in outages, $${shipped / CENT / 100} of $20 spent`)
      expect(alone).toBeGreaterThan(0)
      expect(shipped).toBeLessThanOrEqual(2_000 * CENT)
      expect(shipped).toBeGreaterThan(1_900 * CENT)
      for (const { close } of nodes) await close()
      await proxy.close()
      await server.close()
    },
    120_000,
  )

  test('the budget is read from the ledger after a failover of PostgreSQL, and requests in flight are reserved again', async () => {
    const primary = await startPostgres()
    const migrating = openPostgres({ url: primary.url, log })
    await migratePostgres(migrating)
    await migrating.close()
    const standby = await startPostgres({ standbyOf: primary })
    const url = `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`
    let shipped = 0
    const limiter = createSharedLimiter({
      ...{ engine: openPostgresLimits(openPostgres({ url, log, timing: { retryMs: 50 } })), epoch: 'e' },
      ...{
        onOutage: 'share',
        monotonicMs: () => performance.now(),
        now: Date.now,
        recent: () => [],
        nodes: () => 1,
        shipped: async () => {},
      },
      ...{ spent: async () => shipped, onWarning() {}, onRefused() {}, onOutageChange() {} },
    })
    await limiter.started
    const key = limited({ concurrency: 3 }, { budget: budget(10, 'total') })
    const admit = (id: string, amount: number) => limiter.enter(id, key, null).admit(cents(amount), at(0))
    const [running, ended] = [await admit('a', 2), await admit('b', 4)]
    if (running instanceof GatewayError || ended instanceof GatewayError) throw running
    ended.settle(cents(3))
    shipped = 3 * CENT
    await Bun.sleep(300)
    await primary.kill()
    await until('the outage', () => limiter.outage() !== null)
    await standby.promote()
    await until('the end', () => limiter.outage() === null)
    expect(await admit('c', 6)).toMatchObject({ message: expect.stringContaining('$0.03 spent, $0.02 reserved') })
    expect([await admit('d', 3), await admit('e', 2)].map((one) => one instanceof GatewayError)).toEqual([false, false])
    expect(await admit('f', 0)).toMatchObject({ message: expect.stringContaining('concurrent requests') })
    await limiter.close()
    await standby.close()
    await primary.close()
  }, 60_000)
})
