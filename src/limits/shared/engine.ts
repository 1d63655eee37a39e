/**
 * The shared state of all nodes' limits, as an engine keeps it: Valkey (`valkey.lua`) or PostgreSQL
 * (`postgres/0003_limits.sql`), with the same algorithm. A node sends batches. The engine decides its asks one after
 * the other, by its own clock, each for all of its scopes or for none.
 *
 * - A scope is a key, a team, or an upstream: a sliding minute in grains of a second, slots, and the budgets' usages.
 * - A hold is what one request or call has of its scopes. An ask brings a hold up to what it wants, so that asking again
 *   after a lost reply takes nothing twice.
 * - An epoch is one run of a node. If it isn't heard of for a while, its slots are freed, and its holds count as
 *   spent until it returns or settles them. What it leased of budgets (`leases.ts`) stays reserved for longer: these
 *   holds have IDs that begin with `slice:`.
 * - A state that is lost starts empty at a later `bornMs`. It decides nothing at first, while all nodes declare what
 *   they have in flight; what was spent is read from the ledger when a usage is first asked for, once all nodes have
 *   sent it there.
 */

import { BUDGET_WARNING_PERCENT, type Budget, type Limits } from '../../domain/limits.ts'
import { endOf, startOf } from '../period.ts'

/** `key:ID`, `team:ID`, or `upstream:ID`. */
export type ScopeName = string

/** One period of a budget, such as `month:1793491200000`. */
export type Usage = string

export interface BudgetAsk {
  usage: Usage
  fromMs: number
  untilMs: number
  nanoUsd: number
  warnNanoUsd: number
  /** What the ledger has as settled, if the engine didn't know. */
  spentNanoUsd?: number
}

export interface ScopeAsk {
  name: ScopeName
  rpm?: number
  tpm?: number
  concurrency?: number
  budget?: BudgetAsk
}

/** What a request asks to hold. */
export interface Want {
  requests: number
  slots: number
  /** Undefined leaves tokens unchecked. */
  tokens?: number
  heldNanoUsd: number
}

export interface Ask extends Want {
  id: string
  /**
   * `raise` is for an admitted request: only budgets decide. `lease` adds to a hold of one scope: its requests and
   * tokens count in the sliding minute alone, and its slots are at most an eighth of the free ones.
   */
  op: 'take' | 'raise' | 'lease'
  /** From now, when its requests and tokens count; default 0. */
  aheadMs?: number
  scopes: readonly ScopeAsk[]
  /** The budgets must have this much left. 0 passes always. */
  likelyNanoUsd: number
}

/** Facts that the engine takes as they are, in order, each once. */
export type Told =
  /** Brings a hold up to this, whatever the limits. */
  | ({ op: 'hold'; id: string; scopes: readonly Pick<ScopeAsk, 'name' | 'budget'>[] } & Want)
  /** Ends a hold: replaces it by the actual use, or undoes it. */
  | { op: 'end'; id: string; isCanceled: boolean; tokens?: number; nanoUsd: number }
  /** Frees its slots. */
  | { op: 'free'; id: string }
  | { op: 'lower'; id: string; heldNanoUsd: number }
  /** Takes slots and dollars from a lease, some of them spent. `usedNanoUsd` is what running requests have of the rest. */
  | { op: 'draw'; id: string; slots: number; heldNanoUsd: number; nanoUsd: number; usedNanoUsd: number }
  /** Requests and tokens that counted at this time, unless the state is another. */
  | { op: 'return'; name: ScopeName; bornMs: number; atMs: number; requests: number; tokens: number }
  /** Spent without a hold. */
  | { op: 'spend'; name: ScopeName; usage: Usage; nanoUsd: number }
  /** Requests of the last minute. */
  | { op: 'rate'; name: ScopeName; requests: number; tokens: number; agoMs: number }

export interface Batch {
  epoch: string
  /** Of `told`: a batch that is sent again isn't applied again. */
  seq: number
  leaseMs: number
  /** How long a new state decides nothing. */
  youngMs: number
  /** How long the leases of a node that is gone are kept. */
  sliceMs: number
  /** The ledger lacks what this node spent before: how long a new state waits for that. */
  behindMs?: number
  told: readonly Told[]
  asks: readonly Ask[]
}

