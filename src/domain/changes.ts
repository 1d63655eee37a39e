/** Audit log actions, differences between states, and revisions to detect edit conflicts. */
import { keysOf } from './json.ts'
import { ServiceError } from './service-error.ts'

/** Texts before the object's name. */
export const AUDIT_WORDS = {
  'keys.create': 'created the key',
  'keys.edit': 'changed the key',
  'keys.rotate': 'rotated the key',
  'keys.end_overlap': 'ended the old secrets of the key',
  'keys.revoke': 'revoked the key',
  'teams.create': 'created the team',
  'teams.edit': 'changed the team',
  'catalog.apply': 'applied the catalog',
  'catalog.revert': 'rolled back the catalog',
  'catalog.undo': 'undid the catalog change',
  'catalog.refresh': 'refreshed known prices and facts',
  'upstreams.create': 'added the upstream',
  'upstreams.edit': 'changed the upstream',
  'upstreams.delete': 'removed the upstream',
  'models.create': 'created the model',
  'models.edit': 'changed the model',
  'models.reset': 'reset the model',
  'models.delete': 'removed the model',
  'routes.set': 'set a route of',
  'routes.delete': 'removed a route of',
  'ledger.correct': 'corrected the ledger with',
  'database.reseal': 're-encrypted the',
  'database.restore': 'restored the backup',
  'settings.edit': 'changed the settings',
  'alerts.add': 'added the alert target',
  'alerts.remove': 'removed the alert target',
  'backups.create': 'created the backup',
  'backups.download': 'downloaded the backup',
  'admins.create': 'added',
  'admins.edit': 'changed',
  'admins.code': 'issued a new code to',
  'admins.password': 'set the password of',
  'admins.close': 'blocked sign-in attempts for',
  'passkeys.create': 'added the passkey',
  'passkeys.edit': 'renamed the passkey',
  'passkeys.remove': 'removed the passkey',
  'sessions.begin': 'started a session of',
  'sessions.end': 'ended a session of',
  'tokens.create': 'created the token',
  'tokens.revoke': 'revoked the token',
} as const
export type AuditAction = keyof typeof AUDIT_WORDS
export const AUDIT_ACTIONS = keysOf(AUDIT_WORDS)

/** A name in the catalog, such as `models.openai/gpt-5`, in words: `model openai/gpt-5` or `route openai (gpt-5) of openai/gpt-5`. */
export function toEntryName(name: string): string {
  const [, section = '', rest = ''] = /^(\w+)\.(.*)$/s.exec(name) ?? []
  const route = /^(.*): route (.*)$/s.exec(rest)
  if (route) return `route ${route[2]} of ${route[1]}`
  const word = { upstreams: 'upstream', models: 'model', aliases: 'alias' }[section]
  return word === undefined ? name : `${word} ${rest}`
}

/** By column name; never secrets. */
export type Fields = Readonly<Record<string, unknown>>

/** An added or removed field is on one side only. */
export interface Difference {
  before: Fields
  after: Fields
}

/** null if equal; `{}` stands for before creation and after removal. */
export function toDifference(before: Fields, after: Fields): Difference | null {
  const names = Object.keys({ ...before, ...after }).filter((name) => !Bun.deepEquals(before[name], after[name]))
  if (names.length === 0) return null
  const pick = (fields: Fields) =>
    Object.fromEntries(names.filter((name) => Object.hasOwn(fields, name)).map((name) => [name, fields[name]]))
  return { before: pick(before), after: pick(after) }
}

/** 16 hex digits, ignoring `updatedMs`. */
export const toRevision = (state: object): string =>
  Bun.SHA256.hash(
    JSON.stringify(state, (name, value) => (name === 'updatedMs' ? undefined : value)),
    'hex',
  ).slice(0, 16)

/**
 * Throws `revision_conflict` if `revision` is set and not the current one.
 * @param what begins the message, such as `The key 'dev'`.
 * @param current shown in the conflict, by column name.
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

/** Omitted fields stay; null removes one. */
export type FieldChanges<T> = { [Field in keyof T]?: T[Field] | null }

export const toChanged = <T extends object>(before: T, changes: FieldChanges<T>): T =>
  Object.fromEntries(Object.entries({ ...before, ...toDefined(changes) }).filter(([, value]) => value !== null)) as T

export const toDefined = <T extends object>(fields: T) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Field in keyof T]?: Exclude<T[Field], undefined>
  }
