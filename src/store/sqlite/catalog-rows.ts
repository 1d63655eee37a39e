/** The catalogue's rows: read and written whole, in the transactions of `config-store.ts`. */
import { and, eq, isNotNull, sql } from 'drizzle-orm'
import type { CatalogRows, CatalogWrite, RouteRow, SealedCredential, UpstreamRow } from '../catalog-rows.ts'
import { isSamePlace } from '../place.ts'
import { CLEARED } from '../vault.ts'
import { writeVersions } from './catalog-versions.ts'
import type { Transaction } from './config-store.ts'
import { aliases, models, prices, routes, upstreams } from './schema.ts'

export function readCatalog(tx: Transaction): CatalogRows {
  return {
    upstreams: tx
      .select()
      .from(upstreams)
      .orderBy(sql`rowid`)
      .all()
      .map(({ apiKeySealed: _, ...row }) => row),
    models: tx.select().from(models).orderBy(sql`rowid`).all(),
    routes: tx.select().from(routes).orderBy(sql`rowid`).all(),
    aliases: tx.select().from(aliases).orderBy(sql`rowid`).all(),
  }
}

export function readSealed(tx: Transaction): SealedCredential[] {
  const { id, dialect, baseUrl, options, apiKeySealed } = upstreams
  const rows = tx
    .select({ id, dialect, baseUrl, options, sealed: apiKeySealed })
    .from(upstreams)
    .where(isNotNull(apiKeySealed))
    .all()
  return rows.flatMap(({ sealed, ...row }) => (sealed === null ? [] : { ...row, sealed }))
}

/** Parents before children, and children deleted before parents: routes refer to models and upstreams. */
export function writeCatalog(tx: Transaction, write: CatalogWrite): void {
  for (const rows of toGroups(write.prices)) tx.insert(prices).values(rows).run()
  for (const row of write.routes.delete) tx.delete(routes).where(isRoute(row)).run()
  for (const row of write.aliases.delete) tx.delete(aliases).where(eq(aliases.alias, row.alias)).run()
  for (const row of write.models.delete) tx.delete(models).where(eq(models.slug, row.slug)).run()
  for (const row of write.upstreams.delete) tx.delete(upstreams).where(eq(upstreams.id, row.id)).run()
  for (const rows of toGroups(write.upstreams.create)) tx.insert(upstreams).values(rows).run()
  for (const row of write.upstreams.update)
    tx.update(upstreams)
      .set({ ...row, apiKeySealed: toKept(tx, row) })
      .where(eq(upstreams.id, row.id))
      .run()
  for (const { id, sealed } of write.credentials ?? [])
    tx.update(upstreams).set({ apiKeySealed: sealed }).where(eq(upstreams.id, id)).run()
  for (const rows of toGroups(write.models.create)) tx.insert(models).values(rows).run()
  for (const row of write.models.update) tx.update(models).set(row).where(eq(models.slug, row.slug)).run()
  for (const rows of toGroups(write.routes.create)) tx.insert(routes).values(rows).run()
  for (const row of write.routes.update) tx.update(routes).set(row).where(isRoute(row)).run()
  for (const rows of toGroups(write.aliases.create)) tx.insert(aliases).values(rows).run()
  for (const row of write.aliases.update) tx.update(aliases).set(row).where(eq(aliases.alias, row.alias)).run()
  writeVersions(tx, write)
}

/** What becomes of a sealed credential as its row becomes this one. */
function toKept(tx: Transaction, row: UpstreamRow): string | null {
  const before = tx.select().from(upstreams).where(eq(upstreams.id, row.id)).get()
  if (!before || before.apiKeySealed === null || row.apiKeyRef !== null) return null
  return isSamePlace(before, row) ? before.apiKeySealed : CLEARED
}

/** How many rows a statement makes: one for each would have each compiled. */
const GROUP = 100

const toGroups = <Row>(rows: readonly Row[]): Row[][] =>
  Array.from({ length: Math.ceil(rows.length / GROUP) }, (_, at) => rows.slice(at * GROUP, (at + 1) * GROUP))

const isRoute = (row: RouteRow) =>
  and(eq(routes.model, row.model), eq(routes.upstream, row.upstream), eq(routes.upstreamModel, row.upstreamModel))
