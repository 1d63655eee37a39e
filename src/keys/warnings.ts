/** Reasons why requests of a key or team will certainly be refused, shown before and after a change. Loaded by browsers, too. */
import { closest } from '../domain/closest.ts'
import type { Budget, Period } from '../domain/limits.ts'
import { type Access, mayUse } from '../domain/snapshot.ts'
import { count, matches } from '../domain/text.ts'
import { toDay } from '../domain/time.ts'
import { toUsd } from '../domain/usage.ts'
import { endOf } from '../limits/period.ts'

export interface Warning {
  /** As in errors. */
  field: 'models' | 'scope' | 'budget' | 'team' | 'expires_ms'
  message: string
}

/** A key or team, by column. */
export interface Warned extends Access {
  budget_nano_usd: number | null
  budget_period: Period | null
  /** Absent if unchanged. */
  expires_ms?: number | null
}

/** Facts that warnings are based on; unknown facts give no warning. */
export interface Known {
  nowMs: number
  /** Spent in the current periods. */
  spent: Partial<Record<Period, number>>
  /** Models that the user may know of. */
  models: readonly { slug: string; isLocal: boolean }[] | null
  aliases?: ReadonlyMap<string, { model: string }>
  /** The team of the key. */
  team: (Access & Pick<Warned, 'budget_nano_usd' | 'budget_period'> & { name: string; spent: number | null }) | null
}

/** @param isChanged leaves out fields that haven't changed */
export function findWarnings(of: Warned, known: Known, isChanged: (field: Warning['field']) => boolean): Warning[] {
  const { expires_ms: expiresMs } = of
  const warnings: (Warning | false)[] = [
    ...toModelWarnings(of, known),
    toBudgetWarning(of, known),
    toTeamWarning(known),
    typeof expiresMs === 'number' &&
      expiresMs <= known.nowMs && {
        field: 'expires_ms',
        message: 'This is in the past: the key stops working at once.',
      },
  ]
  return warnings.filter((warning) => warning !== false).filter(({ field }) => isChanged(field))
}

function toBudgetWarning(of: Warned, { spent, nowMs }: Known): Warning | false {
  const budget = toBudget(of)
  const already = budget && spent[budget.period]
  if (!budget || already === undefined || already === null || already < budget.nanoUsd) return false
  const message = `Already spent $${toCents(already)}${SPANS[budget.period]}: requests are refused${toEnd(budget.period, nowMs)}.`
  return { field: 'budget', message }
}

function toTeamWarning({ team, nowMs }: Known): Warning | false {
  const budget = team && toBudget(team)
  if (!budget || team.spent === null || team.spent < budget.nanoUsd) return false
  const message = `The team ${team.name} has spent its budget: requests are refused${toEnd(budget.period, nowMs)}.`
  return { field: 'team', message }
}

const toBudget = ({
  budget_nano_usd: nanoUsd,
  budget_period: period,
}: Pick<Warned, 'budget_nano_usd' | 'budget_period'>) =>
  nanoUsd === null || period === null ? null : ({ nanoUsd, period } satisfies Budget)

const SPANS: Readonly<Record<Period, string>> = { day: ' today', week: ' this week', month: ' this month', total: '' }

const toEnd = (period: Period, nowMs: number) => {
  const endMs = endOf(period, nowMs)
  return endMs === null ? '' : ` until ${toDay(endMs)}, 00:00 UTC`
}

/** Rounded down, or exact below a cent. */
const toCents = (nanoUsd: number) => {
  const CENT = 10_000_000
  if (nanoUsd < CENT) return toUsd(nanoUsd)
  const [whole, cents = ''] = toUsd(Math.round(nanoUsd / CENT) * CENT).split('.')
  return `${whole}.${cents.padEnd(2, '0')}`
}

/** Maximum number of names in a warning, since each is compared for suggestions. */
const MAX_TOLD = 5

/** Patterns that match no usable model, which may be intended for future models. */
function toModelWarnings({ models: patterns, scope }: Warned, { models, aliases, team }: Known): Warning[] {
  if (models === null) return []
  const locals = new Set(models.flatMap(({ slug, isLocal }) => (isLocal ? [slug] : [])))
  const slugs = models.map(({ slug }) => slug)
  const isUsable = (access: Access, slug: string) =>
    (access.scope === 'all' || locals.has(slug)) && mayUse(access, slug)
  const isOfTeam = (slug: string) => team === null || isUsable(team, slug)
  if (patterns.length === 0) {
    if (scope === 'all' || slugs.length === 0 || slugs.some((slug) => locals.has(slug) && isOfTeam(slug))) return []
    return [{ field: 'scope', message: 'No model is local: all requests are refused.' }]
  }
  const warnings: Warning[] = []
  for (const pattern of patterns) {
    const matched = slugs.filter((slug) => matches(pattern, slug))
    const usable = matched.filter((slug) => isUsable({ scope, models: [] }, slug))
    if (usable.some(isOfTeam)) continue
    let reason = 'matches no local model, but the scope is local'
    if (matched.length === 0) reason = explain(pattern, slugs, aliases)
    if (usable.length > 0) reason = `matches no model that the team ${team?.name ?? ''} can use`
    warnings.push({ field: 'models', message: `The pattern '${pattern}' ${reason}.` })
    if (warnings.length === MAX_TOLD) break
  }
  return warnings
}

function explain(pattern: string, slugs: string[], aliases: Known['aliases']): string {
  const { model } = aliases?.get(pattern) ?? {}
  if (model !== undefined && slugs.includes(model)) return `is an alias; patterns only match model IDs, here ${model}`
  const names = pattern.endsWith('/*') ? slugs.map((slug) => `${slug.slice(0, slug.indexOf('/'))}/*`) : slugs
  return `matches none of the current ${count(slugs.length, 'model')}${closest(pattern, [...new Set(names)])}`
}
