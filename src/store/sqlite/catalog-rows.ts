/** The catalogue's rows: read and written whole, in the transactions of `config-store.ts`. */
import { and, eq, isNotNull, sql } from 'drizzle-orm'
import type { CatalogRows, CatalogWrite, RouteRow, SealedCredential, UpstreamRow } from '../catalog-rows.ts'
import { isSameCredentialPlace } from '../credential-place.ts'
import { CLEARED } from '../vault.ts'
import { writeVersions } from './catalog-versions.ts'
import type { Transaction } from './config-store.ts'
import { aliases, models, prices, routes, upstreamCredentials, upstreams } from './schema.ts'

export function readCatalog(tx: Transaction): CatalogRows {
  return {
    upstreams: readUpstreams(tx),
    models: tx.select().from(models).orderBy(sql`rowid`).all(),
    routes: tx.select().from(routes).orderBy(sql`rowid`).all(),
    aliases: tx.select().from(aliases).orderBy(sql`rowid`).all(),
  }
}

function readUpstreams(tx: Transaction): UpstreamRow[] {
  const { upstream, number, ref } = upstreamCredentials
  const named = tx
    .select({ upstream, ref })
    .from(upstreamCredentials)
    .where(isNotNull(ref))
    .orderBy(upstream, number)
    .all()
  const refsOf = Map.groupBy(named, (row) => row.upstream)
  const toRef = (id: string) => {
    const refs = (refsOf.get(id) ?? []).flatMap((row) => row.ref ?? [])
    return refs.length > 1 ? refs : (refs[0] ?? null)
  }
  const rows = tx.select().from(upstreams).orderBy(sql`rowid`).all()
  return rows.map(({ id, dialect, baseUrl, ...row }) => ({ id, dialect, baseUrl, apiKeyRef: toRef(id), ...row }))
}

export function readSealed(tx: Transaction): SealedCredential[] {
  const { id, dialect, baseUrl, options } = upstreams
  const { upstream, number, sealed } = upstreamCredentials
  const rows = tx
    .select({ id, dialect, baseUrl, options, number, sealed })
    .from(upstreams)
    .innerJoin(upstreamCredentials, eq(upstream, id))
    .where(isNotNull(sealed))
    .orderBy(id, number)
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
  for (const rows of toGroups(write.upstreams.create))
    tx.insert(upstreams)
      .values(rows.map(({ apiKeyRef: _, ...row }) => row))
      .run()
  for (const row of write.upstreams.create) if (row.apiKeyRef !== null) writeCredentials(tx, row.id, toNamed(row))
  for (const row of write.upstreams.update) updateUpstream(tx, row)
  for (const { id, sealed } of write.credentials ?? [])
    writeCredentials(
      tx,
      id,
      sealed.map((text) => ({ ref: null, sealed: text })),
    )
  for (const { id, number, before, sealed } of write.resealed ?? [])
    tx.update(upstreamCredentials)
      .set({ sealed })
      .where(
        and(
          eq(upstreamCredentials.upstream, id),
          eq(upstreamCredentials.number, number),
          eq(upstreamCredentials.sealed, before),
        ),
      )
      .run()
  for (const rows of toGroups(write.models.create)) tx.insert(models).values(rows).run()
  for (const row of write.models.update) tx.update(models).set(row).where(eq(models.slug, row.slug)).run()
  for (const rows of toGroups(write.routes.create)) tx.insert(routes).values(rows).run()
  for (const row of write.routes.update) tx.update(routes).set(row).where(isRoute(row)).run()
  for (const rows of toGroups(write.aliases.create)) tx.insert(aliases).values(rows).run()
  for (const row of write.aliases.update) tx.update(aliases).set(row).where(eq(aliases.alias, row.alias)).run()
  writeVersions(tx, write)
}

/** Its references become those of the row; what was typed in stays where there are none and it goes where it went. */
function updateUpstream(tx: Transaction, { apiKeyRef, ...row }: UpstreamRow): void {
  const isRow = eq(upstreams.id, row.id)
  const before = tx.select().from(upstreams).where(isRow).get()
  tx.update(upstreams).set(row).where(isRow).run()
  const held = readSealed(tx).filter(({ id }) => id === row.id)
  if (apiKeyRef !== null || held.length === 0) writeCredentials(tx, row.id, toNamed({ apiKeyRef }))
  else if (before && !isSameCredentialPlace(before, row)) writeCredentials(tx, row.id, [{ ref: null, sealed: CLEARED }])
}

const toNamed = ({ apiKeyRef }: Pick<UpstreamRow, 'apiKeyRef'>) =>
  [apiKeyRef ?? []].flat().map((ref) => ({ ref, sealed: null }))

/** All that an upstream has from now on. */
function writeCredentials(
  tx: Transaction,
  upstream: string,
  credentials: readonly { ref: string | null; sealed: string | null }[],
): void {
  tx.delete(upstreamCredentials).where(eq(upstreamCredentials.upstream, upstream)).run()
  const rows = credentials.map((each, index) => ({ upstream, number: index + 1, ...each }))
  if (rows.length > 0) tx.insert(upstreamCredentials).values(rows).run()
}

/** How many rows a statement makes: one for each would have each compiled. */
const GROUP = 100

const toGroups = <Row>(rows: readonly Row[]): Row[][] =>
  Array.from({ length: Math.ceil(rows.length / GROUP) }, (_, at) => rows.slice(at * GROUP, (at + 1) * GROUP))

const isRoute = (row: RouteRow) =>
  and(eq(routes.model, row.model), eq(routes.upstream, row.upstream), eq(routes.upstreamModel, row.upstreamModel))
