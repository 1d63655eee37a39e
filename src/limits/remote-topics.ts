/** Messages between workers and their keeper about limits. A worker numbers its requests and permits. */
import { type ErrorKind, GatewayError, type UpstreamError } from '../domain/error.ts'
import { topic } from '../domain/link.ts'
import type { Cost } from './budget.ts'
import type { Limited, LimitedUpstream, Used } from './limiter.ts'
import type { Headers } from './messages.ts'
import type { Ask, ScopeFigures, ScopeName, ScopeReply, Told } from './shared/engine.ts'

export interface Entering {
  /** Number of the request between worker and keeper. */
  request: number
  /** ID in the ledger. */
  id: string
  key: Limited
  team: Limited | null
}

export interface Refused {
  kind: ErrorKind
  message: string
  headers: Record<string, string>
}

export interface Asked {
  request: number
  tokens: number
  nanoUsd: number
  isMore?: boolean
  /** For asking the worker for a count. */
  counting?: { number: number; leastNanoUsd: number }
}

export interface Admitting extends Asked {
  /** Set if the keeper doesn't know the request. */
  entering?: Entering
}

export interface Raising extends Admitting {
  /** Dollars that the request reserved from a lease. */
  heldNanoUsd?: number
}

export interface Raised {
  refused: Refused | null
  /** Null without a budget. */
  room: number | null
}

export interface Admitted extends Raised {
  headers: Headers
  /** Figures for lending: of key and team, if they have limits. */
  figures: ScopeFigures[]
}

export interface Permitting extends LimitedUpstream {
  number: number
  tokens: number
}

export interface Settling extends Used {
  request: number
}

export interface Permitted {
  figures: ScopeFigures | null
  /** The UpstreamError of a limit set in Tollgate. */
  refused: ({ message: string } & Pick<UpstreamError, 'retryable' | 'retryAfterMs'>) | null
  /** True if another such call would be rejected. */
  isFull: boolean
}

export interface Refusing {
  request: number
  kind: ErrorKind
  /** Set if the keeper doesn't know the request. */
  entering?: Entering
}

export const ENTER = topic<Entering, Refused | null>('limits.enter')
export const ADMIT = topic<Admitting, Admitted>('limits.admit')
export const RAISE = topic<Raising, Raised>('limits.raise')
export const REFUSE = topic<Refusing, Headers>('limits.refuse')
export const PERMIT = topic<Permitting, Permitted>('limits.permit')
export const COUNT = topic<{ request: number; number: number }, Cost | null>('limits.count')
export const RAISE_TOKENS = topic<{ request: number; tokens: number }>('limits.tokens')
export const RELEASE = topic<number>('limits.release')
export const SETTLE = topic<Settling>('limits.settle')
export const LEASE = topic<Ask, { reply: ScopeReply; nowMs: number; bornMs: number } | null>('limits.lease')
export const TOLD = topic<Told[]>('limits.told')
/** Tells a worker to return free amounts. */
export const RECALL = topic<ScopeName, null>('limits.recall')
export const LEAVE = topic<{ number: number; tokens: number | null }, boolean>('limits.leave')

export const toRefused = ({ kind, message, headers }: GatewayError): Refused => ({ kind, message, headers })
export const toError = ({ kind, message, headers }: Refused) => new GatewayError(kind, message, { headers })
