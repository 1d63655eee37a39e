/** Plans and versions of the catalog, and changes of it, as `catalog … --json` prints them and the admin API answers. */
import { Type } from '@sinclair/typebox'
import type { ApplySummary } from '../catalog/apply.ts'
import type { Edited } from '../catalog/edit.ts'
import type { Reverted, ShownVersion as VersionWithChanges } from '../catalog/history.ts'
import type { CatalogPlan } from '../catalog/plan.ts'
import { ORIGINS, type Origin } from '../domain/models.ts'
import type { CatalogVersion } from '../store/catalog-rows.ts'
import {
  Count,
  CountOrNull,
  describes,
  Fields,
  Flag,
  orNull,
  Revision,
  Text,
  TextOrNull,
  Time,
  wordOf,
} from './fields.ts'
import { WholeModel } from './model.ts'
import { Upstream } from './upstream.ts'

const origin = wordOf(ORIGINS)
const planned = Type.Boolean({ description: 'Whether nothing was changed: it was asked for as a plan.' })
const Counts = { created: Count, updated: Count, deleted: Count, adopted: Count, unchanged: Count }
const Change = Type.Object({
  action: wordOf(['create', 'update', 'delete'] as const),
  ...{ name: Text, origin, before: Fields, after: Fields },
})
const Adoption = Type.Object({ name: Text, before: origin, after: origin })
const Changes = { changes: Type.Array(Change), adoptions: Type.Array(Adoption) }

const Left = Type.Object({
  name: Text,
  origin,
  why: wordOf(['stronger', 'undeclared', 'used'] as const),
  by: Type.Optional(Text),
  before: Fields,
  after: Fields,
})

/** Whether the database says something else than what was planned. */
export const differs = ({ changes, left }: Pick<CatalogPlan, 'changes' | 'left'>) => changes.length + left.length > 0

/** @param origin whose the catalog is that was planned. */
export function toPlanDocument(plan: CatalogPlan & { revision: string }, origin: Origin, warnings: readonly string[]) {
  const { revision, changes, adoptions, left, created, updated, deleted, adopted, unchanged } = plan
  const counts = { created, updated, deleted, adopted, unchanged }
  return { revision, origin, differs: differs(plan), ...counts, changes, adoptions, left, warnings }
}

export const Plan = describes<ReturnType<typeof toPlanDocument>>()(
  Type.Object({
    ...{ revision: Revision, origin, differs: Flag },
    ...Counts,
    ...Changes,
    ...{ left: Type.Array(Left), warnings: Type.Array(Text) },
  }),
)

const Summary = describes<ApplySummary>()(
  Type.Object({ ...Counts, version: CountOrNull, conflicts: Type.Array(Text), kept: Type.Array(Text) }),
)
export const Applied = Type.Object({ origin, ...Summary.properties })

const Done = describes<Omit<Reverted, 'version'>>()(Type.Object({ ...Counts, ...Changes }))
export const CatalogReverted = Type.Object({
  reverted_to: Count,
  planned,
  ...Done.properties,
  version: Type.Optional(CountOrNull),
  revision: Type.Optional(Revision),
})

/** What a change by hand would make, or has made. */
export const toEditDocument = <Made extends Edited>(edited: Made) => ({
  ...edited,
  differs: edited.changes.length + edited.adoptions.length > 0,
})

const Edit = describes<ReturnType<typeof toEditDocument>>()(
  Type.Object({ ...Counts, ...Changes, version: CountOrNull, differs: Flag }),
)
/**
 * `left`: models whose prices are a file's or an administrator's, and differ. `unpriced`, `free`: slugs, the latter of what costs nothing
 * from now on. `left_out`: how many facts cannot be.
 */
export const RefreshedCatalog = Type.Object({
  ...{ planned, source: Text },
  ...Edit.properties,
  ...{ left: Type.Array(Left), unpriced: Type.Array(Text), free: Type.Array(Text), left_out: Count },
})
export const EditedModel = Type.Object({ planned, ...Edit.properties, model: WholeModel })
export const EditedUpstream = Type.Object({ planned, ...Edit.properties, upstream: orNull(Upstream) })
/**
 * Slugs of models. `fresh`: that are new; `unpriced`: of those, what is disabled for want of a price; `further`: that were there, and
 * get a further route.
 * `left_out`: how many do not chat.
 */
export const FoundModels = Type.Object({
  ...EditedUpstream.properties,
  ...{ fresh: Type.Array(Text), unpriced: Type.Array(Text), further: Type.Array(Text) },
  ...{ left_out: Count, notes: Type.Array(Text) },
})

/** @param names of administrators and tokens, by their ids. */
export const toVersionDocument = ({ atMs, ...version }: CatalogVersion, names: ReadonlyMap<string, string>) => ({
  ...version,
  actor_name: names.get(version.actor) ?? null,
  at_ms: atMs,
})

export const Version = describes<ReturnType<typeof toVersionDocument>>()(
  Type.Object({
    ...{ number: Count, actor: Text, actor_name: TextOrNull, action: Text, subject: Text },
    ...{ created: Count, updated: Count, deleted: Count, adopted: Count, at_ms: Time },
  }),
)

/** What it changed is null where that is not known any more. */
export const toShownVersionDocument = ({ version, told }: VersionWithChanges, names: ReadonlyMap<string, string>) => ({
  ...toVersionDocument(version, names),
  ...(told ?? { changes: null, adoptions: null }),
})

export const ShownVersion = describes<ReturnType<typeof toShownVersionDocument>>()(
  Type.Object({
    ...Version.properties,
    changes: orNull(Type.Array(Change)),
    adoptions: orNull(Type.Array(Adoption)),
  }),
)

export const ExportedCatalog = Type.Object({
  yaml: Text,
  document: Fields,
  left_out: Type.Array(Type.Unknown()),
  sealed: Type.Array(Text),
})
