/**
 * From the rows of a store to the immutable view that every request reads: keys by the hash of each secret, models by
 * slug with their targets. Built anew after each change of the configuration and swapped whole. Called by `server/` and
 * by commands. Pure.
 */
import type { Environment, Secret, Snapshot } from '../domain/snapshot.ts'
import type { Configuration, StoredKey } from './config-store.ts'
import { toModels } from './snapshot-models.ts'
import { toUpstreams } from './snapshot-upstreams.ts'

/** @param environment resolves `${NAME}` references. */
export function toSnapshot(rows: Configuration, environment: Environment): Snapshot {
  const upstreams = toUpstreams(rows.upstreams, environment)
  return {
    revision: rows.revision,
    secrets: new Map(rows.keys.flatMap(toSecrets)),
    teams: new Map(rows.teams.map(({ id, name, budget }) => [id, { id, name, budget }])),
    models: toModels(rows.models, rows.routes, upstreams),
    aliases: new Map(rows.aliases.map(({ alias, model }) => [alias, model])),
    upstreams,
  }
}

/** A key once for each of its secrets, by its hash. */
function toSecrets({ secrets, metadata: _, createdMs: __, ...key }: StoredKey): [string, Secret][] {
  return secrets.map(({ hash, lastFour, expiresMs }) => [hash, { key, lastFour, expiresMs }])
}
