/** Catalog tables. */
import { and, asc, desc, eq, getTableColumns, lt, sql } from 'drizzle-orm'
import { renameSettings } from '../../domain/dialects.ts'
import {
  type CatalogLayers,
  type EntryOf,
  isWhole,
  KIND_NAMES,
  type Kind,
  mapKinds,
  mergeLayers,
  NAMES,
  toKey,
  withLaterFields,
} from '../catalog-layers.ts'
import type {
  CatalogHistory,
  CatalogRows,
  CatalogVersion,
  CatalogWrite,
  KeptCatalog,
  SealedCredential,
  UpstreamRow,
} from '../catalog-rows.ts'
import type { CatalogChanges, CatalogEdit, EntryChanges } from '../config-entry.ts'
import { isSameCredentialBinding } from '../credential-binding.ts'
import { CLEARED } from '../vault.ts'
import { catalogEntries, catalogVersions, prices, upstreamCredentials } from './schema.ts'
import type { Transaction } from './tables.ts'

export const readLayers = (tx: Transaction): CatalogLayers =>
  mapKinds(<K extends Kind>(kind: K): EntryOf<K>[] =>
    tx
      .select({ entry: sql<EntryOf<K>>`${catalogEntries.fields}`.mapWith(JSON.parse) })
      .from(catalogEntries)
      .where(eq(catalogEntries.kind, kind))
      .orderBy(sql`rowid`)
      .all()
      .map(({ entry }) => (isWhole(kind, entry) ? withLaterFields(kind, entry) : entry)),
  )

export const readCatalog = (tx: Transaction): CatalogRows => mergeLayers(readLayers(tx))

export function readSealed(tx: Transaction, upstreams: readonly UpstreamRow[]): SealedCredential[] {
  const { upstream, number } = upstreamCredentials
  const rows = new Map(upstreams.map((row) => [row.id, row]))
  return tx
    .select()
    .from(upstreamCredentials)
    .orderBy(upstream, number)
    .all()
    .flatMap(({ upstream: of, number, sealed }) => {
      const row = rows.get(of)
      return row ? { id: row.id, dialect: row.dialect, baseUrl: row.baseUrl, options: row.options, number, sealed } : []
    })
}

/** @param layers current layers, from which `write` was decided. */
export function toCatalogEdit(
  tx: Transaction,
  layers: CatalogLayers,
  { layers: after, versions, credentials = [], ...write }: CatalogWrite,
): CatalogEdit {
  return {
    ...write,
    ...(after && { entries: toChangedEntries(layers, after) }),
    credentials: after
      ? [...findLost(tx, mergeLayers(layers).upstreams, mergeLayers(after).upstreams), ...credentials]
      : credentials,
    ...(versions && {
      versions: versions.map(({ layers: kept, ...version }) => ({
        ...version,
        layers: kept === layers ? 'before' : kept === after ? 'after' : kept,
      })),
    }),
  }
}

function toChangedEntries(before: CatalogLayers, after: CatalogLayers): CatalogChanges {
  const of = <K extends Kind>(kind: K) => toEntryChanges(kind, before[kind], after[kind])
  return { upstreams: of('upstreams'), models: of('models'), routes: of('routes'), aliases: of('aliases') }
}

function toEntryChanges<K extends Kind>(
  kind: K,
  before: readonly EntryOf<K>[],
  after: readonly EntryOf<K>[],
): EntryChanges<K> {
  const held = new Map<string, EntryOf<K>>(before.map((entry) => [toKey(kind, entry), entry]))
  const put = after.filter((entry) => {
    const was = held.get(toKey(kind, entry))
    held.delete(toKey(kind, entry))
    return was !== entry && !Bun.deepEquals(was, entry)
  })
  return { put, remove: [...held.values()].map((entry) => ({ name: NAMES[kind](entry), origin: entry.origin })) }
}

/** Credentials stay while the upstream has no references and its binding is unchanged. Others must be entered again. */
function findLost(tx: Transaction, before: readonly UpstreamRow[], after: readonly UpstreamRow[]): Credentials {
  const rows = new Map(after.map((row) => [row.id, row]))
  const sealed = new Set(readSealed(tx, before).map(({ id }) => id))
  return before.flatMap((was): Credentials => {
    if (!sealed.has(was.id)) return []
    const row = rows.get(was.id)
    if (row === undefined || row.apiKeyRef !== null) return [{ id: was.id, sealed: [] }]
    return isSameCredentialBinding(was, row) ? [] : [{ id: was.id, sealed: [CLEARED] }]
  })
}

