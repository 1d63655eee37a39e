/** `tollgate ledger verify`, `tollgate audit log`, and `tollgate compact`. */

import type { Command } from 'commander'
import type { AuditPageDocument } from '../documents/audit.ts'
import { toShortId } from '../domain/id.ts'
import { isObject } from '../domain/json.ts'
import { count, toSizeText } from '../domain/text.ts'
import { toDay } from '../domain/time.ts'
import { toUsd } from '../domain/usage.ts'
import { type Audit, auditLedger, type Behind, type Finding, readBehind } from '../ledger/audit.ts'
import { answerOf, toBehindNote, withAdmin } from './admin-client.ts'
import { CommandError } from './command-error.ts'
import { flushServer } from './control-client.ts'
import {
  type Context,
  printJson,
  toDescribedTable,
  toExamples,
  toPrintable,
  toShort,
  toShortSource,
  toTime,
  toWholeSource,
  withStore,
} from './io.ts'
import { createBar } from './terminal.ts'
import { addParameters, toCount, toMoment, toRenamedNote } from './values.ts'

export function addLedger(group: Command, context: Context): void {
  group
    .command('verify')
    .description('verify that the ledger is consistent; exits 1 if not')
    .addHelpText('after', toExamples('ledger verify', 'ledger verify --json'))
    .action(() => verifyLedger(context))
}

/** Plain `audit` is the old name of `ledger verify`: scripts rely on its exit codes. */
export function addAudit(command: Command, context: Context): void {
  command.action(() => {
    context.stderr(toRenamedNote('tollgate audit', 'tollgate ledger verify'))
    return verifyLedger(context)
  })
  const log = command.command('log').description('list changes of keys, teams, the catalog, and settings, newest first')
  addParameters(log, ['since', 'actor', 'action', 'subject', 'limit', 'before'], { defaults: { limit: '50' } })
    .addHelpText('after', toExamples('audit log --since 7d', 'audit log --subject dev --action keys --json'))
    .action((flags: AuditLogFlags) => auditLog(flags, context))
}

export function addCompact(command: Command, context: Context): void {
  command.addHelpText('after', toExamples('compact', 'compact --data /var/lib/tollgate')).action(() => compact(context))
}

export function verifyLedger(io: Context): Promise<void> {
  return withStore(io, { readonly: true }, async ({ audit: ledger }) => {
    const flushed = await flushServer(io.dataFolder)
    const behind = flushed ? { ...flushed, isServed: true } : readBehind(ledger, io.dataFolder)
    const bar = createBar(io, 'Verifying')
    const found = auditLedger(ledger, io.dataFolder, bar)
    bar.end()
    if (io.json) printJson(io, toDocument(found, behind))
    // Without a server, pending rows are a finding.
    else io.stdout(toLines(found, behind.isServed ? toBehindNote(behind) : ''))
    const findings = found.findings.length
    if (findings === 0) return
    throw new CommandError('audit_failed', `${count(findings, 'finding')} in ${toScope(found)}.`)
  })
}

const toDocument = ({ findings, fromMs, hours, requests, costNanoUsd }: Audit, { waiting }: Behind) => ({
  ok: findings.length === 0,
  findings: findings.map((finding) => ({ ...finding, message: toSentence(finding) })),
  from_ms: fromMs,
  hours,
  requests,
  cost_nano_usd: costNanoUsd,
  pending_records: waiting,
})

function toLines(found: Audit, note: string): string {
  const lines = found.findings.map(toSentence)
  if (found.findings.length === 0) lines.push(`The ledger is consistent: ${toScope(found)}.`)
  return note + lines.map((line) => `${toPrintable(line)}\n`).join('')
}

const toScope = ({ fromMs, hours, requests, costNanoUsd }: Audit) =>
  `${count(hours, 'hour')}${fromMs > 0 ? ` since ${toTime(fromMs)}` : ''}, ${count(requests, 'settled request')}, $${toUsd(costNanoUsd)}`

const PROBLEMS = {
  orphans: 'calls in the ledger without a request',
  attempts: 'the number of attempts differs from the calls in the ledger',
  sums: "the calls' tokens or cost don't add up to the request's",
}

