/**
 * What a key, a team or an upstream is held to: rates and slots, and what may be spent. A further limit is an entry of `LIMITS`, by the
 * name of its column: forms, bodies, options and documents have it then, and what has to act on it does not compile before it does.
 */
import { keysOf } from './json.ts'

export const LIMITS = {
  rpm: {
    label: 'Requests per minute',
    unit: 'requests per minute',
    short: 'rpm',
    help: 'requests per minute',
    says: 'Requests per minute; null: any number.',
  },
  tpm: {
    label: 'Tokens per minute',
    unit: 'tokens per minute',
    short: 'tpm',
    help: 'tokens per minute',
    says: 'Tokens per minute; null: any number.',
  },
  concurrency: {
    label: 'Concurrency',
    unit: 'at a time',
    short: 'at a time',
    help: 'requests at a time; one more is refused at once',
    says: 'Requests in flight at a time; null: any number.',
  },
} as const
export type LimitName = keyof typeof LIMITS

/** What a key may do, or what an upstream is asked at most; null = no limit. Concurrency counts what is in flight. */
export type Limits = { [Name in LimitName]: number | null }

export const LIMIT_NAMES = keysOf(LIMITS)

export const isLimit = (name: string): name is LimitName => name in LIMITS

/** Says something of each limit. */
export const mapLimits = <Value>(of: (name: LimitName) => Value) =>
  Object.fromEntries(LIMIT_NAMES.map((name) => [name, of(name)])) as Record<LimitName, Value>

/** What there is to say of each limit that is set, in their order. */
export const eachLimit = <Said>(limits: Readonly<Limits>, say: (value: number, name: LimitName) => Said): Said[] =>
  LIMIT_NAMES.flatMap((name) => {
    const value = limits[name]
    return value === null ? [] : [say(value, name)]
  })

/** No limit of requests or tokens is larger: beyond it is a slip of the hand. */
export const MAX_LIMIT = 1_000_000_000

export const NO_LIMITS: Limits = mapLimits(() => null)

export const PERIODS = ['day', 'week', 'month', 'total'] as const
export type Period = (typeof PERIODS)[number]

/** What may be spent in each period, in UTC; `total` never begins again. */
export interface Budget {
  nanoUsd: number
  period: Period
}

/** From here on a budget's owner is warned, in lists and in the log. */
export const BUDGET_WARNING_PERCENT = 80
