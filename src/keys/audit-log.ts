/** Who changed what, and when: keys, teams and the catalogue. Called by `audit log` and later the dashboard. Rows are never changed. */
import { AUDIT_ACTIONS } from '../domain/audit.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { AuditRow, ConfigStore } from '../store/config-store.ts'
import { isNamed } from './find.ts'

const MAX_LIMIT = 10_000

export interface AuditOptions {
  /** Rows a page has at most, from 1 on. */
  limit: number
  /** The page begins behind the row of this id; absent: with the newest. */
  before?: string
  sinceMs?: number
  /** `cli`, `server`, or an administrator's id. */
  actor?: string
  /** Such as `keys.edit`, or `keys` for all of that group. */
  action?: string
  /** What was changed: the name of a key or a team, their id or digits of it; or a subject as rows have it. */
  subject?: string
}

export interface AuditPage {
  /** Newest first. */
  audit: AuditRow[]
  /** Where the next page begins; null where there is none. */
  next: string | null
}

/** Lists changes. Whoever is named by its subject is found by its present name, with all that was ever done to it. Throws `invalid`. */
export async function listAudit(
  store: Pick<ConfigStore, 'readAudit' | 'readKeys'>,
  { limit, subject, ...query }: AuditOptions,
): Promise<AuditPage> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)
    throw invalid('limit', `it must be a whole number from 1 to ${MAX_LIMIT}`)
  if (query.before !== undefined && !/^[0-9a-f]{32}$/.test(query.before))
    throw invalid('before', 'it must be the whole id of a row of this log')
  if (query.action !== undefined && !NAMES.has(query.action))
    throw invalid('action', `there is none called '${query.action}': it must be one of ${[...NAMES].join(', ')}`)
  const subjects = subject === undefined ? {} : { subjects: [subject, ...(await idsOf(store, subject))] }
  // One more than are wanted tells whether there is another page.
  const rows = await store.readAudit({ ...query, ...subjects, limit: limit + 1 })
  const audit = rows.slice(0, limit)
  return { audit, next: rows.length > limit ? (audit.at(-1)?.id ?? null) : null }
}

/** Each group before its actions. */
const NAMES = new Set(AUDIT_ACTIONS.flatMap((action) => [action.slice(0, action.indexOf('.')), action]))

async function idsOf(store: Pick<ConfigStore, 'readKeys'>, text: string): Promise<string[]> {
  const { keys, teams } = await store.readKeys()
  return [...keys, ...teams].filter((one) => isNamed(one, text)).map(({ id }) => id)
}

const invalid = (field: string, rule: string) =>
  new ServiceError({ kind: 'invalid', field }, `The field ${field} is invalid: ${rule}.`)
