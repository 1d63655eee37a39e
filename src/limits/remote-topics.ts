/** What workers and their keeper tell each other of limits. A worker numbers its requests and permits. */
import { type ErrorKind, GatewayError, type UpstreamError } from '../domain/error.ts'
import { topic } from '../domain/link.ts'
import type { Cost } from './budget.ts'
import type { Limited, LimitedUpstream, Used } from './limiter.ts'
import type { Headers } from './messages.ts'

export interface Entering {
  /** By which the worker and the keeper name it. */
  request: number
  /** In the ledger. */
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
  /** How to ask the worker for a count. */
  counting?: { number: number; leastNanoUsd: number }
}

export interface Admitting extends Asked {
  /** If it has not entered, since only its budgets are limited. */
  entering?: Entering
}

export interface Raised {
  refused: Refused | null
  /** Null without a budget. */
  room: number | null
}

export interface Admitted extends Raised {
  headers: Headers
}

export interface Permitting extends LimitedUpstream {
  number: number
  tokens: number
}

export interface Settling extends Used {
  request: number
}

export interface Permitted {
  /** An UpstreamError of our own limit. */
  refused: ({ message: string } & Pick<UpstreamError, 'retryable' | 'retryAfterMs'>) | null
  /** Whether another such call would be refused. */
  isFull: boolean
}

export const ENTER = topic<Entering, Refused | null>('limits.enter')
export const ADMIT = topic<Admitting, Admitted>('limits.admit')
export const RAISE = topic<Asked, Raised>('limits.raise')
export const REFUSE = topic<{ request: number; kind: ErrorKind }, Headers>('limits.refuse')
export const PERMIT = topic<Permitting, Permitted>('limits.permit')
export const COUNT = topic<{ request: number; number: number }, Cost | null>('limits.count')
export const RAISE_TOKENS = topic<{ request: number; tokens: number }>('limits.tokens')
export const RELEASE = topic<number>('limits.release')
export const SETTLE = topic<Settling>('limits.settle')
export const LEAVE = topic<{ number: number; tokens: number | null }, boolean>('limits.leave')

export const toRefused = ({ kind, message, headers }: GatewayError): Refused => ({ kind, message, headers })
export const toError = ({ kind, message, headers }: Refused) => new GatewayError(kind, message, { headers })
