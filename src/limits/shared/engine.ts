/**
 * Interface of the engines that hold the limits of all nodes: Valkey (`valkey.lua`) and PostgreSQL
 * (`postgres/0003_limits.sql`), with the same algorithm. A node sends batches. The engine decides the asks of a batch
 * in order, by its own clock, each for all of its scopes or for none.
 *
 * - A scope is a key, a team, or an upstream: a sliding minute in grains of a second, slots, and the budgets' usages.
 * - A hold is the reservation of one request or call in its scopes. An ask raises a hold to the wanted amounts, so a
 *   retry after a lost reply takes nothing twice.
 * - An epoch is one run of a node. If an epoch is silent for a while, its slots are freed, and its holds count as spent
 *   until it returns or settles them. Its budget leases (`leases.ts`) stay reserved for longer: these holds have IDs
 *   that begin with `slice:`.
 * - After a loss, the state starts empty at a later `bornMs`. It decides nothing at first, while all nodes report their
 *   requests in flight. The spend of a usage is read from the ledger at its first ask, once all nodes have sent their
 *   records.
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
  /** Settled spend in the ledger, if the engine didn't know it. */
  spentNanoUsd?: number
}

export interface ScopeAsk {
  name: ScopeName
  rpm?: number
  tpm?: number
  concurrency?: number
  budget?: BudgetAsk
}

/** Amounts to reserve for a request. */
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
   * tokens count only in the sliding minute, and its slots are at most an eighth of the free ones.
   */
  op: 'take' | 'raise' | 'lease'
  /** Time from now until its requests and tokens count; default 0. */
  aheadMs?: number
  scopes: readonly ScopeAsk[]
  /** The budgets must have this much left. 0 always passes. */
  likelyNanoUsd: number
}

/** Reports that the engine applies without a decision, in order, each once. */
export type Told =
  /** Raises a hold to these amounts, even beyond the limits. */
  | ({ op: 'hold'; id: string; scopes: readonly Pick<ScopeAsk, 'name' | 'budget'>[] } & Want)
  /** Ends a hold: replaces it by the actual use, or undoes it. */
  | { op: 'end'; id: string; isCanceled: boolean; tokens?: number; nanoUsd: number }
  /** Frees the hold's slots. */
  | { op: 'free'; id: string }
  | { op: 'lower'; id: string; heldNanoUsd: number }
  /** Takes slots and dollars from a lease, some of them spent. `usedNanoUsd`: part of the rest in running requests. */
  | { op: 'draw'; id: string; slots: number; heldNanoUsd: number; nanoUsd: number; usedNanoUsd: number }
  /** Returns requests and tokens that counted at this time. Ignored for another state. */
  | { op: 'return'; name: ScopeName; bornMs: number; atMs: number; requests: number; tokens: number }
  /** Adds spend without a hold. */
  | { op: 'spend'; name: ScopeName; usage: Usage; nanoUsd: number }
  /** Adds requests of the last minute. */
  | { op: 'rate'; name: ScopeName; requests: number; tokens: number; agoMs: number }

export interface Batch {
  epoch: string
  /** Number of `told`: a repeated batch isn't applied again. */
  seq: number
  leaseMs: number
  /** How long a new state decides nothing. */
  youngMs: number
  /** How long the leases of a silent node are kept. */
  sliceMs: number
  /** If the ledger lacks earlier spend of this node: how long a new state waits for it. */
  behindMs?: number
  told: readonly Told[]
  asks: readonly Ask[]
}

/** The decision for a scope, and its figures afterward. */
export interface ScopeReply {
  refusal: 'none' | 'concurrency' | 'rpm' | 'tpm'
  /** Use of the refusing limit; for a lease, used slots. */
  used: number
  /** Null if waiting won't help. */
  retryAfterMs: number | null
  requests: number
  requestsEmptyMs: number
  tokens: number
  tokensEmptyMs: number
  /** `unknown`: its spend must be read from the ledger. `over`: the engine's clock is in another period. */
  budget: 'fits' | 'full' | 'unknown' | 'over'
  spentNanoUsd: number
  reservedNanoUsd: number
}

export interface EngineWarning {
  name: ScopeName
  spentNanoUsd: number
  /** The budget's amount: this node may have another version. */
  nanoUsd: number
}

export interface BatchReply {
  /** Engine's clock. */
  nowMs: number
  bornMs: number
  /** Number of living nodes. */
  nodes: number
  /** The engine didn't know this epoch, and decided nothing. */
  isNew: boolean
  warnings: EngineWarning[]
  /** By ask and scope; empty if nothing was decided. */
  replies: ScopeReply[][]
}

/** The engine rejected a batch because of its content. Nothing was applied, and retrying won't help. */
export class BatchRefusal extends Error {}

/** Rounds up to a safe integer, so that engines can add amounts. */
export const toAmount = (amount: number): number => Math.min(Math.ceil(amount), Number.MAX_SAFE_INTEGER)

export interface LimitEngine {
  /** Display name, such as `Valkey`. */
  readonly name: string
  /** Where its state is. Nodes with different places don't share limits. Null if unknown, or the same for all. */
  readonly place: string | null
  /** Maximum asks per batch, and maximum told per batch. */
  readonly maxBatch: number
  /** Time after which a call counts as lost. */
  readonly timeoutMs: number
  /**
   * Rejects with a BatchRefusal, or with another error if the engine can't be reached. The batch may have been applied
   * then.
   */
  call(batch: Batch): Promise<BatchReply>
  /** Drops the connection. The next call uses a new one. */
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

/** The figures that leases depend on. */
export type ScopeFigures = Pick<ScopeReply, 'requests' | 'tokens' | 'spentNanoUsd' | 'reservedNanoUsd'>

const REFUSALS = ['none', 'concurrency', 'rpm', 'tpm'] as const
const BUDGETS = ['fits', 'full', 'unknown', 'over'] as const
const FIGURES = 10

/** @param figures ten numbers per scope. */
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
