/**
 * Promise 2 on the built binary, through every door: SIGKILL at random moments loses no usage; nor with the database locked, nor with the
 * disk full. A few rounds of each; `test/long/crash.test.ts` plays many.
 */
import { describe, expect, test } from 'bun:test'
import { killUnderLoad, killWhileFull, killWhileLocked } from './crash-rounds.ts'
import { whyNoSmallDisk } from './crash-trouble.ts'

const LIMIT_MS = 60_000
const SEED = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000)
const noDisk = whyNoSmallDisk()
if (noDisk !== null) console.warn(`the full disk is not tested here: ${noDisk}`)

describe(`a server that is killed (CRASH_SEED=${SEED})`, () => {
  test(
    'has a right row for every complete answer and every dispatched request',
    async () => {
      const { answers } = await killUnderLoad(SEED, 5)
      expect(answers).toBeGreaterThan(50)
    },
    LIMIT_MS,
  )

  test(
    'keeps answering and loses nothing while another process locks its database',
    async () => {
      const { refusals, answersWhileLocked } = await killWhileLocked(SEED, 3)
      expect(refusals).toEqual({})
      expect(answersWhileLocked).toBeGreaterThan(10)
    },
    LIMIT_MS,
  )

  test.skipIf(noDisk !== null)(
    'loses nothing when its disk is full in between',
    async () => {
      const { answers, refusals } = await killWhileFull(SEED, 3)
      expect(answers).toBeGreaterThan(50)
      // Other than by saying that it cannot record usage, it refuses nobody.
      expect(Object.keys(refusals).filter((reason) => !reason.includes('Usage cannot be recorded'))).toEqual([])
    },
    LIMIT_MS,
  )
})
