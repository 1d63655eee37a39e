/**
 * Carries a catalogue into a store: plans and writes in one transaction, with its audit row and the new revision that
 * makes a running server look. Nothing to change leaves no trace. Called by `serve` and by `catalog apply`.
 */
import { mintId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Origin } from '../domain/settings.ts'
import type { Actor, ConfigStore, Settings } from '../store/config-store.ts'
import type { Catalog } from './complete.ts'
import { type Counts, planCatalog } from './plan.ts'
import type { CatalogSource } from './source.ts'

export interface ApplyOptions extends Actor {
  origin: Origin
  /** Which catalogue, for the audit row: its path, or `built-in`. */
  subject: string
  /** `toDigest` of its source, kept so that a start can tell that nothing has to be applied. */
  digest: string
}

export interface ApplySummary extends Counts {
  conflicts: string[]
}

/**
 * Applies a catalogue; never fails for a conflict, which the summary names instead. Throws `catalog_missing` for the
 * built-in one where a file was applied before: it stands in for a file, and never comes back beside what one has declared.
 */
export function applyCatalog(store: ConfigStore, catalog: Catalog, options: ApplyOptions): Promise<ApplySummary> {
  const { origin, subject, digest, nowMs } = options
  return store.changeCatalog(options, (rows) => {
    const isFromFile = [rows.upstreams, rows.models, rows.aliases].some((table) =>
      table.some((row) => row.origin === 'file'),
    )
    if (origin === 'builtin' && isFromFile)
      throw new ServiceError(
        { kind: 'catalog_missing' },
        'There is no catalog.yaml in the data folder or here, and this database was set up from one.',
      )
    const { write, conflicts, ...counts } = planCatalog(rows, catalog, { origin, nowMs, mintId: () => mintId(nowMs) })
    const { created, updated, deleted } = counts
    const detail = { origin, created, updated, deleted, conflicts }
    return {
      value: { ...counts, conflicts },
      settings: { [APPLIED_DIGEST]: digest },
      change: created + updated + deleted === 0 ? null : { action: 'catalog.apply', subject, detail, write },
    }
  })
}

/** How the catalogue of a source is applied by this version of the program. */
export const toApplyOptions = (source: CatalogSource, version: string, by: Actor): ApplyOptions => ({
  ...by,
  origin: source.origin,
  subject: source.path ?? 'built-in',
  digest: toDigest(source, version),
})

/** Names what a catalogue says, and the program that read it: another version may know other facts. */
export function toDigest(source: Pick<CatalogSource, 'origin' | 'text'>, version: string): string {
  return new Bun.CryptoHasher('sha256').update(`${version}\n${source.origin}\n${source.text}`).digest('hex')
}

/** The setting that holds the digest of the catalogue that was applied last. */
const APPLIED_DIGEST = 'catalog_digest'

/** Whether a catalogue of this digest is the one that was applied last. */
export const isApplied = (settings: Settings, digest: string) => settings[APPLIED_DIGEST] === digest