type Credentials = NonNullable<CatalogWrite['credentials']>

export function writeCatalog(tx: Transaction, edit: CatalogEdit): void {
  const { entries, versions = [], oldestVersion } = edit
  const before = versions.some(({ layers }) => layers === 'before') ? readLayers(tx) : null
  for (const rows of toGroups(edit.prices ?? [])) tx.insert(prices).values(rows).run()
  for (const kind of KIND_NAMES) if (entries) writeKind(tx, kind, entries[kind])
  for (const { id, sealed } of edit.credentials ?? []) writeCredentials(tx, id, sealed)
  for (const { id, number, before, sealed } of edit.resealed ?? []) {
    const { upstream, number: at, sealed: held } = upstreamCredentials
    tx.update(upstreamCredentials)
      .set({ sealed })
      .where(and(eq(upstream, id), eq(at, number), eq(held, before)))
      .run()
  }
  const after = versions.some(({ layers }) => layers === 'after') ? readLayers(tx) : null
  for (const { layers, ...version } of versions)
    writeVersion(tx, version, layers === 'before' ? before : layers === 'after' ? after : layers)
  if (oldestVersion !== undefined) tx.delete(catalogVersions).where(lt(catalogVersions.number, oldestVersion)).run()
}

function writeKind<K extends Kind>(tx: Transaction, kind: K, changes: EntryChanges<K>): void {
  const { kind: isKind, name, origin, fields } = catalogEntries
  for (const entry of changes.remove)
    tx.delete(catalogEntries)
      .where(and(eq(isKind, kind), eq(name, entry.name), eq(origin, entry.origin)))
      .run()
  for (const entries of toGroups(changes.put))
    tx.insert(catalogEntries)
      .values(entries.map((entry) => ({ kind, name: NAMES[kind](entry), origin: entry.origin, fields: entry })))
      // Changed entries keep their position.
      .onConflictDoUpdate({ target: [isKind, name, origin], set: { fields: sql`excluded.${sql.raw(fields.name)}` } })
      .run()
}

function writeCredentials(tx: Transaction, upstream: string, sealed: readonly string[]): void {
  tx.delete(upstreamCredentials).where(eq(upstreamCredentials.upstream, upstream)).run()
  const rows = sealed.map((text, index) => ({ upstream, number: index + 1, sealed: text }))
  if (rows.length > 0) tx.insert(upstreamCredentials).values(rows).run()
}

/** Compiling a statement per row would be slow. */
const GROUP = 100

const toGroups = <Row>(rows: readonly Row[]): Row[][] =>
  Array.from({ length: Math.ceil(rows.length / GROUP) }, (_, at) => rows.slice(at * GROUP, (at + 1) * GROUP))

const { packed: _, ...COLUMNS } = getTableColumns(catalogVersions)

export const readVersions = (tx: Transaction): CatalogVersion[] =>
  tx.select(COLUMNS).from(catalogVersions).orderBy(asc(catalogVersions.number)).all()

export const toHistory = (tx: Transaction): CatalogHistory => ({
  newest: () => unpack(tx.select().from(catalogVersions).orderBy(desc(catalogVersions.number)).limit(1).get()),
  find: (number) => unpack(tx.select().from(catalogVersions).where(eq(catalogVersions.number, number)).get()),
})

function writeVersion(tx: Transaction, version: CatalogVersion, layers: CatalogLayers | null): void {
  const packed = Bun.zstdCompressSync(JSON.stringify({ layers }))
  tx.insert(catalogVersions)
    .values({ ...version, packed })
    .run()
}

function unpack(kept: typeof catalogVersions.$inferSelect | undefined): KeptCatalog | null {
  if (!kept) return null
  const { packed, ...version } = kept
  const held: { layers: CatalogLayers } | CatalogRows = JSON.parse(Bun.zstdDecompressSync(packed).toString())
  const layers = 'layers' in held ? held.layers : toLayers(held)
  const toNow = (row: CatalogLayers['upstreams'][number]) =>
    row.options ? { ...row, options: renameSettings(row.options) } : row
  return { ...version, layers: { ...layers, upstreams: layers.upstreams.map(toNow) } }
}

/** Converts rows from before layers, when each row had one owner and all fields. */
const toLayers = (rows: CatalogLayers): CatalogLayers =>
  mapKinds((kind) => rows[kind].map((row) => withLaterFields(kind, row)))
