/**
 * The chaos test: the built binary between forty clients of chat completions and of the Responses API, many of them badly behaved, and
 * five upstreams that fail in every way we know, with six SIGKILLs and a change of the catalogue in between and a SIGTERM at the end. Afterwards what
 * clients got, what upstreams saw and what the ledger says must agree (`verdict.ts`). It runs for longer than a minute, so that windows of
 * rates move on and breakers close again; CHAOS_REQUESTS=n sets for how long.
 *
 * CHAOS_SEED=n replays a run. By seed and number are decided: each request with its key and its client's manner
 * (`plan.ts`), what an upstream does to a call of it (`faults.ts`), and with which request a kill, the change
 * and the stop come (`story.ts`). Not replayed, because time decides: which requests are under way at such a moment,
 * in which order they reach the limits of a key or an upstream, and what breakers and probes know, so which routes a
 * request tries. A request that failed is found again by its number, and mostly fails again.
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
    // Enough of everything happened for that to mean something.
    const { ok = 0, cut = 0, failed = 0, abandoned = 0 } = told.rows ?? {}
    expect(ok).toBeGreaterThan(REQUESTS / 4)
    expect(Math.min(cut, failed, abandoned)).toBeGreaterThan(0)
  },
  LIMIT_MS,
)