/** Whether a scope refuses, and its figures after the decision. */
export interface ScopeReply {
  refusal: 'none' | 'concurrency' | 'rpm' | 'tpm'
  /** Of the refusing limit; for a lease, of slots. */
  used: number
  /** Null if waiting won't help. */
  retryAfterMs: number | null
  requests: number
  requestsEmptyMs: number
  tokens: number
  tokensEmptyMs: number
  /** `unknown`: its spend must be read from the ledger. `over`: another period is in force by the engine's clock. */
  budget: 'fits' | 'full' | 'unknown' | 'over'
  spentNanoUsd: number
  reservedNanoUsd: number
}

export interface EngineWarning {
  name: ScopeName
  spentNanoUsd: number
  /** Of the budget: this node may know another. */
  nanoUsd: number
}

export interface BatchReply {
  /** Engine's clock. */
  nowMs: number
  bornMs: number
  /** Nodes whose lease holds. */
  nodes: number
  /** The engine didn't know this epoch, and decided nothing. */
  isNew: boolean
  warnings: EngineWarning[]
  /** For each ask and its scopes; empty if nothing was decided. */
  replies: ScopeReply[][]
}

/** Of a batch for what is in it: none of it was applied, and sending it again would not help. */
export class BatchRefusal extends Error {}

/** An amount as engines can add it up. */
export const toAmount = (amount: number): number => Math.min(Math.ceil(amount), Number.MAX_SAFE_INTEGER)

export interface LimitEngine {
  /** Such as `Valkey`, for people. */
  readonly name: string
  /** Where its state is: nodes at another place don't share it. Null if unknown, or the same for all. */
  readonly place: string | null
  /** Of asks, and as many told. */
  readonly maxBatch: number
  /** After which a call counts as lost. */
  readonly timeoutMs: number
  /**
   * Rejects with a BatchRefusal, or with another error if it can't be reached: whether the batch was applied is then
   * unknown.
   */
  call(batch: Batch): Promise<BatchReply>
  /** Drops the connection: the next call uses another. */
  reset(): void
  close(): void | Promise<void>
}

export const toUsage = ({ period }: Budget, nowMs: number): Usage => `${period}:${startOf(period, nowMs)}`

export function toScope(name: ScopeName, limits: Limits, budget: Budget | null, nowMs: number): ScopeAsk {
  const scope: ScopeAsk = { name }
  if (limits.rpm !== null) scope.rpm = limits.rpm
  if (limits.tpm !== null) scope.tpm = limits.tpm
  if (limits.concurrency !== null) scope.concurrency = limits.concurrency
  if (budget === null) return scope
  const { nanoUsd, period } = budget
  const fromMs = startOf(period, nowMs)
  scope.budget = {
    usage: toUsage(budget, nowMs),
    fromMs,
    untilMs: endOf(period, nowMs) ?? Number.MAX_SAFE_INTEGER,
    nanoUsd,
    warnNanoUsd: Number((BigInt(nanoUsd) * BigInt(BUDGET_WARNING_PERCENT) + 99n) / 100n),
  }
  return scope
}

/** What a lease goes by. */
export type ScopeFigures = Pick<ScopeReply, 'requests' | 'tokens' | 'spentNanoUsd' | 'reservedNanoUsd'>

const REFUSALS = ['none', 'concurrency', 'rpm', 'tpm'] as const
const BUDGETS = ['fits', 'full', 'unknown', 'over'] as const
const FIGURES = 10

/** @param figures ten numbers for each scope. */
export function toScopeReplies(figures: readonly number[]): ScopeReply[] {
  const replies: ScopeReply[] = []
  for (let at = 0; at < figures.length; at += FIGURES) {
    const of = (offset: number) => figures[at + offset] ?? 0
    replies.push({
      refusal: REFUSALS[of(0)] ?? 'none',
      used: of(1),
      retryAfterMs: of(2) < 0 ? null : of(2),
      requests: of(3),
      requestsEmptyMs: of(4),
      tokens: of(5),
      tokensEmptyMs: of(6),
      budget: BUDGETS[of(7)] ?? 'fits',
      spentNanoUsd: of(8),
      reservedNanoUsd: of(9),
    })
  }
  return replies
}

export const isGranted = (replies: readonly ScopeReply[]): boolean =>
  replies.every(({ refusal, budget }) => refusal === 'none' && budget === 'fits')
