/**
 * The key by which the playground of somebody who signs in is metered: limits, budgets and the ledger know keys alone. It has no
 * secret, so that nobody can bring it; there is one for each of them, for ever, which follows its owner. Called by `admin/playground.ts`.
 */
import { toDifference } from '../domain/changes.ts'
import { mintId } from '../domain/id.ts'
import { DEFAULTS, toFields } from '../keys/fields.ts'
import type { Actor, StoredKey } from '../store/config-store.ts'
import type { IdentityStore, StoredAdmin } from '../store/identity-store.ts'

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
  ...DEFAULTS,
  ...{ id: mintId(nowMs), name: `playground of ${name}`, teamId, ownerId: id, hidden: true, createdMs: nowMs },
  secrets: [],
})

const toAll = (key: StoredKey) => ({ ...toFields(key), hidden: key.hidden, revoked_ms: key.revokedMs })
