/**
 * The chaos test of `e2e/chaos.test.ts` for longer than a minute, so that windows of rates move on and breakers close again,
 * and with more kills. Part of `bun run test:all`; CHAOS_SEED=n replays, CHAOS_REQUESTS=n sets how long.
 */
import { expect, test } from 'bun:test'
import { CHAOS_SEED, playAndJudge } from '../e2e/chaos-verdict.ts'

const REQUESTS = Number(process.env.CHAOS_REQUESTS ?? 9_000)
const LIMIT_MS = 15 * 60_000

test(
  `${REQUESTS} requests in chaos: clients, upstreams and ledger agree (CHAOS_SEED=${CHAOS_SEED})`,
  async () => {
    const { complaints, told } = await playAndJudge({ requests: REQUESTS, clients: 40, kills: 6 })
    expect(complaints).toEqual([])
    expect(told.rows?.ok ?? 0).toBeGreaterThan(REQUESTS / 4)
  },
  LIMIT_MS,
)
