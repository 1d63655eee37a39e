/** Catalog plans, versions, and changes in JSON, for the CLI and the admin API. */
import { Type } from '@sinclair/typebox'
import type { Applied as AppliedCatalog, Reverted, ShownVersion as VersionWithChanges } from '../catalog/apply.ts'
import { type Edited, toUnseenNote } from '../catalog/change.ts'
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
const planned = Type.Boolean({ description: 'True for a dry run: nothing was changed.' })
const Counts = { created: Count, updated: Count, deleted: Count, unchanged: Count }
const Named = Type.Object({ total: Count, names: Type.Array(Text) })
/** `keys`, `teams`: name the model exactly. `aliases`, `models`: stay without a model or route. `names`: the first five. */
const Effect = Type.Object(
  { keys: Named, teams: Named, aliases: Named, models: Named, requests: CountOrNull },
  { description: 'What loses the removed or disabled model or upstream, and its requests of the last 7 days.' },
)
const Change = Type.Object({
  action: wordOf(['create', 'update', 'delete'] as const),
  ...{ name: Text, origin, before: Fields, after: Fields },
  effect: Type.Optional(Effect),
})
const Changes = { changes: Type.Array(Change) }

/** `before`, from the layer `origin`, stays effective over the declared `after`. */
const Overridden = Type.Object({ name: Text, origin, before: Fields, after: Fields })
/** `kept`: entries that are no longer declared but were not pruned. */
const Staying = { overridden: Type.Array(Overridden), kept: Type.Array(Text) }

/** True if the database differs from the plan. */
export const differs = ({ changes, overridden, kept }: Pick<AppliedCatalog, 'changes' | 'overridden' | 'kept'>) =>
  changes.length + overridden.length + kept.length > 0

/** @param origin of the planned catalog */
export function toPlanDocument(plan: AppliedCatalog, origin: Origin, warnings: readonly string[]) {
  const { version: _, revision, unseen, ...told } = plan
  return { revision, origin, differs: differs(plan), ...told, warnings: [...warnings, ...unseen.map(toUnseenNote)] }
}

export const Plan = describes<ReturnType<typeof toPlanDocument>>()(
  Type.Object({
    ...{ revision: Revision, origin, differs: Flag },
    ...Counts,
    ...Changes,
    ...Staying,
    warnings: Type.Array(Text),
  }),
)

export function toAppliedDocument(
  { changes: _, revision: __, unseen: ___, ...applied }: AppliedCatalog,
  origin: Origin,
) {
  return { origin, ...applied }
}

export const Applied = describes<ReturnType<typeof toAppliedDocument>>()(
  Type.Object({ origin, ...Counts, version: CountOrNull, ...Staying }),
)

/** Only a plan has the revision it is based on. */
export function toRevertDocument({ revision, ...done }: Reverted, number: number, planned: boolean) {
  return { reverted_to: number, planned, ...done, ...(planned ? { revision } : {}) }
}

export const CatalogReverted = describes<ReturnType<typeof toRevertDocument>>()(
  Type.Object({
    ...{ reverted_to: Count, planned, version: CountOrNull },
    ...{ ...Counts, ...Changes },
    revision: Type.Optional(Revision),
  }),
)

export function toUndoDocument({ revision, ...done }: Reverted, number: number, planned: boolean) {
  return { undone: number, planned, ...done, ...(planned ? { revision } : {}) }
}

export const CatalogUndone = describes<ReturnType<typeof toUndoDocument>>()(
  Type.Object({
    ...{ undone: Count, planned, version: CountOrNull },
    ...{ ...Counts, ...Changes },
    revision: Type.Optional(Revision),
  }),
)

/** A manual change, applied or planned. */
export const toEditDocument = <Made extends Edited>(edited: Made) => ({
  ...edited,
  differs: edited.changes.length > 0,
})

const Edit = describes<ReturnType<typeof toEditDocument>>()(
  Type.Object({ ...Counts, ...Changes, version: CountOrNull, differs: Flag }),
)
/**
 * `overridden`: models whose prices a file or an administrator has set. `unpriced`, `free`: model IDs. `left_out`: number of invalid facts.
 */
export const RefreshedCatalog = Type.Object({
  ...{ planned, source: Text },
  ...Edit.properties,
  ...{ overridden: Type.Array(Overridden), unpriced: Type.Array(Text), free: Type.Array(Text), left_out: Count },
})
export const EditedModel = Type.Object({ planned, ...Edit.properties, model: WholeModel })
/** `is_priced` is false if no price is known: then the model is disabled. `model` is null for a dry run. */
export const CreatedModel = Type.Object({
  ...{ planned, ...Edit.properties, is_priced: Flag, notes: Type.Array(Text) },
  model: orNull(WholeModel),
})
export const EditedUpstream = Type.Object({ planned, ...Edit.properties, upstream: orNull(Upstream) })
/** Model IDs. `fresh`: new; `unpriced`: new, but disabled until priced; `further`: existing, with a new route. */
export const AddedModels = Type.Object({
  ...EditedUpstream.properties,
  ...{ fresh: Type.Array(Text), unpriced: Type.Array(Text), further: Type.Array(Text), notes: Type.Array(Text) },
})
/** `left_out`: number of models that neither chat nor have another endpoint and a known price. */
export const FoundModels = Type.Object({ ...AddedModels.properties, left_out: Count })

/** @param names of users and tokens by ID */
export const toVersionDocument = ({ atMs, ...version }: CatalogVersion, names: ReadonlyMap<string, string>) => ({
  ...version,
  actor_name: names.get(version.actor) ?? null,
  at_ms: atMs,
})

export const Version = describes<ReturnType<typeof toVersionDocument>>()(
  Type.Object({
    ...{ number: Count, actor: Text, actor_name: TextOrNull, action: Text, subject: Text },
    ...{ created: Count, updated: Count, deleted: Count, at_ms: Time },
  }),
)

/** `changes` is null if no longer known. */
export const toShownVersionDocument = (
  { version, changes }: VersionWithChanges,
  names: ReadonlyMap<string, string>,
) => ({
  ...toVersionDocument(version, names),
  changes,
})

export const ShownVersion = describes<ReturnType<typeof toShownVersionDocument>>()(
  Type.Object({ ...Version.properties, changes: orNull(Type.Array(Change)) }),
)

export const ExportedCatalog = Type.Object({
  yaml: Text,
  document: Fields,
  left_out: Type.Array(Type.Unknown()),
  sealed: Type.Array(Text),
})
