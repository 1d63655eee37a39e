/** Converts between form values and API bodies of keys and teams, by the definitions of their fields. Form values have the names of API columns. */

import type { KeyDocument, TeamDocument } from '../../documents/key.ts'
import { keysOf } from '../../domain/json.ts'
import { PERIODS } from '../../domain/limits.ts'
import { DAY_MS } from '../../domain/time.ts'
import { toUsd } from '../../domain/usage.ts'
import {
  type Body,
  columnOf,
  type FieldsOf,
  KEY_FIELDS,
  type KeyChanges,
  type Kind,
  TEAM_FIELDS,
  type TeamChanges,
} from '../../keys/definition.ts'
import { Refusal } from '../api/refusal.ts'
import { toNanoUsd } from '../figures/figures.ts'

/** Form values, by column. */
export type Values = Record<string, string>
export type Columns = Readonly<Record<string, unknown>>

interface Typing {
  /** @param of stored or default values. */
  type(of: Columns, column: string): Values
  /** @throws a Refusal that names the field. */
  read(values: Values, column: string, nowMs: number): Columns
}

/** For a field with one form value, named after its column. */
const text = <Value>(type: (value: Value) => string, read: (text: string, column: string) => unknown): Typing => ({
  type: (of, column) => ({ [column]: type(of[column] as Value) }),
  read: (values, column) => ({ [column]: read(values[column] ?? '', column) }),
})

/** One per line, or separated by commas. */
const LINES = text(
  (lines: readonly string[] | undefined) => lines?.join('\n') ?? '',
  (typed) => typed.split(/[\s,]+/).filter((line) => line !== ''),
)

const KINDS: Readonly<Record<Kind, Typing>> = {
  text: text(
    (value?: string | null) => value ?? '',
    (typed, column) => typed.trim() || (column === 'name' ? '' : null),
  ),
  patterns: LINES,
  ranges: LINES,
  scope: text(String, String),
  team: {
    type: ({ team_id: id }, column) => ({ [column]: typeof id === 'string' ? id : '' }),
    read: (values, column) => ({ [column]: values[column] || null }),
  },
  count: text(toText, toLimit),
  budget: {
    type: ({ budget_nano_usd: nanoUsd, budget_period: period }) => ({
      budget: typeof nanoUsd === 'number' ? toUsd(nanoUsd) : '',
      budget_period: typeof period === 'string' ? period : 'month',
    }),
    read: toBudget,
  },
  time: {
    type: ({ expires_ms: ms }) => ({
      ...{ expires_ms: typeof ms === 'number' ? 'kept' : '', expires_on: '' },
      // Only to detect that another user moved it.
      expires_was: String(ms ?? ''),
    }),
    read({ expires_ms = '', expires_on = '' }, column, nowMs) {
      const ms = toExpiry({ expires_ms, expires_on }, nowMs)
      return ms === undefined ? {} : { [column]: ms }
    },
  },
  metadata: text(
    (notes: Readonly<Record<string, string>> | undefined) =>
      Object.entries(notes ?? {})
        .map((pair) => pair.join('='))
        .join('\n'),
    toNotes,
  ),
}

export function toText(limit: number | null | undefined): string {
  return typeof limit === 'number' ? String(limit) : ''
}

export function toLimit(text: string, field: string): number | null {
  if (text.trim() === '') return null
  return toWhole(text, field, 0, 'Enter a whole number, such as 60, or leave empty for no limit.')
}

/** Reads a whole number of at least `least`, with or without commas. @throws a Refusal. */
export function toWhole(text: string, field: string, least: number, sentence: string): number {
  const digits = text.trim().replaceAll(/[,_ ]/g, '')
  if (/^\d{1,9}$/.test(digits) && Number(digits) >= least) return Number(digits)
  throw new Refusal(sentence, 'invalid', field)
}

function toBudget({ budget = '', budget_period: period }: Values): Columns {
  if (budget.trim() === '') return { budget_nano_usd: null }
  const nanoUsd = toNanoUsd(budget)
  if (nanoUsd === null) throw new Refusal('Enter an amount in dollars, such as 20 or 0.50.', 'invalid', 'budget')
  return { budget_nano_usd: nanoUsd, budget_period: PERIODS.find((known) => known === period) ?? 'month' }
}

