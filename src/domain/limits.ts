/** Limits and budgets. An entry of `LIMITS`, named as its column, gets forms, bodies, options, and documents; the compiler finds the rest. */
import { keysOf } from './json.ts'

export const LIMITS = {
  rpm: {
    label: 'Requests per minute',
    unit: (n: number) => (n === 1 ? 'request per minute' : 'requests per minute'),
    short: 'rpm',
    help: 'requests per minute',
    says: 'Requests per minute; null: unlimited.',
  },
  tpm: {
    label: 'Tokens per minute',
    unit: (n: number) => (n === 1 ? 'token per minute' : 'tokens per minute'),
    short: 'tpm',
    help: 'tokens per minute',
    says: 'Tokens per minute; null: unlimited.',
  },
  concurrency: {
    label: 'Concurrency',
    unit: (n: number) => (n === 1 ? 'concurrent request' : 'concurrent requests'),
    short: 'concurrent',
    help: 'concurrent requests; more are rejected',
    says: 'Concurrent requests; null: unlimited.',
  },
} as const
export type LimitName = keyof typeof LIMITS

/** null = no limit. */
export type Limits = { [Name in LimitName]: number | null }

export const LIMIT_NAMES = keysOf(LIMITS)

export const isLimit = (name: string): name is LimitName => name in LIMITS

export const mapLimits = <Value>(of: (name: LimitName) => Value) =>
  Object.fromEntries(LIMIT_NAMES.map((name) => [name, of(name)])) as Record<LimitName, Value>

export const eachLimit = <Said>(limits: Readonly<Limits>, say: (value: number, name: LimitName) => Said): Said[] =>
  LIMIT_NAMES.flatMap((name) => {
    const value = limits[name]
    return value === null ? [] : [say(value, name)]
  })

/** Larger values are typos. */
export const MAX_LIMIT = 1_000_000_000

export const NO_LIMITS: Limits = mapLimits(() => null)

export const PERIODS = ['day', 'week', 'month', 'total'] as const
export type Period = (typeof PERIODS)[number]

/** UTC periods; `total` never resets. */
export interface Budget {
  nanoUsd: number
  period: Period
}

export const BUDGET_WARNING_PERCENT = 80
