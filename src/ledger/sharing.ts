/** `--durability shared`: an outcome is in the cluster's PostgreSQL before its response ends, so that losing a node loses no outcome. */
import { GatewayError } from '../domain/error.ts'
import type { Log } from '../log.ts'

/** Ships applied records at once. True once these requests' outcomes are in PostgreSQL; false if impossible. May stay pending while PostgreSQL is unreachable. */
export type Share = (requestIds: readonly string[]) => Promise<boolean>

/** How long the end of a response waits. Longer than a normal failover. */
export const SHARE_MS = 5_000
const PROBE_MS = 500
/** Maximum time to gather outcomes while others are sent. */
const GATHER_MS = 20

export interface Sharing {
  /** Call once the outcome is in the journal. If it throws `ledger_unavailable`, withhold the end of the response. */
  settled(requestId: string): Promise<void>
  /** True from an outcome that didn't arrive in time until the next that does. New requests would be charged and stay incomplete. */
  readonly isAway: boolean
  /** Error for new requests; null if they are accepted. */
  refusal(): GatewayError | null
}

interface Waiting {
  id: string
  resolve(): void
  reject(error: unknown): void
}

export function createSharing(share: Share, log: Log): Sharing {
  let waiting: Waiting[] = []
  let isAway = false
  let isProbing = false
  let asking = 0
  let timer: Timer | null = null

  const flush = async () => {
    if (timer !== null) clearTimeout(timer)
    timer = null
    if (waiting.length === 0) return
    const group = waiting
    waiting = []
    asking++
    const isShared = await ask(group.map(({ id }) => id))
    asking--
    for (const { resolve, reject } of group) isShared ? resolve() : reject(unshared())
    void flush()
  }

  const ask = async (ids: readonly string[]): Promise<boolean> => {
    const late = Promise.withResolvers<boolean>()
    const timer = setTimeout(() => late.resolve(false), SHARE_MS)
    const isShared = await Promise.race([share(ids).catch(() => false), late.promise])
    clearTimeout(timer)
    if (isAway && isShared) log.info('ledger_shipped', 'PostgreSQL gets outcomes again; accepting requests')
    if (!isAway && !isShared)
      log.warn('ledger_unshipped', 'PostgreSQL did not get an outcome in time; rejecting requests until it does', {
        ms: SHARE_MS,
      })
    isAway = !isShared
    return isShared
  }

  /** Checks without a request: everything in the journal must arrive. */
  const probe = async () => {
    isProbing = true
    while (isAway && !(await ask([]))) await Bun.sleep(PROBE_MS)
    isProbing = false
  }

  return {
    settled: (id) =>
      new Promise((resolve, reject) => {
        if (waiting.push({ id, resolve, reject }) > 1) return
        if (asking === 0) setImmediate(flush)
        else timer = setTimeout(flush, GATHER_MS)
      }),
    get isAway() {
      return isAway
    },
    refusal() {
      if (isAway && !isProbing) void probe()
      return isAway ? unshared() : null
    },
  }
}

const unshared = () =>
  new GatewayError(
    'ledger_unavailable',
    "Usage can't be recorded in the cluster right now: PostgreSQL didn't answer in time. Ask an administrator to check it; then try again.",
  )
