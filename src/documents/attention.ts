/** Findings for `tollgate status`, the admin API, and the dashboard, with the same texts; similar ones are grouped. */
import { type Static, Type } from '@sinclair/typebox'
import { ROLES, type Role } from '../domain/roles.ts'
import { count } from '../domain/text.ts'
import { toFew } from './checks.ts'
import { Count } from './fields.ts'
import {
  ATTENTION_KINDS,
  type AttentionKind,
  FINDERS,
  Finding,
  type Found,
  type Seen,
  type ShownFinding,
  toView,
} from './findings.ts'

export const Attention = Type.Object({
  findings: Type.Array(Finding, { description: 'Problems first, then one of each kind.' }),
  problems: Type.Integer({ description: 'Number of problems; several alike in one finding are counted each.' }),
  warnings: Count,
})
export type AttentionDocument = Static<typeof Attention>

interface Together {
  /** Follows `12 keys`. */
  problem?: string
  warning?: string
  /** Query string of the page that lists them. */
  query?: string
  command?: string
}

/** Texts for grouped findings of a kind. */
const TOGETHER: Partial<Readonly<Record<AttentionKind, Together>>> = {
  upstream: { problem: 'are not working', warning: 'are degraded', query: '?state=unwell' },
  credential: {
    problem: 'have no working credential',
    warning: 'have credentials that are not in use',
    query: '?state=unwell',
  },
  budget_spent: {
    problem: 'have spent their budgets, so their requests fail',
    query: '?state=budget_spent&sort=-budget',
  },
  budget_near: { warning: 'may soon have spent their budgets', query: '?sort=-budget' },
  refusals: {
    warning: 'had many requests refused in the last two hours',
    query: '?state=refused',
    command: 'tollgate usage --refusals --since 24h',
  },
  unpriced: { warning: 'had usage without a price in the last day, so the cost is too low' },
}

/** More similar findings than this are grouped. */
const MAX_ALIKE = 3

function fold(kind: AttentionKind, found: readonly Found[]): Found[] {
  const alike = Map.groupBy(found, ({ severity, subject }) => `${severity} ${subject?.type}`)
  return [...alike.values()].flatMap((all) => {
    const [first] = all
    const says = first && TOGETHER[kind]?.[first.severity]
    if (all.length <= MAX_ALIKE || !says || first.subject === null) return all
    const { type } = first.subject
    const { query = '', command = `tollgate ${type}s list` } = TOGETHER[kind] ?? {}
    return {
      ...{ severity: first.severity, subject: null, since_ms: null },
      message: `${count(all.length, type)} ${says}: ${toFew(all.map(({ subject }) => subject?.name ?? ''))}.`,
      action: toView(`View ${type}s`, `/${type}s${query}`, command),
    }
  })
}

/** @param role of the caller; members see findings about their own spend. */
export function toAttention(
  seen: Seen,
  role: Role,
  kinds: readonly AttentionKind[] = ATTENTION_KINDS,
): AttentionDocument {
  const all = kinds.map((kind) => ({ kind, found: FINDERS[kind](seen) }))
  const shown = all.flatMap(({ kind, found }) =>
    fold(kind, found).map((one, place) => ({ place, finding: toShown(kind, one, role) })),
  )
  const counted = (severity: Found['severity']) =>
    all.reduce((sum, { found }) => sum + found.filter((one) => one.severity === severity).length, 0)
  // The first of each kind comes first, so that many of one kind don't hide the others.
  shown.sort((a, b) => rankOf(a.finding) - rankOf(b.finding) || a.place - b.place)
  const findings = shown.map(({ finding }) => finding)
  return { findings, problems: counted('problem'), warnings: counted('warning') }
}

const rankOf = ({ severity }: Pick<Found, 'severity'>) => (severity === 'problem' ? 0 : 1)

function toShown(kind: AttentionKind, { action, part: _, ...found }: Found, role: Role): ShownFinding {
  const { view, command } = action
  const { label, path } = ROLES.indexOf(role) <= ROLES.indexOf(action.least) ? action : view
  return { kind, ...found, action: { label, path, command } }
}
