/**
 * The chaos test: the built binary between forty clients, many badly behaved, and five failing upstreams, with six
 * SIGKILLs, a catalog change, and a final SIGTERM. Clients, upstreams, and ledger must agree (`verdict.ts`). It takes
 * over a minute, so that rate windows move and breakers close. CHAOS_REQUESTS=n sets the length, CHAOS_SEED=n replays a
 * run. The seed decides requests (`plan.ts`), faults (`faults.ts`), and when kills, change, and stop happen
 * (`story.ts`). Timing isn't replayed: requests in flight, the order at limits, and the state of breakers.
 */
import { expect, test } from 'bun:test'
import { CHAOS_SEED, playAndJudge } from './verdict.ts'

const REQUESTS = Number(process.env.CHAOS_REQUESTS ?? 9_000)
const LIMIT_MS = 15 * 60_000

test(
  `${REQUESTS} requests in chaos: clients, upstreams and ledger agree (CHAOS_SEED=${CHAOS_SEED})`,
  async () => {
    const { complaints, told } = await playAndJudge({ requests: REQUESTS, clients: 40, kills: 6 })
    expect(complaints).toEqual([])
    // Enough of everything happened to mean something.
    const { ok = 0, cut = 0, failed = 0, abandoned = 0 } = told.rows ?? {}
    expect(ok).toBeGreaterThan(REQUESTS / 4)
    expect(Math.min(cut, failed, abandoned)).toBeGreaterThan(0)
  },
  LIMIT_MS,
)
