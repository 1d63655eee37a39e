/**
 * Limits of a cluster, node side. The node asks the shared engine unless its leases cover the request. If the engine
 * can't be reached, the node enforces its share: rates and slots divided by the nodes, and its budget leases.
 */
import { UpstreamError } from '../../domain/error.ts'
import type { Limits } from '../../domain/limits.ts'
import type { Spender } from '../../domain/snapshot.ts'
import type { BudgetUse } from '../budget.ts'
import {
  isLimited,
  type Limited,
  type LimitedUpstream,
  type Limiter,
  type NodeLimiter,
  type Permit,
  UNLIMITED_PERMIT,
  UNLIMITED_REQUEST,
} from '../limiter.ts'
import { toOwnLimitError } from '../messages.ts'
import { hasLimits } from '../rates.ts'
import { toAmount, toScope, type Want } from './engine.ts'
import type { Claim } from './lease.ts'
import type { Grant } from './leases.ts'
import { SharedRequest, toRateRefusal } from './request.ts'
import { type Held, type Hold, Shared, type SharedLimiterDeps } from './state.ts'

const FULL_MS = 200

export type SharedLimiter = ReturnType<typeof createSharedLimiter>

export function createSharedLimiter(deps: SharedLimiterDeps) {
  const shared = new Shared(deps)
  const full = new Map<string, { limits: Limits; tokens: number; untilMs: number }>()
  let calls = 0

  const permit = (upstream: LimitedUpstream, tokens: number): Permit | Promise<Permit | UpstreamError> => {
    const claims = [{ name: `upstream:${upstream.id}`, limits: upstream.limits, budget: null }]
    const grant = shared.take(claims, tokens, 0)
    return grant ? new LeasedCall(shared, grant, upstream.id) : askPermit(upstream, claims, tokens)
  }
  const askPermit = async (
    upstream: LimitedUpstream,
    claims: readonly Claim[],
    tokens: number,
  ): Promise<Permit | UpstreamError> => {
    const { id: upstreamId, limits } = upstream
    const id = `call:${++calls}`
    const scopes = [toScope(`upstream:${upstreamId}`, limits, null, 0)]
    const want: Want = { requests: 1, slots: 1, tokens: toAmount(tokens), heldNanoUsd: 0 }
    const isInDoubt = shared.outage === null
    const replies = await shared.ask(id, 'take', claims, () => scopes, want, 0)
    if (replies === null) return permitAlone(id, upstream, tokens, { scopes, want }, isInDoubt)
    const [reply] = replies
    const refusal = reply && toRateRefusal(reply, limits, tokens)
    if (refusal) {
      full.set(upstreamId, { limits, tokens, untilMs: deps.monotonicMs() + FULL_MS })
      return toOwnLimitError(upstreamId, refusal)
    }
    full.delete(upstreamId)
    return new SharedCall(shared, id, upstreamId, { scopes, want }, null)
  }
  /** @param isInDoubt whether the engine may have granted the permit. */
  const permitAlone = (id: string, upstream: LimitedUpstream, tokens: number, hold: Hold, isInDoubt: boolean) => {
    const local = shared.alone()
    if (isInDoubt) shared.queue.tell({ op: 'end', id, isCanceled: true, nanoUsd: 0 })
    if (local === null) return shared.toUpstreamError(upstream.id)
    const given = local.permit({ id: upstream.id, limits: shared.toShare(upstream.limits) }, tokens, deps.monotonicMs())
    return given instanceof UpstreamError
      ? given
      : new SharedCall(shared, id, upstream.id, hold, { local, permit: given })
  }
  return {
    enter: (id: string, key: Limited, team: Limited | null) =>
      isLimited(key, team) ? new SharedRequest(shared, id, key, team) : UNLIMITED_REQUEST,
    permit: (upstream: LimitedUpstream, tokens: number) =>
      hasLimits(upstream.limits) ? permit(upstream, tokens) : UNLIMITED_PERMIT,
    isFull({ id, limits }: LimitedUpstream, tokens: number, nowMs: number): boolean {
      if (limits.tpm !== null && tokens > limits.tpm) return true
      const last = full.get(id)
      return last !== undefined && last.limits === limits && tokens >= last.tokens && nowMs < last.untilMs
    },
    /** Sets the current budgets, for warnings and `budgetUses`. */
    renew(keys: Iterable<Limited>, teams: Iterable<Limited>): void {
      const before = new Map(shared.figures)
      shared.figures.clear()
      for (const [kind, owners] of [['key', keys] as const, ['team', teams] as const])
        for (const { id, name, budget } of owners) {
          if (budget === null) continue
          const known = before.get(`${kind}:${id}`)
          const isSame = known?.budget.period === budget.period
          const { spentNanoUsd, reservedNanoUsd } = isSame ? known : { spentNanoUsd: null, reservedNanoUsd: 0 }
          shared.figures.set(`${kind}:${id}`, { spender: { kind, id }, name, budget, spentNanoUsd, reservedNanoUsd })
        }
      for (const [place, { budget }] of before)
        if ((shared.figures.get(place)?.budget.nanoUsd ?? 0) < budget.nanoUsd) shared.leases.release(place)
    },
    /** As of each budget's last request on this node. */
    *budgetUses(kind: Spender['kind']): Iterable<BudgetUse> {
      for (const { spender, name, budget, spentNanoUsd, reservedNanoUsd } of shared.figures.values())
        if (spender.kind === kind && spentNanoUsd !== null)
          yield { id: spender.id, name, nanoUsd: budget.nanoUsd, spentNanoUsd, reservedNanoUsd }
    },
    // The engine has the reservations of other servers of this node.
    ended() {},
    hold: () => () => {},
    askSuccessor() {},
    /** Why the engine can't be reached, as text; null if it can. */
    outage: () => shared.outage,
    engine: deps.engine.name,
    place: () => (shared.outage === null ? deps.engine.place : null),
    /** Resolves after the first attempt to reach the engine. */
    started: shared.queue.started,
    async close(): Promise<void> {
      shared.leases.close()
      await shared.queue.close()
    },
  } satisfies NodeLimiter & Record<string, unknown>
}

