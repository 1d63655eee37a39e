/** Between what is typed of keys and teams and what the API takes. Fields are called as its columns are. Pure. */
import type { KeyDocument, TeamDocument } from '../../documents/key.ts'
import { type LimitName, mapLimits, PERIODS } from '../../domain/limits.ts'
import { DAY_MS } from '../../domain/time.ts'
import { Refusal } from '../api/refusal.ts'
import { toNanoUsd, toTypedUsd } from '../figures/figures.ts'

const NEW_SHARED = {
  name: '',
  /** Patterns, one a line. */
  models: '',
  scope: 'all',
  ...mapLimits(() => ''),
  /** In dollars. */
  budget: '',
  budget_period: 'month',
}

export type SharedValues = typeof NEW_SHARED

type SharedFields = Pick<KeyDocument, 'name' | 'models' | 'scope' | LimitName | 'budget_nano_usd' | 'budget_period'>

const toSharedValues = (of: SharedFields): SharedValues => ({
  ...{ name: of.name, models: of.models.join('\n'), scope: of.scope },
  ...mapLimits((name) => toText(of[name])),
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
const toSharedBody = (values: SharedValues) => ({
  name: values.name.trim(),
  models: toLines(values.models),
  scope: values.scope === 'local' ? ('local' as const) : ('all' as const),
  ...mapLimits((name) => toLimit(values[name], name)),
  ...toBudget(values),
})

const toLines = (text: string) => text.split(/[\s,]+/).filter((line) => line !== '')

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

/** When a key or a token ends, as it is typed. */
export const NEW_EXPIRY = {
  /** One of `EXPIRIES`; `kept` as it is, `on` with a day. */
  expires_ms: '',
  /** Such as `2027-01-31`. */
  expires_on: '',
}

export const EXPIRIES = [
  ['', 'Never'],
  ['30', 'In 30 days'],
  ['90', 'In 90 days'],
  ['365', 'In a year'],
  ['on', 'On a day …'],
] as const

/** Undefined where it stays as it is. Throws a Refusal. */
export function toExpiry(
  { expires_ms: when, expires_on: day }: typeof NEW_EXPIRY,
  nowMs: number,
): number | null | undefined {
  if (when === 'kept') return undefined
  if (when === '') return null
  if (when !== 'on') return nowMs + Number(when) * DAY_MS
  // To the end of that day, where whoever types it is.
  const endMs = new Date(`${day}T23:59:59.999`).getTime()
  if (Number.isNaN(endMs)) throw new Refusal('Say on which day it ends.', 'invalid', 'expires_on')
  return endMs
}

export const NEW_KEY = {
  ...NEW_SHARED,
  /** A team's id; '' for none. */
  team: '',
  ...NEW_EXPIRY,
  /** One a line. */
  allowed_ips: '',
}

export type KeyValues = typeof NEW_KEY

export const toKeyValues = (key: KeyDocument): KeyValues => ({
  ...toSharedValues(key),
  team: key.team_id ?? '',
  expires_ms: key.expires_ms === null ? '' : 'kept',
  expires_on: '',
  allowed_ips: key.allowed_ips.join('\n'),
})

/** Throws a Refusal that names the field for what cannot be read. */
export function toKeyBody(values: KeyValues, nowMs: number) {
  const expiresMs = toExpiry(values, nowMs)
  return {
    ...toSharedBody(values),
    team: values.team === '' ? null : values.team,
    ...(expiresMs === undefined ? {} : { expires_ms: expiresMs }),
    allowed_ips: toLines(values.allowed_ips),
  }
}

/** What is said otherwise than it is: the rest may be somebody else's by now. Throws a Refusal that names the field. */
export const toKeyPatch = (values: KeyValues, before: KeyDocument, nowMs: number) =>
  toChangedFields(toKeyBody(values, nowMs), toKeyBody(toKeyValues(before), nowMs))

export const NEW_TEAM = { ...NEW_SHARED, max_keys: '10' }

export type TeamValues = typeof NEW_TEAM

export const toTeamValues = (team: TeamDocument): TeamValues => ({
  ...toSharedValues(team),
  max_keys: toText(team.max_keys),
})

/** Throws a Refusal that names the field for what cannot be read. */
export const toTeamBody = (values: TeamValues) => ({
  ...toSharedBody(values),
  max_keys: toLimit(values.max_keys, 'max_keys'),
})

/** What is said otherwise than it is. Throws a Refusal that names the field. */
export const toTeamPatch = (values: TeamValues, before: TeamDocument) =>
  toChangedFields(toTeamBody(values), toTeamBody(toTeamValues(before)))
