/** Figures of a group of requests, defined once for the admin API, `usage`, the overview, and its files. */
import { keysOf } from './json.ts'

type Fields = Readonly<Record<string, string | number | bigint | null>>

interface UsageFigure {
  title: string
  kind: 'count' | 'money' | 'share'
  /** Quotient of sums; reports compute it from their own fields. */
  ratio?: readonly [of: readonly string[], to: string]
}

export const USAGE_FIGURES = {
  cost_nano_usd: { title: 'Cost', kind: 'money' },
  requests: { title: 'Requests', kind: 'count' },
  prompt_tokens: { title: 'Input tokens', kind: 'count' },
  completion_tokens: { title: 'Output tokens', kind: 'count' },
  cost_per_request_nano_usd: { title: 'Cost per request', kind: 'money', ratio: [['cost_nano_usd'], 'requests'] },
  cached_share: { title: 'Cached input', kind: 'share', ratio: [['cached_tokens'], 'prompt_tokens'] },
  error_share: { title: 'Error rate', kind: 'share', ratio: [['errors', 'cuts'], 'requests'] },
} as const satisfies Record<string, UsageFigure>
export type UsageFigureName = keyof typeof USAGE_FIGURES
export const USAGE_FIGURE_NAMES = keysOf(USAGE_FIGURES)

const DIGITS = 10_000

/** Null if the divisor is zero. Money in whole nano-dollars, shares to four digits. */
export function toUsageFigure(name: UsageFigureName, fields: Fields): number | null {
  const figure: UsageFigure = USAGE_FIGURES[name]
  if (figure.ratio === undefined) return Number(fields[name] ?? 0)
  const [of, to] = figure.ratio
  const whole = Number(fields[to] ?? 0)
  if (whole === 0) return null
  const part = of.reduce((sum, field) => sum + Number(fields[field] ?? 0), 0)
  return figure.kind === 'money' ? Math.round(part / whole) : Math.round((part / whole) * DIGITS) / DIGITS
}

export type UsageFigureValues = Record<UsageFigureName, number | null>

export const toUsageFigures = (fields: Fields): UsageFigureValues =>
  Object.fromEntries(USAGE_FIGURE_NAMES.map((name) => [name, toUsageFigure(name, fields)])) as UsageFigureValues

export const toRatios = (fields: Fields): Record<string, number | null> =>
  Object.fromEntries(
    USAGE_FIGURE_NAMES.filter((name) => 'ratio' in USAGE_FIGURES[name]).map((name) => [
      name,
      toUsageFigure(name, fields),
    ]),
  )
