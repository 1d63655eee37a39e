/**
 * Users: owners, editors, viewers, and members. They are invited with a code to set their own password, and disabled but never deleted, since the audit log
 * names them. At least one owner can always sign in.
 */
import { type Difference, type Fields, requireRevision, toDifference } from '../domain/changes.ts'
import { mintId } from '../domain/id.ts'
import { type Role, SIGN_IN_METHODS, type SignInMethod } from '../domain/roles.ts'
import { ServiceError } from '../domain/service-error.ts'
import { isVisible } from '../domain/text.ts'
import { findTeam } from '../keys/find.ts'
import type { Actor, Decided, KeyRows, StoredKey } from '../store/config-store.ts'
import type { IdentityStore, IdentityWrite, StoredAdmin } from '../store/identity-store.ts'
import type { AdminChanges, AdminOptions } from './definition.ts'
import { hashCode, mintCode } from './passwords.ts'

export interface CodedAdmin {
  admin: StoredAdmin
  /** One-time code to set a password; cannot be shown again. */
  code: string
}

/** Invitations may wait in a mailbox; someone who lost a password is waiting. */
const CODE_MS = { invite: 7 * 86_400_000, reset: 3_600_000 }

/** Throws `invalid`, `admin_exists`, `team_not_found`, and `team_ambiguous`. */
export function inviteAdmin(store: IdentityStore, options: AdminOptions, by: Actor): Promise<CodedAdmin> {
  return store.changeIdentity(by, ({ admins, keyRows }) => {
    const code = mintCode()
    const coded = { codeHash: hashCode(code), codeExpiresMs: by.nowMs + CODE_MS.invite }
    const admin = { ...decideAdmin(admins, options, by, keyRows), ...coded }
    return { value: { admin, code }, change: { ...toCreation(admin), write: { admins: [admin] } } }
  })
}

export function decideAdmin(
  admins: readonly StoredAdmin[],
  { name: typed, role, team = null }: AdminOptions,
  by: Actor,
  keyRows: () => KeyRows,
): StoredAdmin {
  const name = requireSignInName(typed)
  if (admins.some((admin) => admin.name === name))
    throw new ServiceError({ kind: 'admin_exists', admin: name }, `A user named '${name}' already exists.`)
  return {
    ...{ id: mintId(by.nowMs), name, role, teamId: toTeamId(role, team, keyRows) },
    ...{ passwordHash: null, oidcSubject: null, codeHash: null, codeExpiresMs: null },
    ...{ createdMs: by.nowMs, disabledMs: null },
  }
}

export const toCreation = (admin: StoredAdmin) => ({
  action: 'admins.create' as const,
  subject: admin.id,
  detail: { name: admin.name, ...toDifference({}, toAdminFields(admin)) },
})

export interface EditedAdmin {
  admin: StoredAdmin
  /** Null if nothing changed. */
  difference: Difference | null
  /** Their own keys, revoked with them. */
  revoked: StoredKey[]
  /** Keys moved to another team with them. */
  moved: StoredKey[]
}

/**
 * Changes a user's role or team, or disables them, which ends their sessions and revokes their own keys. A member's keys move to the new team; former members
 * keep theirs unchanged.
 *
 * @param ways available sign-in methods; default: all. Throws `invalid`, `admin_not_found`, `last_owner`, `revision_conflict`, `team_not_found`, and
 * `team_ambiguous`.
 */
export function editAdmin(
  store: IdentityStore,
  which: string,
  changes: AdminChanges,
  by: Actor,
  ways: readonly SignInMethod[] = SIGN_IN_METHODS,
): Promise<EditedAdmin> {
  return store.changeIdentity<EditedAdmin>(by, ({ admins, keyRows }) => {
    const found = findAdmin(admins, which)
    requireRevision(by, `'${found.name}'`, toAdminFields(found), toAdminFields(found))
    const { role = found.role, disabled = found.disabledMs !== null } = changes
    const team = changes.team === undefined && role === 'member' ? found.teamId : (changes.team ?? null)
    const teamId = toTeamId(role, team, keyRows)
    const disabledMs = disabled ? (found.disabledMs ?? by.nowMs) : null
    const own = { role } satisfies Record<Exclude<keyof AdminChanges, 'team' | 'disabled'>, unknown>
    const admin = { ...found, ...own, teamId, disabledMs }
    requireOwner(admins, admin, ways)
    return decideEdit(found, admin, keyRows, by)
  })
}

export function decideEdit(
  found: StoredAdmin,
  admin: StoredAdmin,
  keyRows: () => KeyRows,
  by: Actor,
): Decided<IdentityWrite, EditedAdmin> {
  const difference = toDifference(toAdminFields(found), toAdminFields(admin))
  const isLeaving = admin.disabledMs !== null && found.disabledMs === null
  const isMoving = admin.teamId !== null && admin.teamId !== found.teamId
  const own = isLeaving || isMoving ? keyRows().keys.filter((key) => isOwn(key, found.id)) : []
  const revoked = isLeaving ? own : []
  const moved = isMoving ? own.filter((key) => key.teamId !== admin.teamId) : []
  const detail = {
    ...{ name: admin.name, ...difference },
    ...(revoked.length > 0 ? { keys_revoked: revoked.length } : {}),
    ...(moved.length > 0 ? { keys_moved: moved.length } : {}),
  }
  const write = {
    admins: [admin],
    keys: own.map((key) => ({
      ...key,
      ...(isLeaving ? { revokedMs: by.nowMs } : {}),
      ...(isMoving ? { teamId: admin.teamId } : {}),
    })),
    end: { of: isLeaving ? [found.id] : [] },
  }
  const change = difference && { action: 'admins.edit' as const, subject: admin.id, detail, write }
  return { value: { admin, difference, revoked, moved }, change }
}

