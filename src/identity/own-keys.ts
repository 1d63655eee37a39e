/** A member's own keys, as a key store without any others; and the hidden key that meters a user's playground. */
import { toDifference } from '../domain/changes.ts'
import { mintId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import { count } from '../domain/text.ts'
import { DAY_MS } from '../domain/time.ts'
import { NEW_KEY, requireWithin, toKeyFields } from '../keys/changes.ts'
import type { KeyChanges } from '../keys/definition.ts'
import { isActive } from '../keys/find.ts'
import { type CreatedKey, createKey } from '../keys/service.ts'
import type { Actor, ConfigStore, KeyRows, KeyStore, StoredKey } from '../store/config-store.ts'
import type { IdentityStore, StoredAdmin } from '../store/identity-store.ts'
import type { Principal } from './principal.ts'

export interface Member {
  id: string
  teamId: string
}

/** Throws `no_team`: only members can have their own keys. */
export function requireMember({ id, teamId }: Pick<Principal, 'id' | 'teamId'>): Member {
  if (teamId !== null) return { id, teamId }
  const message = 'Only members can have their own keys, and you have no team.'
  throw new ServiceError({ kind: 'no_team' }, message)
}

/**
 * The member's keys and team. A change checks the member's current state, so that nothing is created after they were
 * disabled. Throws, besides the services' errors, `no_team`, `above_ceiling`, `too_many_keys` above the team's limit of
 * active keys, and `invalid` if another user's active key has the name.
 */
export function createOwnKeys(keys: Pick<ConfigStore, 'readKeys'>, identity: IdentityStore, { id, teamId }: Member) {
  const store: KeyStore = {
    isOwn: true,
    readKeys: async () => toOwn(await keys.readKeys(), { id, teamId }),
    changeKeys: (by, decide) =>
      identity.changeIdentity(by, ({ admins, keyRows }) => {
        const member = requireMember(toPresent(admins, id))
        const rows = keyRows()
        const decided = decide(toOwn(rows, member))
        for (const key of decided.change?.write.keys ?? []) requireAllowed(rows, member, key, by.nowMs)
        return decided
      }),
  }
  return {
    ...store,
    create: (options: OwnChanges & { name: string }, by: Actor): Promise<CreatedKey> =>
      createKey(store, { ...options, team: teamId, ownerId: id }, by),
  }
}

export type OwnChanges = Omit<KeyChanges, 'team'>

const toOwn = ({ keys, teams }: KeyRows, { id, teamId }: Member): KeyRows => ({
  keys: keys.filter(({ ownerId, hidden }) => ownerId === id && !hidden),
  teams: teams.filter((team) => team.id === teamId),
})

function toPresent(admins: readonly StoredAdmin[], id: string): Pick<StoredAdmin, 'id' | 'teamId'> {
  const found = admins.find((admin) => admin.id === id)
  return found && found.disabledMs === null ? found : { id, teamId: null }
}

/**
 * The longest budget period. A revoked or expired key with ceilings counts this long, or ending it would bypass them.
 */
const HELD_MS = 31 * DAY_MS

const hasCeilings = ({ ceilings }: StoredKey) => Object.keys(ceilings).length > 0

const isHeld = (key: StoredKey, nowMs: number) =>
  hasCeilings(key) && (key.revokedMs ?? key.expiresMs ?? nowMs) > nowMs - HELD_MS

/** Checks a changed key against its ceilings, and a newly active one against the number of keys and other users' names. */
function requireAllowed({ keys, teams }: KeyRows, { id, teamId }: Member, key: StoredKey, nowMs: number): void {
  const before = keys.find((one) => one.id === key.id)
  if (before) requireWithin(before, key)
  if (before && hasCeilings(before) && key.expiresMs !== before.expiresMs && (key.expiresMs ?? nowMs) < nowMs) {
    const message =
      'This key has limits set by an administrator, so it cannot expire in the past. To end it now, revoke it.'
    throw new ServiceError({ kind: 'invalid', field: 'expires_ms' }, message)
  }
  if (!isActive(key, nowMs)) return
  const wasLiving = before !== undefined && isActive(before, nowMs)
  const others = keys.filter((one) => one.id !== key.id && !one.hidden)
  const living = others.filter((one) => isActive(one, nowMs))
  const held = others.filter((one) => one.ownerId === id && !isActive(one, nowMs) && isHeld(one, nowMs))
  const most = teams.find((team) => team.id === teamId)?.maxKeys ?? null
  if (!wasLiving && most !== null && living.filter(({ ownerId }) => ownerId === id).length + held.length >= most) {
    const also = ` Keys with limits set by an administrator count for ${HELD_MS / DAY_MS} days after they end; rotate them instead.`
    const message = `Members of this team can have at most ${count(most, 'key')}. Revoke one first.${held.length > 0 ? also : ''}`
    throw new ServiceError({ kind: 'too_many_keys', most }, message)
  }
  if (wasLiving && before.name === key.name) return
  // Does not reveal whose key has the name.
  if (living.some(({ ownerId, name }) => ownerId !== id && name === key.name))
    throw new ServiceError({ kind: 'invalid', field: 'name' }, 'This name is taken. Choose another.')
}

/** The user's playground key: created if missing, moved to their current team, and reactivated if it was revoked with them. Null for disabled users. */
export function takePlaygroundKey(store: IdentityStore, adminId: string, by: Actor): Promise<StoredKey | null> {
  return store.changeIdentity<StoredKey | null>(by, ({ admins, keyRows }) => {
    const admin = admins.find(({ id }) => id === adminId)
    if (!admin || admin.disabledMs !== null) return { value: null, change: null }
    const found = keyRows().keys.find((key) => key.hidden && key.ownerId === adminId)
    if (!found) {
      const key = toNew(admin, by.nowMs)
      const detail = { name: key.name, ...toDifference({}, toAll(key)) }
      return { value: key, change: { action: 'keys.create', subject: key.id, detail, write: { keys: [key] } } }
    }
    const key = { ...found, teamId: admin.teamId, revokedMs: null }
    const difference = toDifference(toAll(found), toAll(key))
    const record = { action: 'keys.edit' as const, subject: key.id, detail: { name: key.name, ...difference } }
    return { value: key, change: difference && { ...record, write: { keys: [key] } } }
  })
}

const toNew = ({ id, name, teamId }: StoredAdmin, nowMs: number): StoredKey => ({
  ...NEW_KEY,
  ...{ id: mintId(nowMs), name: `playground of ${name}`, teamId, ownerId: id, hidden: true, createdMs: nowMs },
  secrets: [],
})

const toAll = (key: StoredKey) => ({ ...toKeyFields(key), hidden: key.hidden, revoked_ms: key.revokedMs })
