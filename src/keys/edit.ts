/** Changes a key that is there: its id, what it has spent and its rates of the last minute stay. Called by `keys edit`. */
import { type Difference, requireRevision, toDifference } from '../domain/changes.ts'
import type { Actor, KeyStore } from '../store/config-store.ts'
import { toCeilings } from './ceilings.ts'
import { type KeyChanges, toFields, withChanges } from './fields.ts'
import { findKey, isLiving, requireFreeName, requireInSight, requireUnrevoked } from './find.ts'
import { checkOptions } from './rules.ts'
import { type ListedKey, toListed } from './service.ts'

export interface EditedKey {
  before: ListedKey
  key: ListedKey
  /** Null where the key was like that already: then nothing was written. */
  difference: Difference | null
}

/**
 * Changes the key that the text means (`find.ts`). One that has expired is in force again once it expires later. Throws `invalid`,
 * `key_not_found`, `key_ambiguous`, `key_revoked`, `team_not_found`, `key_exists` where it would be the second key in force of
 * its name, `revision_conflict`, and `key_hidden` for what may not be changed of such a key. What is said of a member's key by somebody
 * else becomes a ceiling (`ceilings.ts`).
 */
export function editKey(store: KeyStore, which: string, changes: KeyChanges, by: Actor): Promise<EditedKey> {
  return store.changeKeys<EditedKey>(by, ({ keys, teams }) => {
    const found = findKey(keys, which, by.nowMs)
    requireUnrevoked(found)
    requireRevision(by, `The key '${found.name}'`, toFields(found), toFields(found))
    const { name, team, allowedIps, expiresMs } = changes
    if ([name, team, allowedIps, expiresMs].some((change) => change !== undefined)) requireInSight(found)
    const changed = withChanges(found, changes, teams)
    const isOthers = found.ownerId !== null && !store.isOwn
    const key = isOthers ? { ...changed, ceilings: toCeilings(changed, changes) } : changed
    checkOptions({ ...changes, metadata: key.metadata })
    // Whoever has shared a name since before names were unique may go on with it.
    const isNewName = key.name !== found.name || !isLiving(found, by.nowMs)
    const others = keys.filter(({ id }) => id !== key.id)
    if (isNewName && isLiving(key, by.nowMs)) requireFreeName(others, key.name, by.nowMs)
    const difference = toDifference(toFields(found), toFields(key))
    const record = { action: 'keys.edit' as const, subject: key.id, detail: { name: key.name, ...difference } }
    return {
      value: { before: toListed(found, teams, by.nowMs), key: toListed(key, teams, by.nowMs), difference },
      change: difference === null ? null : { ...record, write: { keys: [key] } },
    }
  })
}
