/**
 * What the catalogue was: each state that an apply or a revert made is kept, the newest hundred of them, and any can be
 * brought back. Kept are the rows and never the text of a file, whose comments may hold what nobody should keep; rows have
 * credentials as references only.
 *
 * What others changed in between is kept, too, as a state of its own before the next apply or revert: none is ever lost to it.
 */
import { requireRevision, toRevision } from '../domain/changes.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { CatalogHistory, CatalogRows, CatalogVersion, CatalogWrite, KeptCatalog } from '../store/catalog-rows.ts'
import type { Actor, ConfigStore } from '../store/config-store.ts'
import type { Permit } from './apply.ts'
import { type Changes, type Counts, toChanges, toCounts } from './changes.ts'
import { toDetail } from './detail.ts'
import { isIdle, NO_ROWS, toCatalogSize, toRowsAfter, toStateWrite } from './states.ts'

/** How many states are kept. */
const MOST_KEPT = 100

/** The write, with what is kept of it; `version` is the number of the state that it makes. */
export function withVersions(
  rows: CatalogRows,
  write: CatalogWrite,
  { action, subject, actor, nowMs }: Actor & Pick<CatalogVersion, 'action' | 'subject'>,
  history: CatalogHistory,
): { version: number; write: CatalogWrite } {
  const newest = history.newest()
  const versions: KeptCatalog[] = []
  const keep = (kept: Pick<KeptCatalog, 'actor' | 'action' | 'subject' | 'rows'>, counts: Counts) => {
    const { unchanged: _, ...changed } = counts
    const number = (newest?.number ?? 0) + versions.length + 1
    versions.push({ ...kept, ...changed, number, atMs: nowMs })
  }
  const before = newest?.rows ?? NO_ROWS
  const meanwhile = toStateWrite(before, rows, nowMs)
  if (!isIdle(meanwhile)) {
    const what = newest ? `what was changed after ${newest.number}` : 'what there was before any was kept'
    const counts = toCounts(before, toChanges(before, meanwhile))
    keep({ actor, action: 'catalog.keep', subject: what, rows }, counts)
  }
  keep({ actor, action, subject, rows: toRowsAfter(rows, write) }, toCounts(rows, toChanges(rows, write)))
  const version = (newest?.number ?? 0) + versions.length
  return { version, write: { ...write, versions, oldestVersion: version - MOST_KEPT + 1 } }
}

/** Lists the states that are kept, oldest first. */
export const listVersions = (store: ConfigStore): Promise<CatalogVersion[]> => store.readVersions()

/** A kept state, and what it changed in the one kept before it; null where that is not kept any more. */
export interface ShownVersion {
  version: CatalogVersion
  told: Changes | null
}

/** Tells what a kept state changed. Throws `version_not_found`. */
export async function showVersion(store: ConfigStore, number: number): Promise<ShownVersion> {
  const [kept, before] = await Promise.all([store.readVersion(number), store.readVersion(number - 1)])
  if (!kept) throw notFound(number)
  const { rows, ...version } = kept
  const isFirst = number === 1
  if (!before && !isFirst) return { version, told: null }
  const from = before?.rows ?? NO_ROWS
  return { version, told: toChanges(from, toStateWrite(from, rows, kept.atMs)) }
}

export interface Reverted extends Counts, Changes {
  /** The number of the state that this made; null where nothing was to change. */
  version: number | null
}

/**
 * Makes the catalogue what it was after a version, whoever's rows they are, as a change that can be reverted itself. The file
 * that a server goes by stays as it is, and wins again once it is applied. Throws `version_not_found`.
 */
export function revertCatalog(store: ConfigStore, number: number, by: Actor, permit?: Permit): Promise<Reverted> {
  return store.changeCatalog<Reverted>(by, (rows, history) => {
    const wanted = history.find(number)
    if (!wanted) throw notFound(number)
    requireRevision(by, 'The catalog', rows, toCatalogSize(rows))
    const plan = planState(rows, wanted.rows, by.nowMs)
    permit?.(rows, plan.write)
    if (isIdle(plan.write)) return { value: { ...plan.told, version: null }, change: null }
    const record = { action: 'catalog.revert' as const, subject: `version ${number}` }
    const { version, write } = withVersions(rows, plan.write, { ...by, ...record }, history)
    const detail = { reverted_to: number, version, ...toDetail(plan.told) }
    return { value: { ...plan.told, version }, change: { ...record, detail, write } }
  })
}

/** Tells what `revertCatalog` would change. Throws `version_not_found`. */
export async function planRevert(
  store: ConfigStore,
  number: number,
  permit?: Permit,
): Promise<Reverted & { revision: string }> {
  const [rows, wanted] = await Promise.all([store.readCatalog(), store.readVersion(number)])
  if (!wanted) throw notFound(number)
  const plan = planState(rows, wanted.rows, 0)
  permit?.(rows, plan.write)
  return { ...plan.told, version: null, revision: toRevision(rows) }
}

function planState(rows: CatalogRows, wanted: CatalogRows, nowMs: number) {
  const write = toStateWrite(rows, wanted, nowMs)
  const told = toChanges(rows, write)
  return { write, told: { ...told, ...toCounts(rows, told) } }
}

const notFound = (number: number) =>
  new ServiceError(
    { kind: 'version_not_found', number },
    `There is no version ${number} of the catalogue on record, which keeps the newest ${MOST_KEPT}.`,
  )
