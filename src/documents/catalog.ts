/** Plans and versions of the catalogue, as `catalog … --json` prints them and the admin API answers. */

import type { Edited } from '../catalog/edit.ts'
import type { ShownVersion } from '../catalog/history.ts'
import type { CatalogPlan } from '../catalog/plan.ts'
import type { Origin } from '../domain/models.ts'
import type { CatalogVersion } from '../store/catalog-rows.ts'

/** @param origin whose the catalogue is that was planned. */
export function toPlanDocument(plan: CatalogPlan & { revision: string }, origin: Origin, warnings: readonly string[]) {
  const { revision, changes, adoptions, left, created, updated, deleted, adopted, unchanged } = plan
  const counts = { created, updated, deleted, adopted, unchanged }
  return { revision, origin, differs: differs(plan), ...counts, changes, adoptions, left, warnings }
}

/** Whether the database says something else than what was planned. */
export const differs = ({ changes, left }: Pick<CatalogPlan, 'changes' | 'left'>) => changes.length + left.length > 0

/** @param names of administrators and tokens, by their ids. */
export const toVersionDocument = ({ atMs, ...version }: CatalogVersion, names: ReadonlyMap<string, string>) => ({
  ...version,
  actor_name: names.get(version.actor) ?? null,
  at_ms: atMs,
})

/** What it changed is null where that is not known any more. */
export const toShownVersionDocument = ({ version, told }: ShownVersion, names: ReadonlyMap<string, string>) => ({
  ...toVersionDocument(version, names),
  ...(told ?? { changes: null, adoptions: null }),
})

/** What a change by hand would make, or has made. */
export const toEditDocument = <Made extends Edited>(edited: Made) => ({
  ...edited,
  differs: edited.changes.length + edited.adoptions.length > 0,
})
