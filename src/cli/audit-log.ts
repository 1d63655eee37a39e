/** `tollgate audit log`: who changed what of the configuration. */
import type { AuditPageDocument } from '../documents/audit.ts'
import { toShortId } from '../domain/id.ts'
import { toUsd } from '../domain/usage.ts'
import { answerOf, withAdmin } from './admin-client.ts'
import {
  type Context,
  printJson,
  toDescribedTable,
  toPrintable,
  toShort,
  toShortSource,
  toTime,
  toWholeSource,
} from './io.ts'
import { toCount, toMoment } from './values.ts'

export interface AuditLogFlags {
  since?: string
  actor?: string
  action?: string
  subject?: string
  limit: string
  before?: string
}

export async function auditLog({ since, limit, ...filter }: AuditLogFlags, io: Context): Promise<void> {
  const from = since === undefined ? {} : { since: String(toMoment('--since', since, io.nowMs())) }
  const options = { ...filter, ...from, limit: toCount('--limit', limit) }
  const page = await withAdmin(io, { readonly: true }, ({ api }) => answerOf(api.audit.get({ query: options })))
  if (io.json) return printJson(io, page)
  const { audit, next } = page
  if (audit.length > 0) io.stdout(toDescribedTable(HEADINGS, audit.map(toCells), audit.map(toNotes), io.paint))
  if (next !== null) io.stderr(`Older ones: --before ${next}\n`)
  else if (audit.length === 0) io.stderr('No such change is on record.\n')
}

const HEADINGS = ['WHEN (UTC)', 'WHO', 'WHAT', 'OF', '']

type Row = AuditPageDocument['audit'][number]

function toCells({ at_ms: atMs, actor, actor_name: actorName, action, subject, detail }: Row): string[] {
  const name = typeof detail.name === 'string' ? detail.name : null
  const of = name === null ? toShortSource(subject) : toShort(name)
  return [
    toTime(atMs),
    toShort(actorName ?? actor),
    toPrintable(action),
    of,
    name === null ? '' : toShortId(toPrintable(subject)),
  ]
}

/** A change of more is told in part: all of it is in the JSON. */
const MOST_TOLD = 20

function toNotes({ action, subject, detail }: Row): string[] {
  const [before, after] = [toFields(detail.before), toFields(detail.after)]
  const told = action.startsWith('catalog.') ? toRowChanges(before, after) : toFieldChanges(before, after)
  const rest = told.length > MOST_TOLD ? [`and ${told.length - MOST_TOLD} more`] : []
  const whole = typeof detail.name === 'string' ? '' : toWholeSource(subject)
  return [whole, toPrintable([...told.slice(0, MOST_TOLD), ...rest].join('; '))]
}

type Side = ReadonlyMap<string, unknown>

const toFields = (side: unknown): Side => new Map(isObject(side) ? Object.entries(side) : [])

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A change of the catalogue has fields by the names of their rows. */
function toRowChanges(before: Side, after: Side): string[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((row) => {
    if (!before.has(row)) return [`${row} is new`]
    if (!after.has(row)) return [`${row} is gone`]
    return toFieldChanges(toFields(before.get(row)), toFields(after.get(row))).map((change) => `${row}: ${change}`)
  })
}

/** Such as `rpm 60 -> 120`. Of what is made, what it has. */
function toFieldChanges(before: Side, after: Side): string[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((field) => {
    const [was, is] = [before, after].map((side) => toText(field, side.get(field)))
    // Columns say by their ends what their numbers are.
    const name = field.replace(/_(ms|nano_usd|id)$/, '')
    if (before.has(field)) return [`${name} ${was} -> ${is}`]
    return is === NOTHING ? [] : [`${name} ${is}`]
  })
}

const NOTHING = '-'

function toText(field: string, value: unknown): string {
  if (value === undefined || value === null) return NOTHING
  if (typeof value === 'number' && field.endsWith('_ms')) return toTime(value)
  if (typeof value === 'number' && field.endsWith('_nano_usd')) return `$${toUsd(value)}`
  if (typeof value === 'string') return field.endsWith('_id') ? toShortId(value) : value
  if (Array.isArray(value)) return value.map((one) => toText('', one)).join(', ') || NOTHING
  if (!isObject(value)) return String(value)
  const parts = Object.entries(value).filter(([, part]) => part !== null)
  return parts.map(([name, part]) => `${name.replace(/_ms$/, '')}=${toText(name, part)}`).join(' ') || NOTHING
}
