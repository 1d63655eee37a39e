/** What was changed of the catalogue while people asked: thin marks in the charts, each with its row of the audit log. Pure. */
import { toFirstId } from '../../domain/id.ts'
import type { AuditEntry } from '../audit/words.ts'
import type { Range } from './range.ts'

/** Groups of actions after which a request may go elsewhere, or cost something else. */
const GROUPS: ReadonlySet<string> = new Set(['catalog', 'models', 'routes', 'upstreams', 'database'])

export interface Mark {
  entry: AuditEntry
  /** Where it is, in columns: 2.25 is a quarter into the third one, whose middle is 2. */
  at: number
}

/** Rows of the audit log that are looked through: as many as it gives at once. */
const MOST_CHANGES = 1_000
/** Ids run a little ahead of their time. */
const SLACK_MS = 60_000

/** The rows that marks are among: of a time that is past, not those that came behind it. */
export const toMarksQuery = ({ sinceMs, untilMs }: Pick<Range, 'sinceMs' | 'untilMs'>) => ({
  since: String(sinceMs),
  ...(untilMs !== null && { before: toFirstId(untilMs + SLACK_MS).padEnd(32, '0') }),
  limit: MOST_CHANGES,
})

/** Oldest first. */
export const toMarks = (
  audit: readonly AuditEntry[],
  { sinceMs, untilMs, stepMs }: Pick<Range, 'sinceMs' | 'untilMs' | 'stepMs'>,
): Mark[] =>
  audit
    .filter(({ action }) => GROUPS.has(action.slice(0, action.indexOf('.'))))
    .filter(({ at_ms: ms }) => ms >= sinceMs && (untilMs === null || ms < untilMs))
    .map((entry) => ({ entry, at: (entry.at_ms - sinceMs) / stepMs - 0.5 }))
    .sort((a, b) => a.at - b.at)

/** Those within a column. */
export const marksOf = (marks: readonly Mark[], column: number): Mark[] =>
  marks.filter(({ at }) => Math.round(at) === column)

/** The next id: a page of the audit log that begins behind it begins with the row itself. */
export const toIdAfter = (id: string): string => (BigInt(`0x${id}`) + 1n).toString(16).padStart(id.length, '0')
