/** What was changed of the catalogue while people asked: thin marks in the charts, each with its row of the audit log. Pure. */
import type { AuditEntry } from '../audit/words.ts'
import type { Range } from './range.ts'

/** Groups of actions after which a request may go elsewhere, or cost something else. */
const GROUPS: ReadonlySet<string> = new Set(['catalog', 'models', 'routes', 'upstreams', 'database'])

export interface Mark {
  entry: AuditEntry
  /** Where it is, in columns: 2.25 is a quarter into the third one, whose middle is 2. */
  at: number
}

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
