/**
 * Carries a catalogue into the tables: reads, plans and writes in one immediate transaction, with its audit row and the
 * bumped revision that makes a running server look. Nothing to change leaves no trace. Called by `serve` and by
 * `catalog apply`.
 */
import { and, eq } from 'drizzle-orm'
import type { Origin } from '../domain/settings.ts'
import type { Store } from '../store/sqlite/open.ts'
import { changeConfig, type Transaction } from '../store/sqlite/revision.ts'
import { aliases, models, prices, routes, settings, upstreams } from '../store/sqlite/schema.ts'
import type { Catalog } from './catalog.ts'
import { hasChanges, type Plan, planCatalog, tablesOf } from './plan.ts'
import type { CatalogRows } from './rows.ts'

export interface ApplyOptions {
  origin: Origin
  /** Who asks, for the audit row: `cli`, `server`. */
  actor: string
  /** Which catalogue, for the audit row: its path, or `built-in`. */
  subject: string
  /** `toDigest` of its source, kept so that a start can tell that nothing has to be applied. */
  digest: string
  nowMs: number
}

/** Counts over all rows of upstreams, models, routes and aliases. */
export interface ApplySummary {
  created: number
  updated: number
  deleted: number
  unchanged: number
  conflicts: string[]
}

/** Applies a catalogue; never fails for a conflict, which the summary names instead. */
export function applyCatalog(store: Store, catalog: Catalog, options: ApplyOptions): ApplySummary {
  const { origin, actor, subject, nowMs } = options
  const mintId = () => Bun.randomUUIDv7().replaceAll('-', '')
  const plan = (tx: Transaction | Store) => planCatalog(readRows(tx), catalog, { origin, nowMs, mintId })

  const preview = plan(store)
  if (!hasChanges(preview)) {
    writeDigest(store, options)
    return toSummary(preview)
  }
  const { created, updated, deleted, conflicts } = toSummary(preview)
  const detail = { origin, created, updated, deleted, conflicts }
  return changeConfig(store, { actor, action: 'catalog.apply', subject, detail, nowMs }, (tx) => {
    // Planned again: another process may have written since the preview.
    const current = plan(tx)
    writePlan(tx, current)
    writeDigest(tx, options)
    return toSummary(current)
  })
}

/** Names what a catalogue says, and the program that read it: another version may know other facts. */
export function toDigest(source: { origin: string; text: string }, version: string): string {
  return new Bun.CryptoHasher('sha256').update(`${version}\n${source.origin}\n${source.text}`).digest('hex')
}

/** The setting that holds the digest of the catalogue that was applied last. */
export const APPLIED_DIGEST = 'catalog_digest'

function writeDigest(tx: Transaction | Store, { digest, nowMs }: ApplyOptions): void {
  const set = { value: digest, updatedMs: nowMs }
  tx.insert(settings)
    .values({ key: APPLIED_DIGEST, ...set })
    .onConflictDoUpdate({ target: settings.key, set })
    .run()
}

/** Whether the tables have anything of an origin: `serve` applies the built-in catalogue only for want of a file's. */
export function hasRowsOf(store: Store, origin: Origin): boolean {
  return [upstreams, models, aliases].some(
    (table) =>
      store.select({ origin: table.origin }).from(table).where(eq(table.origin, origin)).limit(1).get() !== undefined,
  )
}

/** Reads the rows that a catalogue may change. */
export function readRows(tx: Transaction | Store): CatalogRows {
  return {
    upstreams: tx.select().from(upstreams).all(),
    models: tx.select().from(models).all(),
    routes: tx.select().from(routes).all(),
    aliases: tx.select().from(aliases).all(),
  }
}

function toSummary(plan: Plan): ApplySummary {
  const tables = tablesOf(plan)
  const sum = (countOf: (table: (typeof tables)[number]) => number) =>
    tables.reduce((total, table) => total + countOf(table), 0)
  return {
    created: sum((table) => table.create.length),
    updated: sum((table) => table.update.length),
    deleted: sum((table) => table.delete.length),
    unchanged: sum((table) => table.unchanged),
    conflicts: plan.conflicts,
  }
}

/** Parents before children, and children deleted before parents: routes refer to models and upstreams. */
function writePlan(tx: Transaction, plan: Plan): void {
  for (const price of plan.prices) tx.insert(prices).values(price).run()
  for (const row of plan.routes.delete) tx.delete(routes).where(routeOf(row)).run()
  for (const row of plan.aliases.delete) tx.delete(aliases).where(eq(aliases.alias, row.alias)).run()
  for (const row of plan.models.delete) tx.delete(models).where(eq(models.slug, row.slug)).run()
  for (const row of plan.upstreams.delete) tx.delete(upstreams).where(eq(upstreams.id, row.id)).run()
  for (const row of plan.upstreams.create) tx.insert(upstreams).values(row).run()
  for (const row of plan.upstreams.update) tx.update(upstreams).set(row).where(eq(upstreams.id, row.id)).run()
  for (const row of plan.models.create) tx.insert(models).values(row).run()
  for (const row of plan.models.update) tx.update(models).set(row).where(eq(models.slug, row.slug)).run()
  for (const row of plan.routes.create) tx.insert(routes).values(row).run()
  for (const row of plan.routes.update) tx.update(routes).set(row).where(routeOf(row)).run()
  for (const row of plan.aliases.create) tx.insert(aliases).values(row).run()
  for (const row of plan.aliases.update) tx.update(aliases).set(row).where(eq(aliases.alias, row.alias)).run()
}

const routeOf = (row: { model: string; upstream: string; upstreamModel: string }) =>
  and(eq(routes.model, row.model), eq(routes.upstream, row.upstream), eq(routes.upstreamModel, row.upstreamModel))
