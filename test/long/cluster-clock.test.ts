/**
 * Nodes whose clocks step across the end of a budget's day, while they serve, when they serve alone, and across a
 * restart. The limits' engine decides the day.
 */
import { expect, test } from 'bun:test'
import { describeWith } from '../support/engines.ts'
import { until } from '../support/until.ts'
import { type ClusterNode, createClusterBench } from './cluster/bench.ts'
import { expectOneAccount, untilWell } from './cluster/verdict.ts'

const SEED = Number(process.env.CLUSTER_SEED ?? Date.now() % 1_000_000)
const DAY_S = 86_400
const toDay = (ms: number) => Math.floor(ms / 1_000 / DAY_S)

describeWith('PostgreSQL')(`a cluster whose clocks step (CLUSTER_SEED=${SEED})`, () => {
  test('records every request, and spends the budget of one day', async () => {
    const firstDay = toDay(Date.now())
    const bench = await createClusterBench(SEED, false, [0.1, 'day'])
    const { nodes, received, refusals } = bench
    const [one, two, three] = nodes
    try {
      if (one.clock === null) return console.warn('Skipped: no C compiler is here, which clocks that step need.')
      const step = async (node: ClusterNode, seconds: number) => {
        node.clock?.step(seconds)
        const from = received.length
        await until('answers', () => received.length > from + 30)
      }
      const stopLoad = bench.load(12)
      await step(two, DAY_S)
      for (const proxy of two.proxies) proxy.set('drop')
      await step(two, -DAY_S)
      for (const proxy of two.proxies) proxy.cut()
      for (const proxy of two.proxies) proxy.set('forward')
      await step(three, 31 * DAY_S)
      await three.kill()
      expect(await three.start()).toBeNull()
      await step(one, -7_200)
      const isSpent = () => [...refusals.keys()].some((refusal) => refusal.includes('budget'))
      await until('the budget to be spent', isSpent)
      await step(two, DAY_S)
      for (const { clock } of nodes) clock?.step(0)
      for (const node of nodes) await untilWell(node)
      await stopLoad()
      const days = 1 + toDay(Date.now()) - firstDay
      expect(await expectOneAccount(bench)).toBeLessThanOrEqual(days * bench.budget.nanoUsd)
      const [stamped] = await bench
        .primary()
        .query<{ days: number }>('select count(distinct created_ms / 86400000)::int as days from tollgate.requests')
      expect(stamped?.days).toBeGreaterThanOrEqual(4)
    } finally {
      await bench.close()
    }
  }, 120_000)
})
