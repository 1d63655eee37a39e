/** Promise 2 over many rounds of the stories in `e2e/crash-rounds.ts`. Part of `bun run test:all`. */
import { describe, expect, test } from 'bun:test'
import { killOneOfThree, killUnderLoad, killWhileFull, killWhileLocked } from '../e2e/crash-rounds.ts'
import { whyNoSmallDisk } from '../e2e/crash-trouble.ts'

const SEED = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000)
const ROUNDS = Number(process.env.CRASH_ROUNDS ?? 60)
const LIMIT_MS = 15 * 60_000
const noDisk = whyNoSmallDisk()
if (noDisk !== null) console.warn(`the full disk is not tested here: ${noDisk}`)

describe(`a server that is killed ${ROUNDS} times (CRASH_SEED=${SEED})`, () => {
  test(
    'has a right row for every complete answer and every dispatched request',
    async () => {
      const told = await killUnderLoad(SEED, ROUNDS)
      console.log('killed under load:', JSON.stringify(told))
      expect(told.refusals).toEqual({})
    },
    LIMIT_MS,
  )

  test(
    'charges what its upstreams made on every endpoint, also where they fail and clients leave',
    async () => {
      const told = await killUnderLoad(SEED, ROUNDS, { isFaulty: true })
      console.log('killed among faults:', JSON.stringify(told))
      expect(told.answers).toBeGreaterThan(0)
    },
    LIMIT_MS,
  )

  test(
    'keeps answering and loses nothing while another process locks its database',
    async () => {
      const told = await killWhileLocked(SEED, ROUNDS)
      console.log('killed while locked:', JSON.stringify(told))
      expect(told.refusals).toEqual({})
    },
    LIMIT_MS,
  )

  test.skipIf(noDisk !== null)(
    'loses nothing when its disk is full in between',
    async () => {
      const told = await killWhileFull(SEED, ROUNDS)
      console.log('killed on a full disk:', JSON.stringify(told))
      expect(Object.keys(told.refusals).filter((reason) => !reason.includes("Usage can't be recorded"))).toEqual([])
    },
    LIMIT_MS,
  )

  test.skipIf(process.platform !== 'linux')(
    'keeps what its workers recorded, when a worker or the keeper is killed',
    async () => {
      const told = await killOneOfThree(SEED, ROUNDS)
      console.log('killed one of three:', JSON.stringify(told))
      expect(told.answers).toBeGreaterThan(0)
    },
    LIMIT_MS,
  )
})
