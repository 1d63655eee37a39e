/**
 * The states of the catalogue that are kept: each is all of its rows as one packed text, a few kilobytes for hundreds of models.
 * Used by `config-store.ts`, in its transactions.
 */
import { asc, desc, eq, getTableColumns, lt } from 'drizzle-orm'
import type { CatalogHistory, CatalogRows, CatalogVersion, CatalogWrite, KeptCatalog } from '../catalog-rows.ts'
import type { Transaction } from './config-store.ts'
import { catalogVersions } from './schema.ts'

const { rows: _, ...COLUMNS } = getTableColumns(catalogVersions)

export const readVersions = (tx: Transaction): CatalogVersion[] =>
  tx.select(COLUMNS).from(catalogVersions).orderBy(asc(catalogVersions.number)).all()

export const toHistory = (tx: Transaction): CatalogHistory => ({
  newest: () => unpack(tx.select().from(catalogVersions).orderBy(desc(catalogVersions.number)).limit(1).get()),
  find: (number) => unpack(tx.select().from(catalogVersions).where(eq(catalogVersions.number, number)).get()),
})

export function writeVersions(tx: Transaction, { versions = [], oldestVersion }: CatalogWrite): void {
  for (const { rows, ...version } of versions) {
    const packed = Bun.zstdCompressSync(JSON.stringify(rows))
    tx.insert(catalogVersions)
      .values({ ...version, rows: packed })
      .run()
  }
  if (oldestVersion !== undefined) tx.delete(catalogVersions).where(lt(catalogVersions.number, oldestVersion)).run()
}

function unpack(kept: typeof catalogVersions.$inferSelect | undefined): KeptCatalog | null {
  if (!kept) return null
  return { ...kept, rows: toComplete(JSON.parse(Bun.zstdDecompressSync(kept.rows).toString())) }
}

/** One that was kept before routes had options, or it was on record what a list had said. */
const toComplete = (rows: CatalogRows): CatalogRows => ({
  ...rows,
  models: rows.models.map((model) => ({ ...model, fromList: model.fromList ?? [] })),
  routes: rows.routes.map((route) => ({ ...route, options: route.options ?? {}, fromList: route.fromList ?? [] })),
})
