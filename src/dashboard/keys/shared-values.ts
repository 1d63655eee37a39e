/** Between what is typed of a key or of a team and what the API takes: what both have. Fields are called as columns are. Pure. */
import type { KeyDocument } from '../../documents/key.ts'
import { PERIODS } from '../../domain/limits.ts'
import { Refusal } from '../api/refusal.ts'
import { toNanoUsd, toTypedUsd } from '../figures/money.ts'

export const NEW_SHARED = {
  name: '',
  /** Patterns, one a line. */
  models: '',
  scope: 'all',
  rpm: '',
  tpm: '',
  concurrency: '',
  /** In dollars. */
  budget: '',
  budget_period: 'month',
}

export type SharedValues = typeof NEW_SHARED

type SharedFields = Pick<
  KeyDocument,
  'name' | 'models' | 'scope' | 'rpm' | 'tpm' | 'concurrency' | 'budget_nano_usd' | 'budget_period'
>

export const toSharedValues = (of: SharedFields): SharedValues => ({
  ...{ name: of.name, models: of.models.join('\n'), scope: of.scope },
  ...{ rpm: toText(of.rpm), tpm: toText(of.tpm), concurrency: toText(of.concurrency) },
  budget: of.budget_nano_usd === null ? '' : toTypedUsd(of.budget_nano_usd),
  budget_period: of.budget_period ?? 'month',
})

export const toText = (limit: number | null) => (limit === null ? '' : String(limit))

/** The fields of a body that are not as they were. An amount of a budget and its period are said together. */
export function toChangedFields<Body extends object>(body: Body, before: Body): Partial<Body> {
  const was = new Map(Object.entries(before))
  const isChanged = (name: string, value: unknown) => JSON.stringify(value) !== JSON.stringify(was.get(name))
  const names = Object.entries(body).flatMap(([name, value]) => (isChanged(name, value) ? [name] : []))
  const all = names.some((name) => name.startsWith('budget_')) ? [...names, 'budget_nano_usd', 'budget_period'] : names
  return Object.fromEntries(Object.entries(body).filter(([name]) => all.includes(name))) as Partial<Body>
}

/** Throws a Refusal that names the field for what cannot be read. */
export const toSharedBody = (values: SharedValues) => ({
  name: values.name.trim(),
  models: toLines(values.models),
  scope: values.scope === 'local' ? ('local' as const) : ('all' as const),
  rpm: toLimit(values.rpm, 'rpm'),
  tpm: toLimit(values.tpm, 'tpm'),
  concurrency: toLimit(values.concurrency, 'concurrency'),
  ...toBudget(values),
})

export const toLines = (text: string) => text.split(/[\s,]+/).filter((line) => line !== '')

export function toLimit(text: string, field: string): number | null {
  const digits = text.trim().replaceAll(/[,_ ]/g, '')
  if (digits === '') return null
  if (/^\d{1,9}$/.test(digits)) return Number(digits)
  throw new Refusal('Write a whole number, such as 60, or nothing for no limit.', 'invalid', field)
}

function toBudget({ budget, budget_period: period }: SharedValues) {
  if (budget.trim() === '') return { budget_nano_usd: null }
  const nanoUsd = toNanoUsd(budget)
  if (nanoUsd === null) throw new Refusal('Write dollars, such as 20 or 0.50.', 'invalid', 'budget')
  return { budget_nano_usd: nanoUsd, budget_period: PERIODS.find((known) => known === period) ?? 'month' }
}