export function toSentence(finding: Finding): string {
  switch (finding.kind) {
    case 'difference': {
      const what = finding.fields.map(
        ({ field, ledger, rollup }) => `${field} ${ledger} in the ledger, ${rollup} in the rollup`,
      )
      const place = `${toTime(finding.hour_ms)}, key ${finding.key_id}, ${finding.model} on ${finding.upstream}`
      return `${place}: ${what.join('; ') || 'in the rollup but not in the ledger'}.`
    }
    case 'day':
      return `${toDay(finding.day_ms)}, ${finding.dimension} ${finding.value || '(none)'}: daily totals don't match hourly totals.`
    case 'calls':
      return `${toTime(finding.hour_ms)}, ${count(finding.requests, 'request')} such as ${finding.request_id}: ${PROBLEMS[finding.problem]}.`
    case 'open':
      return `${count(finding.rows, 'row')} in ${finding.table} left open by stopped instance ${finding.instance} since ${toTime(finding.oldest_ms)}. The next server start closes them.`
    case 'journal':
      return `${finding.file} holds ${count(finding.records, 'record')} of a stopped instance. The next server start applies them.`
    case 'missing':
      return `${count(finding.requests, 'recorded request')} missing: a database or journal was lost or replaced by an older one. Restore a newer backup; to accept the loss, stop the server and delete ledger.mark.`
    case 'rejected':
      return `${finding.file} holds records that the database rejected. Inspect them, then move the file away.`
  }
}

export function compact(io: Context): Promise<void> {
  return withStore(io, {}, (store) => {
    const compacted = store.compact()
    if (io.json) return printJson(io, compacted)
    const { before_bytes: before, after_bytes: after } = compacted
    io.stdout(
      `Compacted the database from ${toSizeText(before)} to ${toSizeText(after)}. It now shrinks automatically.\n`,
    )
  })
}

interface AuditLogFlags {
  since?: string
  actor?: string
  action?: string
  subject?: string
  limit: string
  before?: string
}

async function auditLog({ since, limit, ...filter }: AuditLogFlags, io: Context): Promise<void> {
  const from = since === undefined ? {} : { since: String(toMoment('--since', since, io.nowMs())) }
  const options = { ...filter, ...from, limit: toCount('--limit', limit) }
  const page = await withAdmin(io, { readonly: true }, ({ api }) => answerOf(api.audit.get({ query: options })))
  if (io.json) return printJson(io, page)
  const { audit, next } = page
  if (audit.length > 0) io.stdout(toDescribedTable(HEADINGS, audit.map(toCells), audit.map(toNotes), io.paint))
  if (next !== null) io.stderr(`For older entries: --before ${next}\n`)
  else if (audit.length === 0) io.stderr('No matching changes. Try a longer period or fewer filters.\n')
}

const HEADINGS = ['TIME (UTC)', 'ACTOR', 'ACTION', 'SUBJECT', '']

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

/** More changes are only in the JSON. */
const MAX_SHOWN = 20

function toNotes({ action, subject, detail }: Row): string[] {
  const [before, after] = [toFields(detail.before), toFields(detail.after)]
  const told = action.startsWith('catalog.') ? toRowChanges(before, after) : toFieldChanges(before, after)
  const rest = told.length > MAX_SHOWN ? [`and ${told.length - MAX_SHOWN} more`] : []
  const whole = typeof detail.name === 'string' ? '' : toWholeSource(subject)
  return [whole, toPrintable([...told.slice(0, MAX_SHOWN), ...rest].join('; '))]
}

type Side = ReadonlyMap<string, unknown>

const toFields = (side: unknown): Side => new Map(isObject(side) ? Object.entries(side) : [])

/** Catalog changes are grouped by row. */
function toRowChanges(before: Side, after: Side): string[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((row) => {
    if (!before.has(row)) return [`created ${row}`]
    if (!after.has(row)) return [`deleted ${row}`]
    return toFieldChanges(toFields(before.get(row)), toFields(after.get(row))).map((change) => `${row}: ${change}`)
  })
}

/** Such as `rpm 60 -> 120`; for a new row its values. */
function toFieldChanges(before: Side, after: Side): string[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((field) => {
    const [was, is] = [before, after].map((side) => toText(field, side.get(field)))
    // The unit suffix of the column name.
    const name = field.replace(/_(ms|nano_usd|id)$/, '')
    if (before.has(field)) return [`${name} ${was ?? 'none'} -> ${is ?? 'none'}`]
    return is === null ? [] : [`${name} ${is}`]
  })
}

/** Null if empty. */
function toText(field: string, value: unknown): string | null {
  if (value === undefined || value === null) return null
  if (typeof value === 'number' && field.endsWith('_ms')) return toTime(value)
  if (typeof value === 'number' && field.endsWith('_nano_usd')) return `$${toUsd(value)}`
  if (typeof value === 'string') return field.endsWith('_id') ? toShortId(value) : value
  if (Array.isArray(value)) return value.map((one) => toText('', one) ?? 'none').join(', ') || null
  if (!isObject(value)) return String(value)
  const parts = Object.entries(value).filter(([, part]) => part !== null)
  return parts.map(([name, part]) => `${name.replace(/_ms$/, '')}=${toText(name, part) ?? 'none'}`).join(' ') || null
}
