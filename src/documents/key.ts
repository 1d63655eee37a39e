/** A key under its columns' names, as `keys … --json` prints it and the admin API answers. */
import { toRevision } from '../domain/changes.ts'
import { toFields } from '../keys/fields.ts'
import type { ListedKey } from '../keys/service.ts'
import type { Standing } from '../keys/standing.ts'
import { toStandingFields } from './standing.ts'

/** @param names of those who may be its owner, by their ids. */
export function toKeyDocument(key: ListedKey, standing: Standing, names: ReadonlyMap<string, string>) {
  const all = toFields(key)
  const { name, ...fields } = all
  return {
    id: key.id,
    revision: toRevision(all),
    name,
    last_four: key.secrets.at(-1)?.lastFour ?? null,
    status: key.status,
    ...fields,
    team: key.team,
    owner_id: key.ownerId,
    owner: key.ownerId === null ? null : (names.get(key.ownerId) ?? null),
    hidden: key.hidden,
    ...toStandingFields(standing),
    last_used_ms: standing.lastUse?.atMs ?? null,
    last_model: standing.lastUse?.model ?? null,
    secrets: key.secrets.map(({ lastFour, createdMs, expiresMs }) => ({
      last_four: lastFour,
      created_ms: createdMs,
      expires_ms: expiresMs,
    })),
    created_ms: key.createdMs,
    revoked_ms: key.revokedMs,
  }
}

export type KeyDocument = ReturnType<typeof toKeyDocument>
