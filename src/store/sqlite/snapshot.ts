/**
 * The immutable in-memory view of the configuration that every request reads: keys by hash, models by slug, and for
 * each model its targets. Built anew after each change of `settings.config_revision` and swapped whole, so no request
 * ever sees half a change, and no request ever waits for the disk to learn who may call what.
 */
import { eq, sql } from 'drizzle-orm'
import type { Environment, Snapshot } from '../../domain/snapshot.ts'
import type { Store } from './open.ts'
import { aliases, keyModels, keySecrets, keys, models, routes, settings, teams, upstreams } from './schema.ts'
import { toSecrets, toTeams } from './snapshot-keys.ts'
import { toModels } from './snapshot-models.ts'
import { toUpstreams } from './snapshot-upstreams.ts'

export { toVariable } from './snapshot-upstreams.ts'

/** Reads the whole configuration in one transaction. `environment` resolves `${NAME}` references. */
export function loadSnapshot(store: Store, environment: Environment): Snapshot {
  return store.transaction((tx) => {
    const revision = tx.select().from(settings).where(eq(settings.key, 'config_revision')).get()
    const places = toUpstreams(tx.select().from(upstreams).all(), environment)
    // By age, so that the same tables give the same order, whatever an index would make of it.
    const routeRows = tx.select().from(routes).orderBy(sql`rowid`).all()
    const aliasRows = tx.select().from(aliases).all()
    return {
      revision: Number(revision?.value ?? 0),
      secrets: toSecrets(
        tx.select().from(keys).all(),
        tx.select().from(keySecrets).all(),
        tx.select().from(keyModels).all(),
      ),
      teams: toTeams(tx.select().from(teams).all()),
      models: toModels(tx.select().from(models).all(), routeRows, places),
      aliases: new Map(aliasRows.map((row) => [row.alias, row.model])),
      upstreams: places,
    }
  })
}
