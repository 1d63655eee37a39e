/** A cluster of three nodes with every kind of failure. Part of `bun run test:all`. */
import { expect, test } from 'bun:test'
import { describeWith } from '../support/engines.ts'
import { createClusterBench } from './cluster/bench.ts'
import { changeAll, expectChanges } from './cluster/changes.ts'
import { TROUBLES } from './cluster/trouble.ts'
import { expectOneAccount, untilWell } from './cluster/verdict.ts'

const SEED = Number(process.env.CLUSTER_SEED ?? Date.now() % 1_000_000)
const ROUNDS = Number(process.env.CLUSTER_ROUNDS ?? 8)
const TROUBLE = new RegExp(process.env.CLUSTER_TROUBLE ?? '')
const ONLY = process.env.CLUSTER_LIMITS
const LOG_LINES = 25
const CLIENTS = 12
/** Budget slices of nodes that Valkey lost. */
const MARGIN = 1 + 1 / 8
const LIMIT_MS = 15 * 60_000

describeWith('PostgreSQL', 'Valkey')(`a cluster in trouble, ${ROUNDS} times (CLUSTER_SEED=${SEED})`, () => {
  test.each(
    [['PostgreSQL', false] as const, ['Valkey', true] as const].filter(
      ([, hasValkey]) => ONLY === undefined || hasValkey === (ONLY === 'valkey'),
    ),
  )(
    'with limits in %s has one right account of all answers, one configuration, and a budget that holds',
    async (_, hasValkey) => {
      const bench = await createClusterBench(SEED, hasValkey)
      const names = Object.keys(TROUBLES).filter((name) => TROUBLE.test(name))
      const happened: string[] = []
      let lost: [number, number] | null = null
      try {
        const stopLoad = bench.load(CLIENTS)
        const changes = changeAll(bench)
        for (let round = 0; round < ROUNDS; round++) {
          await Bun.sleep(bench.between(50, 400))
          const two = [bench.oneOf(names), bench.oneOf(names)]
          happened.push(two.join(' & '))
          if (process.env.CLUSTER_VERBOSE) console.log(round, two.join(' & '))
          await Promise.all([...new Set(two)].map((name) => TROUBLES[name]?.(bench)))
          if (round === Math.floor(ROUNDS / 2)) lost = await bench.failOver(500)
        }
        await changes.stop()
        await stopLoad()
        for (const node of bench.nodes) await untilWell(node)
        await expectChanges(bench.nodes, changes, lost)
        expect(await expectOneAccount(bench)).toBeLessThanOrEqual(bench.budget.nanoUsd * MARGIN)
        console.log(
          'a cluster in trouble:',
          JSON.stringify({
            answers: bench.received.length,
            made: changes.made,
            refused: [...new Set([...bench.refusals.keys()].map((refusal) => refusal.split(':')[0]))],
            changes: Object.fromEntries(changes.refused),
          }),
        )
        expect(bench.received.length).toBeGreaterThan(0)
      } catch (error) {
        console.log(happened.join('\n'))
        for (const { name, log } of bench.nodes) {
          const lines = log().split('\n')
          console.log(
            name,
            lines
              .filter((line) => !line.includes('"event":"request_'))
              .slice(-LOG_LINES)
              .join('\n'),
          )
        }
        throw error
      } finally {
        await bench.close()
      }
    },
    LIMIT_MS,
  )
})
