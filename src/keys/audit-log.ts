import { AUDIT_ACTIONS } from '../domain/changes.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { AuditRow, ConfigStore } from '../store/config-store.ts'
import type { IdentityStore } from '../store/identity-store.ts'
import { isNamed } from './find.ts'

const MAX_LIMIT = 10_000

export interface AuditOptions {
  limit: number
  /** ID of the last row before the page; absent: start with the newest. */
  before?: string
  sinceMs?: number
  /** `cli`, `server`, or the ID or name of an administrator or token. */
  actor?: string
  /** Such as `keys.edit`, or `keys` for the whole group. */
  action?: string
  /** The name or ID (or part of one) of a key or team; or a subject as stored. */
  subject?: string
}

/** With the actor's current name; null if the actor is no administrator or token. */
export interface NamedAuditRow extends AuditRow {
  actorName: string | null
}

export interface AuditPage {
  audit: NamedAuditRow[]
  /** Start of the next page; null if this is the last. */
  next: string | null
}

export interface AuditDeps {
  store: Pick<ConfigStore, 'readAudit' | 'readKeys'>
  identity: KnownActors
}

/** A subject is found by its current name, with its whole history. Throws `invalid`. */
export async function listAudit(
  { store, identity }: AuditDeps,
  { limit, subject, actor, ...query }: AuditOptions,
): Promise<AuditPage> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)
    throw invalid('limit', `must be a whole number from 1 to ${MAX_LIMIT}`)
  if (query.before !== undefined && !/^[0-9a-f]{32}$/.test(query.before))
    throw invalid('before', 'must be the full ID of an audit log row')
  if (query.action !== undefined && !NAMES.has(query.action))
    throw invalid('action', `unknown action '${query.action}'; must be one of ${[...NAMES].join(', ')}`)
  const subjects = subject === undefined ? {} : { subjects: [subject, ...(await idsOf(store, subject))] }
  const known = await readActors(identity)
  const actors = actor === undefined ? {} : { actors: [actor, ...idsNamed(known, actor)] }
  // One more row shows whether there is a next page.
  const rows = await store.readAudit({ ...query, ...subjects, ...actors, limit: limit + 1 })
  const names = new Map(known.map(({ id, name }) => [id, name]))
  const audit = rows.slice(0, limit).map((row) => ({ ...row, actorName: names.get(row.actor) ?? null }))
  return { audit, next: rows.length > limit ? (audit.at(-1)?.id ?? null) : null }
}

type KnownActors = Pick<IdentityStore, 'readAdmins' | 'readTokens'>

const readActors = async (identity: KnownActors): Promise<{ id: string; name: string }[]> => [
  ...(await identity.readAdmins()),
  ...(await identity.readTokens()),
]

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
  new ServiceError({ kind: 'invalid', field }, `Invalid ${field}: ${rule}.`)