/** A call to an upstream with limits. */
class SharedCall implements Permit, Held {
  #free = () => {}

  constructor(
    private readonly shared: Shared,
    private readonly id: string,
    private readonly upstream: string,
    hold: Hold,
    /** Set for a call admitted in an outage, unknown to the engine. */
    private readonly alone: { local: Limiter; permit: Permit } | null,
  ) {
    shared.holds.set(id, hold)
    shared.inFlight.add(this)
  }

  holdIn(local: Limiter): void {
    this.#free = local.hold({ keyId: '', teamId: null, upstream: this.upstream }, this.shared.monotonicMs)
  }

  leave(tokens: number | null): void {
    const { shared, id, alone } = this
    if (!shared.holds.delete(id)) return
    shared.inFlight.delete(this)
    this.#free()
    alone?.permit.leave(tokens)
    // Once the outage has ended, the engine knows the call.
    if (alone === null || alone.local !== shared.local)
      shared.queue.tell({ op: 'end', id, isCanceled: false, ...(tokens !== null && { tokens }), nanoUsd: 0 })
  }
}

/** A call that its upstream's lease covers. */
class LeasedCall implements Permit, Held {
  #isLeft = false
  #free = () => {}

  constructor(
    private readonly shared: Shared,
    private readonly grant: Grant,
    private readonly upstream: string,
  ) {
    shared.inFlight.add(this)
  }

  holdIn(local: Limiter): void {
    this.#free = local.hold({ keyId: '', teamId: null, upstream: this.upstream }, this.shared.monotonicMs)
  }

  leave(tokens: number | null): void {
    if (this.#isLeft) return
    this.#isLeft = true
    this.shared.inFlight.delete(this)
    this.#free()
    this.grant.end(false, tokens, 0)
  }
}
