/** Texts of catalog changes. */

import { AUDIT_WORDS, toEntryName } from '../../domain/changes.ts'
import type { Effect } from '../../domain/effects.ts'
import { capitalize } from '../../domain/text.ts'
import { isOfTokens, PRICES } from '../../domain/usage.ts'
import { type FieldChange, toExactCount, toIso, toPerMillion } from '../figures/figures.ts'
import { toOriginWord } from '../upstreams/words.ts'

export interface Change {
  action: 'create' | 'update' | 'delete'
  /** Such as `upstreams.openai` or `models.v/m: route u (m)`. */
  name: string
  before: Readonly<Record<string, unknown>>
  after: Readonly<Record<string, unknown>>
  /** Only in plans. */
  effect?: Effect
}

const ACTIONS = {
  create: { kind: 'good', word: 'new' },
  update: { kind: 'warn', word: 'changed' },
  delete: { kind: 'bad', word: 'removed' },
} as const

export const toAction = ({ action }: Pick<Change, 'action'>) => ACTIONS[action]

/** The changed fields of a row, each price on its own; all fields of a new or removed row. */
export function toFieldChanges(change: Pick<Change, 'before' | 'after'>): FieldChange[] {
  const [before, after] = [toFields(change.before), toFields(change.after)]
  return [...new Set([...before.keys(), ...after.keys()])]
    .map((field) => ({ field, before: before.get(field) ?? null, after: after.get(field) ?? null }))
    .filter((one) => one.before !== one.after)
}

const toFields = (row: Change['before']) =>
  new Map(
    Object.entries(row).flatMap(([field, value]): [string, string][] =>
      field === 'pricing' && Array.isArray(value)
        ? value.flatMap(toPriceFields)
        : [[toWords(field), toText(field, value)]],
    ),
  )

const toWords = (field: string) => (field === 'origin' ? 'source' : field.replaceAll('_', ' '))

function toText(field: string, value: unknown): string {
  if (value === null || value === undefined) return 'none'
  if (value === true) return 'yes'
  if (value === false) return 'no'
  if (field === 'origin' && typeof value === 'string') return toOriginWord(value)
  if (field === 'created' && typeof value === 'number') return `${toIso(value * 1_000, 0).slice(0, 10)} UTC`
  if (typeof value === 'number') return toExactCount(value)
  if (Array.isArray(value) && value.every((one) => typeof one === 'string')) return value.join(', ') || 'none'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

const toPriceWord = (name: string) => PRICES[name as keyof typeof PRICES]?.word?.toLowerCase() ?? toWords(name)

/** Each price per million, for comparison, and exact. */
function toPriceFields({
  min_prompt_tokens: least,
  mode,
  size,
  quality,
  ...prices
}: Readonly<Record<string, string>>): [string, string][] {
  const words = [mode, size, quality].filter((word) => word !== undefined).map((word) => `, ${word}`)
  const above = `${words.join('')}${least === undefined ? '' : ` above ${toExactCount(Number(least))}`}`
  return Object.entries(prices).map(([name, usd]) => [
    `price: ${toPriceWord(name)}${above}`,
    toPriceText(name, String(usd)),
  ])
}

function toPriceText(name: string, value: string): string {
  if (name.startsWith('audio_') && name.endsWith('_seconds')) return `${value} s`
  return isOfTokens(name) ? `${toPerMillion(value)} per million ($${value} per token)` : `$${value} each`
}

interface Counts {
  created: number
  updated: number
  deleted: number
}

/** Such as `1 changed, 2 new`. Removals come first. */
export function toCountsText({ created, updated, deleted }: Counts): string {
  const parts = [
    ...(deleted > 0 ? [`${deleted} removed`] : []),
    ...(updated > 0 ? [`${updated} changed`] : []),
    ...(created > 0 ? [`${created} new`] : []),
  ]
  return parts.join(', ') || 'no changes'
}

export function toCounts(rows: readonly Pick<Change, 'action'>[]): Counts {
  const of = (action: Change['action']) => rows.filter((row) => row.action === action).length
  return { created: of('create'), updated: of('update'), deleted: of('delete') }
}

/** Such as `remove 5, change 2, add 1`. */
export function toPlanText({ created, updated, deleted }: Counts): string {
  const parts = [
    ...(deleted > 0 ? [`remove ${deleted}`] : []),
    ...(updated > 0 ? [`change ${updated}`] : []),
    ...(created > 0 ? [`add ${created}`] : []),
  ]
  return parts.join(', ') || 'no changes'
}

export interface RowChange extends Change {
  /** Routes created or removed with their model. */
  routes: number
  /** Names of other entries with the same change. */
  same: readonly string[]
}

/** Routes of a new or removed model are counted with it. */
export function foldRoutes(changes: readonly Change[]): RowChange[] {
  const modelOf = ({ action, name }: Change) => `${action} ${name.split(': route ', 1)[0]}`
  const isRoute = ({ name }: Change) => name.includes(': route ')
  const whole = new Set(changes.filter((one) => one.action !== 'update' && !isRoute(one)).map(modelOf))
  const routes = Map.groupBy(changes.filter(isRoute), modelOf)
  return changes
    .filter((change) => !isRoute(change) || !whole.has(modelOf(change)))
    .map((change) => ({
      ...change,
      routes: !isRoute(change) && whole.has(modelOf(change)) ? (routes.get(modelOf(change))?.length ?? 0) : 0,
      same: [],
    }))
}

/** Leaves out routes whose model is also in the list. */
export const foldNames = (names: readonly string[]): string[] =>
  foldRoutes(names.map((name) => ({ action: 'delete', name, before: {}, after: {} }))).map(({ name }) => name)

const MIN_SAME = 3

/** Groups entries of a kind that have the same change. */
export function foldSame(changes: readonly RowChange[]): RowChange[] {
  const alike = Map.groupBy(changes, ({ action, name, before, after, effect }) =>
    action === 'update' && effect === undefined ? `${toKind(name)} ${JSON.stringify([before, after])}` : name,
  )
  return [...alike.values()].flatMap(([first, ...rest]) => {
    if (first === undefined) return []
    return rest.length + 1 < MIN_SAME ? [first, ...rest] : [{ ...first, same: rest.map(({ name }) => name) }]
  })
}

const toKind = (name: string) => (name.includes(': route ') ? 'route' : name.slice(0, name.indexOf('.')))

/** Such as `model openai/gpt-5`, or `12 models` with the same change. */
export function toRowsName({ name, same }: RowChange): string {
  if (same.length === 0) return toEntryName(name)
  const kind = toKind(name)
  return `${same.length + 1} ${kind === 'route' ? 'routes' : kind}`
}

const WORDS: Readonly<Record<string, string>> = { ...AUDIT_WORDS, 'catalog.keep': 'kept the previous catalog' }

/** The cause of a version, such as `Applied the catalog: catalog.yaml`. */
export function toVersionText({ action, subject }: { action: string; subject: string }): string {
  const words = WORDS[action] ?? action.replace('.', ': ')
  return `${capitalize(words)}: ${subject}`
}
