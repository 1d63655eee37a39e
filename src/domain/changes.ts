/**
 * Changes of the configuration: what each is called in the audit log, what it changed, and which state it was made from. A revision tells
 * the states of one thing apart: an edit may name the one that it was made from, and is refused once another one holds. Pure.
 */
import { keysOf } from './json.ts'
import { ServiceError } from './service-error.ts'

/** All of them: a group, a dot, and what is done to one of it; with the words before what it was done to. */
export const AUDIT_WORDS = {
  'keys.create': 'made the key',
  'keys.edit': 'changed the key',
  'keys.rotate': 'gave a new secret to the key',
  'keys.revoke': 'revoked the key',
  'teams.create': 'made the team',
  'teams.edit': 'changed the team',
  'catalog.apply': 'applied the catalogue',
  'catalog.revert': 'took the catalogue back',
  'catalog.refresh': 'brought known facts and prices up to date',
  'upstreams.create': 'added the upstream',
  'upstreams.edit': 'changed the upstream',
  'upstreams.delete': 'removed the upstream',
  'models.edit': 'changed the model',
  'models.reset': 'gave back the model',
  'models.delete': 'removed the model',
  'routes.set': 'set a route of',
  'routes.delete': 'removed a route of',
  'database.reseal': 'sealed anew, by another secret, the',
  'database.restore': 'restored the backup',
  'settings.edit': 'changed the settings',
  'backups.create': 'made the backup',
  'backups.download': 'downloaded the backup',
  'admins.create': 'added',
  'admins.edit': 'changed',
  'admins.code': 'gave a new code to',
  'admins.password': 'set the password of',
  'admins.close': 'stopped sign-in attempts for',
  'passkeys.create': 'added the passkey',
  'passkeys.edit': 'renamed the passkey',
  'passkeys.remove': 'removed the passkey',
  'sessions.begin': 'began a session of',
  'sessions.end': 'ended a session of',
  'tokens.create': 'made the token',
  'tokens.revoke': 'revoked the token',
} as const
export type AuditAction = keyof typeof AUDIT_WORDS
export const AUDIT_ACTIONS = keysOf(AUDIT_WORDS)

/** By the names of columns, and nothing secret among them. */
export type Fields = Readonly<Record<string, unknown>>

/** The fields that changed, as they were and as they are. A field that was not there, or is gone, is on one side alone. */
export interface Difference {
  before: Fields
  after: Fields
}

/**
 * Compares two states of one thing, in depth; null where they are the same. Before what is made, and after what is gone, there
 * is `{}`.
 */
export function toDifference(before: Fields, after: Fields): Difference | null {
  const names = Object.keys({ ...before, ...after }).filter((name) => !Bun.deepEquals(before[name], after[name]))
  if (names.length === 0) return null
  const pick = (fields: Fields) =>
    Object.fromEntries(names.filter((name) => Object.hasOwn(fields, name)).map((name) => [name, fields[name]]))
  return { before: pick(before), after: pick(after) }
}

/** The revision of a state: 16 hex digits, the same for the same state. When it was written last does not count. */
export const toRevision = (state: object): string =>
  Bun.SHA256.hash(
    JSON.stringify(state, (name, value) => (name === 'updatedMs' ? undefined : value)),
    'hex',
  ).slice(0, 16)

/**
 * Throws `revision_conflict` where a change names another revision than that of the present state.
 *
 * @param revision absent: the change is made whatever the state is.
 * @param what begins the sentence, such as `The key 'dev'`.
 * @param current the state as the refusal shows it, by the names of columns.
 */
export function requireRevision(
  { revision }: { revision?: string },
  what: string,
  state: object,
  current: Readonly<Record<string, unknown>>,
): void {
  if (revision === undefined) return
  const now = toRevision(state)
  if (revision === now) return
  const message = `${what} has changed since you read it. Nothing was saved. Read the current state, then make your change again.`
  throw new ServiceError({ kind: 'revision_conflict', revision: now, current }, message)
}

/** What is left out stays as it is; null takes it away. */
export type FieldChanges<T> = { [Field in keyof T]?: T[Field] | null }

/** Makes changes of fields that need not be there. Pure. */
export const toChanged = <T extends object>(before: T, changes: FieldChanges<T>): T =>
  Object.fromEntries(Object.entries({ ...before, ...toDefined(changes) }).filter(([, value]) => value !== null)) as T

/** Leaves out of an object what is undefined: for options that are absent where nobody gave them. Pure. */
export const toDefined = <T extends object>(fields: T) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Field in keyof T]?: Exclude<T[Field], undefined>
  }
