/**
 * Keys of somebody's own. Of a member: a store of keys in which there are no others; the services of `keys/` work with it as with the whole one, and
 * whatever they are asked for, they find, tell of and write the member's own alone. And the key by which anybody's playground is metered.
 */
import { toDifference } from '../domain/changes.ts'
import { mintId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import { DAY_MS } from '../domain/time.ts'
import { NEW_KEY, requireWithin, toKeyFields } from '../keys/changes.ts'
import type { KeyChanges } from '../keys/definition.ts'
import { isLiving } from '../keys/find.ts'
import { type CreatedKey, createKey } from '../keys/service.ts'
import type { Actor, ConfigStore, KeyRows, KeyStore, StoredKey } from '../store/config-store.ts'
import type { IdentityStore, StoredAdmin } from '../store/identity-store.ts'
import type { Principal } from './principal.ts'

export interface Member {
  id: string
  teamId: string
}

/** Throws `no_team`: keys of one's own are for members. */
export function requireMember({ id, teamId }: Pick<Principal, 'id' | 'teamId'>): Member {
  if (teamId !== null) return { id, teamId }
  const message = "Keys of one's own are for members, whose team says what they may use: you have no team."
  throw new ServiceError({ kind: 'no_team' }, message)
}

/**
 * The keys of this member, and their team. A change is decided by who they are at that moment: of somebody who was disabled meanwhile,
 * nothing is made any more. It throws, beside what the services do, `no_team`, `above_ceiling`, `too_many_keys` where more keys would be in force than
 * their team allows, and `invalid` where a key in force of somebody else has the name.
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
    /** Makes a key of theirs, in their team. */
    create: (options: OwnChanges & { name: string }, by: Actor): Promise<CreatedKey> =>
      createKey(store, { ...options, team: teamId, ownerId: id }, by),
  }
}

/** What a member says of a key: its team and its owner are theirs. */
export type OwnChanges = Omit<KeyChanges, 'team'>

const toOwn = ({ keys, teams }: KeyRows, { id, teamId }: Member): KeyRows => ({
  keys: keys.filter(({ ownerId, hidden }) => ownerId === id && !hidden),
  teams: teams.filter((team) => team.id === teamId),
})

function toPresent(admins: readonly StoredAdmin[], id: string): Pick<StoredAdmin, 'id' | 'teamId'> {
  const found = admins.find((admin) => admin.id === id)
  return found && found.disabledMs === null ? found : { id, teamId: null }
}

/** As long as any budget's period: a key with ceilings keeps its place for so long after its end, or whoever ends it would be rid of them. */
const HELD_MS = 31 * DAY_MS

const hasCeilings = ({ ceilings }: StoredKey) => Object.keys(ceilings).length > 0

const isHeld = (key: StoredKey, nowMs: number) =>
  hasCeilings(key) && (key.revokedMs ?? key.expiresMs ?? nowMs) > nowMs - HELD_MS

/** Of a key that a member changes: whether it stays below its ceilings. Of one that comes into force: whether there is room for it, and nobody else has its name. */
function requireAllowed({ keys, teams }: KeyRows, { id, teamId }: Member, key: StoredKey, nowMs: number): void {
  const before = keys.find((one) => one.id === key.id)
  if (before) requireWithin(before, key)
  if (before && hasCeilings(before) && key.expiresMs !== before.expiresMs && (key.expiresMs ?? nowMs) < nowMs) {
    const message =
      'This key has limits set by an administrator, so it cannot expire in the past. To end it now, revoke it.'
    throw new ServiceError({ kind: 'invalid', field: 'expires_ms' }, message)
  }
  if (!isLiving(key, nowMs)) return
  const wasLiving = before !== undefined && isLiving(before, nowMs)
  const others = keys.filter((one) => one.id !== key.id && !one.hidden)
  const living = others.filter((one) => isLiving(one, nowMs))
  const held = others.filter((one) => one.ownerId === id && !isLiving(one, nowMs) && isHeld(one, nowMs))
  const most = teams.find((team) => team.id === teamId)?.maxKeys ?? null
  if (!wasLiving && most !== null && living.filter(({ ownerId }) => ownerId === id).length + held.length >= most) {
    const also = ` A key with limits set by an administrator still counts for ${HELD_MS / DAY_MS} days after it ends: rotate such a key instead.`
    const message = `Each member of this team may have ${most} keys: revoke one first.${held.length > 0 ? also : ''}`
    throw new ServiceError({ kind: 'too_many_keys', most }, message)
  }
  if (wasLiving && before.name === key.name) return
  // Nothing is said of whose it is.
  if (living.some(({ ownerId, name }) => ownerId !== id && name === key.name))
    throw new ServiceError({ kind: 'invalid', field: 'name' }, 'This name is taken: choose another one.')
}

/**
 * Their key, made where there is none, brought into the team that they are in by now, and in force again where it had been revoked
 * with them. Null for who may not sign in any more.
 */
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
