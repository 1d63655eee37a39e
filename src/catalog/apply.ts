/**
 * Carries a catalogue into a store: plans and writes in one transaction, with its audit row, the state that is kept of it, and
 * the new revision that makes a running server look. Nothing to change leaves no trace. Called by `serve` and by the commands.
 */

import { requireRevision, toRevision } from '../domain/changes.ts'
import { mintTag } from '../domain/id.ts'
import type { Origin } from '../domain/models.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { CatalogRows, CatalogWrite } from '../store/catalog-rows.ts'
import type { Actor, ConfigStore, Settings } from '../store/config-store.ts'
import type { Counts } from './changes.ts'
import type { Catalog } from './complete.ts'
import { namesOfDeclared } from './declared-rows.ts'
import { toDetail } from './detail.ts'
import { withVersions } from './history.ts'
import { namesOfManaged } from './managed-rows.ts'
import { type CatalogPlan, type Left, planCatalog } from './plan.ts'
import type { CatalogSource } from './source.ts'
import { isIdle, toCatalogSize } from './states.ts'

/** What a plain apply leaves alone, and is to be done all the same. */
export interface ApplyWishes {
  /** Whether rows that the catalogue's origin no longer declares are deleted; `managed`: those alone whose servers are started here. */
  prune?: boolean | 'managed'
  /** Whether it wins over an administrator: rows that both have become its own. */
  takeOver?: boolean
}

/** Looks at what would be written before it is. Throws a ServiceError where whoever asks may not do that. */
export type Permit = (current: CatalogRows, write: CatalogWrite) => void

export interface ApplyOptions extends Actor, ApplyWishes {
  origin: Origin
  /** Other catalogues of this origin: what they declare stays. */
  beside?: readonly Catalog[]
  permit?: Permit
  /** Which catalogue, for the audit row: its path, or `built-in`. */
  subject: string
  /** `toDigest` of its source, kept so that a start can tell that nothing has to be applied. */
  digest: string
}

export interface ApplySummary extends Counts {
  /** The number of the state that this made; null where nothing was to change. */
  version: number | null
  /** One sentence for each declaration that a stronger origin overrules. */
  conflicts: string[]
  /** The rows that are no longer declared, and were not pruned. */
  kept: string[]
}

/**
 * Applies a catalogue; never fails for a conflict, which the summary names instead. Throws `catalog_missing` for the
 * built-in one where a file was applied before: it stands in for a file, and never comes back beside what one has declared.
 */
export function applyCatalog(store: ConfigStore, catalog: Catalog, options: ApplyOptions): Promise<ApplySummary> {
  const { origin, digest } = options
  return store.changeCatalog<ApplySummary>(options, (rows, history) => {
    requireRevision(options, 'The catalog', rows, toCatalogSize(rows))
    const plan = planFor(rows, catalog, options)
    const { created, updated, deleted, adopted, unchanged, left } = plan
    const kept = left.filter(({ why }) => why === 'undeclared').map(({ name }) => name)
    const conflicts = left.filter(({ why }) => why !== 'undeclared').map((one) => toConflict(one, origin))
    const summary = { created, updated, deleted, adopted, unchanged, conflicts, kept }
    // What was kept is for the next start to look at.
    const settings = { [APPLIED_DIGEST]: kept.length === 0 ? digest : '' }
    if (isIdle(plan.write)) return { value: { ...summary, version: null }, settings, change: null }
    const record = { action: 'catalog.apply' as const, subject: options.subject }
    const { version, write } = withVersions(rows, plan.write, { ...options, ...record }, history)
    const detail = { origin, version, ...toDetail(plan), conflicts: conflicts.length, kept: kept.length }
    return { value: { ...summary, version }, settings, change: { ...record, detail, write } }
  })
}

/** Tells what `applyCatalog` would do, with the revision of the catalog that it would do it to, and throws where it would. */
export async function planApply(
  store: ConfigStore,
  catalog: Catalog,
  options: Omit<ApplyOptions, keyof Actor | 'subject' | 'digest'>,
): Promise<CatalogPlan & { revision: string }> {
  const rows = await store.readCatalog()
  return { ...planFor(rows, catalog, { ...options, nowMs: 0 }), revision: toRevision(rows) }
}

function planFor(
  rows: CatalogRows,
  catalog: Catalog,
  options: Omit<ApplyOptions, 'actor' | 'subject' | 'digest'>,
): CatalogPlan {
  const { origin, prune = false, takeOver = false, permit, nowMs } = options
  const isFromFile = [rows.upstreams, rows.models, rows.aliases].some((table) =>
    table.some((row) => row.origin === 'file'),
  )
  if (origin === 'builtin' && isFromFile)
    throw new ServiceError(
      { kind: 'catalog_missing' },
      'There is no catalog.yaml in the data folder or here, and this database was set up from one.',
    )
  const pruned = prune === 'managed' ? namesOfManaged(rows) : prune
  const beside = new Set((options.beside ?? []).flatMap(namesOfDeclared))
  const plan = planCatalog(rows, catalog, { origin, prune: pruned, takeOver, beside, nowMs, mintId: mintTag })
  permit?.(rows, plan.write)
  return plan
}

function toConflict({ name, origin, why, by }: Left, applied: Origin): string {
  return why === 'used'
    ? `${name}: no longer declared, and kept for ${by}, which is not the ${applied}'s.`
    : `${name}: left as it is, because its ${origin} settings win over the ${applied}'s.`
}

/** How the catalogue of a source is applied by this version of the program. */
export const toApplyOptions = (source: CatalogSource, version: string, by: Actor & ApplyWishes): ApplyOptions => ({
  ...by,
  origin: source.origin,
  subject: source.path ?? 'built-in',
  digest: toDigest(source, version),
})

/** Names what a catalogue says, and the program that read it: another version may know other facts. */
export function toDigest(
  { origin, text, modelFiles }: Pick<CatalogSource, 'origin' | 'text' | 'modelFiles'>,
  version: string,
): string {
  const texts = [text ?? '', ...modelFiles.flatMap((file) => [file.name, file.text])]
  return new Bun.CryptoHasher('sha256').update(`${version}\n${origin}\n${texts.join('\n')}`).digest('hex')
}

/** The setting that holds the digest of the catalogue that was applied last. */
export const APPLIED_DIGEST = 'catalog_digest'

/** Whether a catalogue of this digest is the one that was applied last. */
export const isApplied = (settings: Settings, digest: string) => settings[APPLIED_DIGEST] === digest
