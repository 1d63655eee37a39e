/**
 * Compares what a catalogue declares with the rows that there are, and decides what to create, update and delete.
 * Called by `apply.ts` inside its transaction. Pure: time and ids come in.
 *
 * A row remembers its origin, and a weaker origin never overwrites a stronger one: such a row is left alone
 * and named as a conflict where it differs. Applying an origin deletes its own rows that it no longer declares; `file`
 * also deletes `builtin` ones, which are only there for want of a file.
 */
import { ORIGINS, type Origin } from '../domain/settings.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { CatalogRows, CatalogWrite, PriceRow, RouteRow, TableWrite } from '../store/config-store.ts'
import type { Catalog } from './complete.ts'

export interface PlanOptions {
  /** The origin that the rows get. */
  origin: Origin
  nowMs: number
  mintId(): string
}

export interface Plan extends Counts {
  /** Its prices are those that the created and updated rows point at. */
  write: CatalogWrite
  /** One sentence for each declaration that a stronger origin overrules. */
  conflicts: string[]
}

/** Over all rows of upstreams, models, routes and aliases. */
export interface Counts {
  created: number
  updated: number
  deleted: number
  unchanged: number
}

/** Decides how the rows become what the catalogue declares. */
export function planCatalog(current: CatalogRows, catalog: Catalog, options: PlanOptions): Plan {
  const { origin } = options
  const { rows, prices } = toRows(catalog, current, options)
  const conflicts: string[] = []
  const models = diff(current.models, rows.models, (row) => `models.${row.slug}`, origin, conflicts)
  const upstreams = diff(current.upstreams, rows.upstreams, (row) => `upstreams.${row.id}`, origin, conflicts)
  const routes = diff(current.routes, rows.routes, toRouteKey, origin, conflicts)
  const aliases = diff(current.aliases, rows.aliases, (row) => `aliases.${row.alias}`, origin, conflicts)
  const written = new Set(
    [models, routes].flatMap((plan) => [...plan.create, ...plan.update].map((row) => row.priceId)),
  )
  const owners = current.routes.filter((route) => isStronger(route.origin, origin))
  const tables = {
    upstreams: keepUsed(upstreams, owners, (row, route) => route.upstream === row.id, conflicts),
    models: keepUsed(models, owners, (row, route) => route.model === row.slug, conflicts),
    routes,
    aliases,
  }
  const write = { ...tables, prices: prices.filter((price) => written.has(price.id)) }
  return { write, ...toCounts(Object.values(tables), current), conflicts }
}

function toCounts(tables: TableWrite<unknown>[], current: CatalogRows): Counts {
  const sum = (kind: keyof TableWrite<unknown>) => tables.reduce((total, table) => total + table[kind].length, 0)
  const [created, updated, deleted] = [sum('create'), sum('update'), sum('delete')]
  const before = Object.values(current).reduce((total, rows) => total + rows.length, 0)
  return { created, updated, deleted, unchanged: before - updated - deleted }
}

const isStronger = (one: Origin, other: Origin) => ORIGINS.indexOf(one) > ORIGINS.indexOf(other)

function diff<Row extends { origin: Origin }>(
  current: Row[],
  wanted: Row[],
  toKey: (row: Row) => string,
  origin: Origin,
  conflicts: string[],
): TableWrite<Row> {
  const before = new Map(current.map((row) => [toKey(row), row]))
  const names = new Set(wanted.map(toKey))
  const plan: TableWrite<Row> = { create: [], update: [], delete: [] }
  for (const row of wanted) {
    const existing = before.get(toKey(row))
    if (!existing) plan.create.push(row)
    else if (isStronger(existing.origin, origin)) {
      if (!isSame({ ...existing, origin }, row))
        conflicts.push(
          `${toKey(row)}: left as it is, because its ${existing.origin} settings win over the ${origin}'s.`,
        )
    } else if (!isSame(existing, row)) plan.update.push(row)
  }
  for (const row of current) {
    if (names.has(toKey(row))) continue
    if (row.origin === origin || (origin === 'file' && row.origin === 'builtin')) plan.delete.push(row)
  }
  return plan
}

/** Whether two rows say the same; when they were last written does not count. */
const isSame = (one: object, other: object) => Bun.deepEquals({ ...one, updatedMs: 0 }, { ...other, updatedMs: 0 })

/** Keeps what a stronger origin's route still needs: deleting it would take that route along. */
function keepUsed<Row>(
  plan: TableWrite<Row>,
  routes: RouteRow[],
  uses: (row: Row, route: RouteRow) => boolean,
  conflicts: string[],
): TableWrite<Row> {
  const kept = plan.delete.filter((row) => {
    const user = routes.find((route) => uses(row, route))
    if (user)
      conflicts.push(
        `${toRouteKey(user)}: what it uses is no longer declared, and is kept for this ${user.origin} route.`,
      )
    return user !== undefined
  })
  return { ...plan, delete: plan.delete.filter((row) => !kept.includes(row)) }
}

const toRouteKey = (row: { model: string; upstream: string; upstreamModel: string }) =>
  `models.${row.model}: route ${row.upstream} (${row.upstreamModel})`

/**
 * The rows that a catalogue asks for, seen beside the rows that there are: when a row was made carries over. Prices are
 * only ever added: an unchanged price keeps its row, and `prices` has a new one for each that changed.
 */
function toRows(catalog: Catalog, current: CatalogRows, { origin, nowMs, mintId }: PlanOptions) {
  const prices: PriceRow[] = []
  const toPriceId = (
    before: { pricing: PricingItem[] | null; priceId: string | null } | undefined,
    price: { model: string; upstream: string | null; pricing: PricingItem[] },
  ): string => {
    if (before?.priceId && Bun.deepEquals(before.pricing, price.pricing)) return before.priceId
    const row = { ...price, id: mintId(), createdMs: nowMs }
    prices.push(row)
    return row.id
  }
  const upstreamsById = new Map(current.upstreams.map((row) => [row.id, row]))
  const modelsBySlug = new Map(current.models.map((row) => [row.slug, row]))
  const routesByKey = new Map(current.routes.map((row) => [toRouteKey(row), row]))

  const rows: CatalogRows = {
    upstreams: catalog.upstreams.map((upstream) => {
      const createdMs = upstreamsById.get(upstream.id)?.createdMs ?? nowMs
      return { ...upstream, origin, createdMs, updatedMs: nowMs }
    }),
    models: catalog.models.map(({ routes: _, ...model }) => {
      const before = modelsBySlug.get(model.slug)
      const priceId = toPriceId(before, { model: model.slug, upstream: null, pricing: model.pricing })
      const createdMs = model.createdMs ?? before?.createdMs ?? nowMs
      return { ...model, priceId, origin, createdMs, updatedMs: nowMs }
    }),
    routes: catalog.models.flatMap(({ slug, routes }) =>
      routes.map((route) => {
        const row = { ...route, model: slug, origin }
        const { pricing, upstream } = route
        const before = routesByKey.get(toRouteKey(row))
        return { ...row, priceId: pricing && toPriceId(before, { model: slug, upstream, pricing }) }
      }),
    ),
    aliases: catalog.aliases.map((alias) => ({ ...alias, origin })),
  }
  return { rows, prices }
}