function toNotes(typed: string, field: string): Record<string, string> {
  const lines = typed.split('\n').filter((line) => line.trim() !== '')
  return Object.fromEntries(
    lines.map((line) => {
      const [, name, value] = /^\s*([^=\s]+)\s*=\s*(.*\S)\s*$/.exec(line) ?? []
      if (name !== undefined && value !== undefined) return [name, value]
      throw new Refusal('Enter one name=value per line, such as owner=ann.', 'invalid', field)
    }),
  )
}

/** Form values of when a key or a token expires. */
export const NEW_EXPIRY = {
  /** One of `EXPIRIES`, or `kept` for no change. */
  expires_ms: '',
  /** Such as `2027-01-31`. */
  expires_on: '',
}

export const EXPIRIES = [
  ['', 'Never'],
  ['30', 'In 30 days'],
  ['90', 'In 90 days'],
  ['365', 'In 1 year'],
  ['on', 'On a date…'],
] as const

/** Undefined for no change. @throws a Refusal. */
export function toExpiry(
  { expires_ms: when, expires_on: day }: typeof NEW_EXPIRY,
  nowMs: number,
): number | null | undefined {
  if (when === 'kept') return undefined
  if (when === '') return null
  if (when !== 'on') return nowMs + Number(when) * DAY_MS
  // The end of that day in the browser's time zone.
  const endMs = new Date(`${day}T23:59:59.999`).getTime()
  if (Number.isNaN(endMs)) throw new Refusal('Enter a date.', 'invalid', 'expires_on')
  return endMs
}

/** The changed fields of a body. The API takes a budget's amount and period only together. */
export function toChangedFields<Body extends object>(body: Body, before: Body): Partial<Body> {
  const was = new Map(Object.entries(before))
  const isChanged = (name: string, value: unknown) => JSON.stringify(value) !== JSON.stringify(was.get(name))
  const names = Object.entries(body).flatMap(([name, value]) => (isChanged(name, value) ? [name] : []))
  const all = names.some((name) => name.startsWith('budget_')) ? [...names, 'budget_nano_usd', 'budget_period'] : names
  return Object.fromEntries(Object.entries(body).filter(([name]) => all.includes(name))) as Partial<Body>
}

function toForm<Changes extends object, Document extends Columns>(fields: FieldsOf<Changes>) {
  const typings = keysOf(fields).map((name) => {
    const { kind, byDefault, isForEditors = false } = fields[name]
    return { column: columnOf(name), kind, byDefault, isForEditors, ...KINDS[kind] }
  })
  const type = (of: Columns): Values =>
    Object.assign({}, ...typings.map(({ type, column, byDefault }) => type({ [column]: byDefault, ...of }, column)))
  /** @param isOwn true for a member's own key, which lacks the fields for editors. @throws a Refusal that names the field. */
  const read = (some: typeof typings, values: Values, nowMs: number, isOwn: boolean): Body<Changes> =>
    Object.assign(
      {},
      ...some.flatMap(({ read, column, isForEditors }) => (isOwn && isForEditors ? [] : read(values, column, nowMs))),
    )
  return {
    empty: type({}),
    toValues: (of: Document) => type(of),
    toBody: (values: Values, nowMs: number, isOwn = false): Body<Changes> & { name: string } =>
      Object.assign({ name: '' }, read(typings, values, nowMs, isOwn)),
    /** Changed fields only: others may have been edited elsewhere meanwhile, or can't be typed, such as a note of two lines. */
    toPatch(values: Values, before: Document, nowMs: number, isOwn = false): Body<Changes> {
      const typed = typings.filter(({ type, column }) =>
        Object.entries(type(before, column)).some(([name, text]) => values[name] !== text),
      )
      const was: Columns = { ...before, team: before.team_id }
      const changed = toChangedFields<Columns>(read(typed, values, nowMs, isOwn), was)
      const notes = typed.filter(({ kind, column }) => kind === 'metadata' && column in changed)
      return Object.assign(
        changed,
        ...notes.map(({ column }) => ({ [column]: withRemoved(changed[column], was[column]) })),
      )
    },
  }
}

/** Removed notes are sent as null. */
const withRemoved = (notes: unknown, before: unknown) => ({
  ...Object.fromEntries(Object.keys(before ?? {}).map((name) => [name, null])),
  ...(notes as object),
})

/** Form values that are one field for the user. */
export const KEY_GROUPS = [
  ['budget', 'budget_period'],
  ['expires_ms', 'expires_on', 'expires_was'],
] as const

export const KEY_FORM = toForm<KeyChanges, KeyDocument>(KEY_FIELDS)
export const TEAM_FORM = toForm<TeamChanges, TeamDocument>(TEAM_FIELDS)
