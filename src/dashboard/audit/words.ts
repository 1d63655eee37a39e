/** Texts of audit log entries. */
import type { AuditPageDocument } from '../../documents/audit.ts'
import { AUDIT_WORDS, toEntryName } from '../../domain/changes.ts'
import type { Role } from '../../domain/roles.ts'
import { toFieldChanges as toCatalogFields } from '../catalog/words.ts'
import { type FieldChange, toExactMoney } from '../figures/figures.ts'

export type AuditEntry = AuditPageDocument['audit'][number]

export const GROUPS = [
  ['', 'All types'],
  ['keys', 'Keys'],
  ['teams', 'Teams'],
  ['admins', 'People'],
  ['passkeys', 'Passkeys'],
  ['sessions', 'Sessions'],
  ['tokens', 'Tokens'],
  ['models', 'Models'],
  ['routes', 'Routes'],
  ['upstreams', 'Upstreams'],
  ['catalog', 'Catalog'],
  ['alerts', 'Alerts'],
  ['settings', 'Settings'],
  ['backups', 'Backups'],
  ['ledger', 'Ledger'],
  ['database', 'Database'],
] as const

const toGroup = (action: string) => action.slice(0, action.indexOf('.'))

/** Such as `changed the key`; the plain name of an action that this page doesn't know. */
export const toDeed = ({ action }: Pick<AuditEntry, 'action'>): string => WORDS[action] ?? action

const WORDS: Readonly<Record<string, string>> = AUDIT_WORDS

/** The actor's current name. */
export const toActor = ({ actor, actor_name: name }: Pick<AuditEntry, 'actor' | 'actor_name'>): string =>
  name ?? ACTORS[actor] ?? actor

const ACTORS: Readonly<Record<string, string>> = {
  ...{ cli: 'the command line', server: 'the server', setup: 'initial setup' },
}

/** The name of what was changed; '' if the action already says it. */
export function toObject({ action, subject, detail }: Pick<AuditEntry, 'action' | 'subject' | 'detail'>): string {
  if (typeof detail.name === 'string') return detail.name
  return action === 'settings.edit' ? '' : subject
}

/** The page of what was changed, below `/admin`, and the least role for it; null if there is none. */
export function toPlace({
  action,
  subject,
}: Pick<AuditEntry, 'action' | 'subject'>): { path: string; least: Role } | null {
  const id = encodeURIComponent(subject)
  switch (toGroup(action)) {
    case 'keys':
      return { path: `/keys?key=${id}`, least: 'viewer' }
    case 'ledger':
      return { path: `/requests/${id}`, least: 'viewer' }
    case 'teams':
      return { path: `/teams?team=${id}`, least: 'viewer' }
    case 'admins':
    case 'sessions':
      return { path: `/people?person=${id}`, least: 'owner' }
    case 'alerts':
      return { path: `/settings/alerts?target=${id}`, least: 'viewer' }
    case 'tokens':
      return { path: `/settings/tokens?token=${id}`, least: 'owner' }
    default:
      return null
  }
}

export interface ChangedThing {
  /** Null for the subject of the entry itself. */
  name: string | null
  fields: FieldChange[]
}

type Fields = Readonly<Record<string, unknown>>

/** Names by ID, as far as the user may read them. */
export type Names = ReadonlyMap<string, string>

const NO_NAMES: Names = new Map()

/** The changed fields. A change of the catalog has several things. */
export function toChanges(
  { action, detail }: Pick<AuditEntry, 'action' | 'detail'>,
  names: Names = NO_NAMES,
): ChangedThing[] {
  const [before, after] = [detail.before, detail.after].map((side) => (isObject(side) ? side : {})) as [Fields, Fields]
  const rows = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  if (rows.some((name) => /^(upstreams|models|aliases)\./.test(name))) {
    const things = rows.map((name) => ({
      name: toEntryName(name),
      fields: toCatalogFields({ before: toFields(before[name]), after: toFields(after[name]) }),
    }))
    const { untold } = detail
    return typeof untold === 'number' ? [...things, { name: `and ${untold} more`, fields: [] }] : things
  }
  const others = Object.entries(detail).filter(([name]) => !['name', 'before', 'after'].includes(name))
  const fields = [
    ...toFieldChanges(before, after, { names, none: action === 'settings.edit' ? 'the default' : NONE }).filter(
      ({ before: was, after: is }) => was !== null || is !== detail.name,
    ),
    ...others.map(([name, value]) => ({
      field: toLabel(name),
      before: null,
      after: toText(name, value, { names, none: NONE }),
    })),
  ]
  return fields.length === 0 ? [] : [{ name: null, fields }]
}

const toFields = (value: unknown): Fields => (isObject(value) ? value : {})

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Leaves out empty fields of something new. */
function toFieldChanges(before: Fields, after: Fields, words: Words): FieldChange[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((field) => {
    const wasThere = field in before
    const [was, is] = [before, after].map((side) => (field in side ? toText(field, side[field], words) : null)) as [
      string | null,
      string | null,
    ]
    if (!wasThere && (is === null || is === words.none)) return []
    return [{ field: toLabel(field), before: was, after: is }]
  })
}

/** Column names end in their unit. */
const toLabel = (field: string) => field.replace(/_(ms|nano_usd|id)$/, '').replaceAll('_', ' ')

const NONE = 'none'

interface Words {
  names: Names
  /** Text of an empty field. */
  none: string
}

function toText(field: string, value: unknown, words: Words): string {
  const { names, none } = words
  if (value === null || value === undefined || value === '') return none
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (typeof value === 'number' && field.endsWith('_ms')) return toUtc(value)
  if (typeof value === 'number' && field.endsWith('_nano_usd')) return toExactMoney(value)
  if (typeof value === 'string') return names.get(value) ?? (field.endsWith('_id') ? `…${value.slice(-8)}` : value)
  if (Array.isArray(value)) return value.map((one) => toText('', one, { names, none: NONE })).join(', ') || none
  if (!isObject(value)) return String(value)
  const parts = Object.entries(value).filter(([, part]) => part !== null)
  return parts.map(([name, part]) => `${toLabel(name)} ${toText(name, part, { names, none: NONE })}`).join(', ') || NONE
}

/** UTC, so that a shared link shows everyone the same. */
const toUtc = (ms: number) => `${new Date(ms).toISOString().slice(0, 16).replace('T', ' ')} UTC`
