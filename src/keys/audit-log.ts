/** Who changed what of the configuration, and when. Called by `audit log` and the admin API. Rows are never changed. */
import { AUDIT_ACTIONS } from '../domain/changes.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { AuditRow, ConfigStore } from '../store/config-store.ts'
import type { IdentityStore } from '../store/identity-store.ts'
import { isNamed } from './find.ts'

const MAX_LIMIT = 10_000

export interface AuditOptions {
  /** Rows a page has at most, from 1 on. */
  limit: number
  /** The page begins behind the row of this id; absent: with the newest. */
  before?: string
  sinceMs?: number
  /** `cli`, `server`, or the id or the name of an administrator or of a token. */
  actor?: string
  /** Such as `keys.edit`, or `keys` for all of that group. */
  action?: string
  /** What was changed: the name of a key or a team, their id or digits of it; or a subject as rows have it. */
  subject?: string
}

/** With what whoever did it is called now; null where that is no administrator and no token. */
export interface NamedAuditRow extends AuditRow {
  actorName: string | null
}

export interface AuditPage {
  /** Newest first. */
  audit: NamedAuditRow[]
  /** Where the next page begins; null where there is none. */
  next: string | null
}

export interface AuditDeps {
  store: Pick<ConfigStore, 'readAudit' | 'readKeys'>
  identity: KnownActors
}

/** Lists changes. What is named as their subject is found by its present name, with all that was ever done to it. Throws `invalid`. */
export async function listAudit(
  { store, identity }: AuditDeps,
  { limit, subject, actor, ...query }: AuditOptions,
): Promise<AuditPage> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)
    throw invalid('limit', `it must be a whole number from 1 to ${MAX_LIMIT}`)
  if (query.before !== undefined && !/^[0-9a-f]{32}$/.test(query.before))
    throw invalid('before', 'it must be the whole id of a row of this log')
  if (query.action !== undefined && !NAMES.has(query.action))
    throw invalid('action', `there is none called '${query.action}': it must be one of ${[...NAMES].join(', ')}`)
  const subjects = subject === undefined ? {} : { subjects: [subject, ...(await idsOf(store, subject))] }
  const known = await readActors(identity)
  const actors = actor === undefined ? {} : { actors: [actor, ...idsNamed(known, actor)] }
  // One more than are wanted tells whether there is another page.
  const rows = await store.readAudit({ ...query, ...subjects, ...actors, limit: limit + 1 })
  const names = new Map(known.map(({ id, name }) => [id, name]))
  const audit = rows.slice(0, limit).map((row) => ({ ...row, actorName: names.get(row.actor) ?? null }))
  return { audit, next: rows.length > limit ? (audit.at(-1)?.id ?? null) : null }
}

type KnownActors = Pick<IdentityStore, 'readAdmins' | 'readTokens'>

/** Everybody but the commands and the server. */
const readActors = async (identity: KnownActors): Promise<{ id: string; name: string }[]> => [
  ...(await identity.readAdmins()),
  ...(await identity.readTokens()),
]

/** What administrators and tokens are called now, by their ids. */
export const readActorNames = async (identity: KnownActors): Promise<ReadonlyMap<string, string>> =>
  new Map((await readActors(identity)).map(({ id, name }) => [id, name]))

/** Each group before its actions. */
const NAMES = new Set(AUDIT_ACTIONS.flatMap((action) => [action.slice(0, action.indexOf('.')), action]))

const idsNamed = (known: readonly { id: string; name: string }[], text: string) =>
  known.filter(({ name }) => name.toLowerCase() === text.trim().toLowerCase()).map(({ id }) => id)

async function idsOf(store: Pick<ConfigStore, 'readKeys'>, text: string): Promise<string[]> {
  const { keys, teams } = await store.readKeys()
  return [...keys, ...teams].filter((one) => isNamed(one, text)).map(({ id }) => id)
}

const invalid = (field: string, rule: string) =>
  new ServiceError({ kind: 'invalid', field }, `The field ${field} is invalid: ${rule}.`)