/** Issues a new invitation; the previous code expires. Throws `admin_not_found`, and `invalid` for users who have a password or are disabled. */
export const inviteAgain = (store: IdentityStore, which: string, by: Actor): Promise<CodedAdmin> =>
  giveCode(store, which, CODE_MS.invite, by, (found) => {
    if (statusOf(found) === 'invited') return
    const advice = 'If they lost their password, run on the server: tollgate admin reset'
    throw new ServiceError({ kind: 'invalid', field: 'name' }, `'${found.name}' can sign in already. ${advice}`)
  })

/**
 * Issues a code for a new password; the old one, all passkeys, and all sessions end at once. Throws `admin_not_found`, and `invalid` for disabled users. Not in
 * the admin API: anyone at an owner's browser could take over every account.
 */
export const resetAdmin = (store: IdentityStore, which: string, by: Actor): Promise<CodedAdmin> =>
  giveCode(store, which, CODE_MS.reset, by, () => {})

function giveCode(
  store: IdentityStore,
  which: string,
  lastsMs: number,
  by: Actor,
  check: (found: StoredAdmin) => void,
): Promise<CodedAdmin> {
  return store.changeIdentity(by, ({ admins, passkeys }) => {
    const found = findAdmin(admins, which)
    if (found.disabledMs !== null)
      throw new ServiceError({ kind: 'invalid', field: 'name' }, `'${found.name}' is disabled: enable them first.`)
    check(found)
    const code = mintCode()
    const admin = { ...found, codeHash: hashCode(code), codeExpiresMs: by.nowMs + lastsMs, passwordHash: null }
    const remove = passkeys().flatMap(({ id, adminId }) => (adminId === admin.id ? [id] : []))
    const detail = { name: admin.name, ...(remove.length > 0 ? { passkeys_removed: remove.length } : {}) }
    const write = { admins: [admin], remove, end: { of: [admin.id] } }
    return { value: { admin, code }, change: { action: 'admins.code', subject: admin.id, detail, write } }
  })
}

export const readNames = async (store: Pick<IdentityStore, 'readAdmins'>): Promise<ReadonlyMap<string, string>> =>
  new Map((await store.readAdmins()).map(({ id, name }) => [id, name]))

/** By ID or name. Throws `admin_not_found`. */
export function findAdmin(admins: readonly StoredAdmin[], which: string): StoredAdmin {
  const found = admins.find(({ id, name }) => id === which || name === toSignInName(which))
  if (found) return found
  const message = `User '${which.slice(0, 200)}' not found.`
  throw new ServiceError({ kind: 'admin_not_found', admin: which }, message)
}

export type AdminStatus = 'active' | 'invited' | 'disabled'

export function statusOf({ passwordHash, oidcSubject, disabledMs }: StoredAdmin): AdminStatus {
  if (disabledMs !== null) return 'disabled'
  return passwordHash === null && oidcSubject === null ? 'invited' : 'active'
}

/** Throws `invalid`, `team_not_found`, and `team_ambiguous`. */
export function toTeamId(role: Role, team: string | null, keyRows: () => KeyRows): string | null {
  if ((role === 'member') !== (team !== null)) {
    const message = role === 'member' ? 'A member needs a team. Choose one.' : 'Only members have a team.'
    throw new ServiceError({ kind: 'invalid', field: 'team' }, message)
  }
  return team === null ? null : findTeam(keyRows().teams, team).id
}

/** True for an owner who can sign in with one of these methods. */
export const isOwnerAt = (ways: readonly SignInMethod[], admin: StoredAdmin): boolean =>
  admin.role === 'owner' &&
  admin.disabledMs === null &&
  ways.some((way) => (way === 'password' ? admin.passwordHash : admin.oidcSubject) !== null)

/** Throws `last_owner` if no owner could sign in afterward. */
function requireOwner(admins: readonly StoredAdmin[], changed: StoredAdmin, ways: readonly SignInMethod[]): void {
  const after = admins.map((admin) => (admin.id === changed.id ? changed : admin))
  if (!admins.some((admin) => isOwnerAt(ways, admin)) || after.some((admin) => isOwnerAt(ways, admin))) return
  throw new ServiceError({ kind: 'last_owner' }, 'At least one owner must be able to sign in.')
}

const isOwn = ({ ownerId, revokedMs }: StoredKey, id: string) => ownerId === id && revokedMs === null

export const toAdminFields = ({ name, role, teamId, oidcSubject, disabledMs }: StoredAdmin) =>
  ({ name, role, team_id: teamId, oidc_subject: oidcSubject, disabled_ms: disabledMs }) satisfies Fields &
    Record<Exclude<keyof AdminOptions, 'team'>, unknown>

const MAX_CHARS = 200

/** Normalized name: lowercase, and NFKC, so that look-alike forms are equal. */
export const toSignInName = (typed: string): string => typed.trim().normalize('NFKC').toLowerCase().slice(0, MAX_CHARS)

function requireSignInName(typed: string): string {
  const name = toSignInName(typed)
  if (name !== '' && typed.trim().length <= MAX_CHARS && !/\s/.test(name) && isVisible(name)) return name
  const message = 'The name must have 1 to 200 characters, none of them invisible, and no spaces.'
  throw new ServiceError({ kind: 'invalid', field: 'name' }, message)
}

/**
 * True if a name from an identity provider is exactly this one, except for the case of A to Z: other letters may have a look-alike lowercase (the Kelvin sign
 * becomes k) but belong to another mailbox.
 */
export const isSameMailbox = (name: string, vouched: string): boolean =>
  name === vouched.trim().replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase())
