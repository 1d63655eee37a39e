/**
 * Compares what a catalogue declares with the rows that there are, and decides what to create, update and delete.
 * Called by `apply.ts` inside its transaction. Pure: time and ids come in.
 *
 * A row remembers its origin, and a weaker origin never overwrites a stronger one (design 10): such a row is left alone
 * and named as a conflict where it differs. Applying an origin deletes its own rows that it no longer declares; `file`
 * also deletes `builtin` ones, which are only there for want of a file.
 */
import { ORIGINS, type Origin } from '../domain/settings.ts'
import type { Catalog } from './catalog.ts'
import {
  type AliasRow,
  type CatalogRows,
  type ModelRow,
  type PriceRow,
  type RouteRow,
  type RowOptions,
  toRouteKey,
  toRows,
  type UpstreamRow,
} from './rows.ts'

export interface TablePlan<Row> {
  create: Row[]
  update: Row[]
  delete: Row[]
  /** How many rows stay as they are. */
  unchanged: number
}

export interface Plan {
  upstreams: TablePlan<UpstreamRow>
  models: TablePlan<ModelRow>
  routes: TablePlan<RouteRow>
  aliases: TablePlan<AliasRow>
  /** Price rows that the created and updated rows point at. */
  prices: PriceRow[]
  /** One sentence for each declaration that a stronger origin overrules. */
  conflicts: string[]
}

/** Decides how the rows become what the catalogue declares. */
export function planCatalog(current: CatalogRows, catalog: Catalog, options: RowOptions): Plan {
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
  return {
    upstreams: keepUsed(upstreams, owners, (row, route) => route.upstream === row.id, conflicts),
    models: keepUsed(models, owners, (row, route) => route.model === row.slug, conflicts),
    routes,
    aliases,
    prices: prices.filter((price) => written.has(price.id)),
    conflicts,
  }
}

/** Whether carrying the plan out would write anything. */
export function hasChanges(plan: Plan): boolean {
  return tablesOf(plan).some((table) => table.create.length + table.update.length + table.delete.length > 0)
}

export const tablesOf = ({ upstreams, models, routes, aliases }: Plan) => [upstreams, models, routes, aliases]

const isStronger = (one: Origin, other: Origin) => ORIGINS.indexOf(one) > ORIGINS.indexOf(other)

function diff<Row extends { origin: Origin }>(
  current: Row[],
  wanted: Row[],
  nameOf: (row: Row) => string,
  origin: Origin,
  conflicts: string[],
): TablePlan<Row> {
  const before = new Map(current.map((row) => [nameOf(row), row]))
  const names = new Set(wanted.map(nameOf))
  const plan: TablePlan<Row> = { create: [], update: [], delete: [], unchanged: 0 }
  for (const row of wanted) {
    const existing = before.get(nameOf(row))
    if (!existing) plan.create.push(row)
    else if (isStronger(existing.origin, origin)) {
      plan.unchanged++
      if (!isSame({ ...existing, origin }, row))
        conflicts.push(
          `${nameOf(row)}: left as it is, because its ${existing.origin} settings win over the ${origin}'s.`,
        )
    } else if (isSame(existing, row)) plan.unchanged++
    else plan.update.push(row)
  }
  for (const row of current) {
    if (names.has(nameOf(row))) continue
    if (row.origin === origin || (origin === 'file' && row.origin === 'builtin')) plan.delete.push(row)
    else plan.unchanged++
  }
  return plan
}

/** Whether two rows say the same; when they were last written does not count. */
const isSame = (one: object, other: object) => Bun.deepEquals({ ...one, updatedMs: 0 }, { ...other, updatedMs: 0 })

/** Keeps what a stronger origin's route still needs: deleting it would take that route along. */
function keepUsed<Row>(
  plan: TablePlan<Row>,
  routes: RouteRow[],
  uses: (row: Row, route: RouteRow) => boolean,
  conflicts: string[],
): TablePlan<Row> {
  const kept = plan.delete.filter((row) => {
    const user = routes.find((route) => uses(row, route))
    if (user)
      conflicts.push(
        `${toRouteKey(user)}: what it uses is no longer declared, and is kept for this ${user.origin} route.`,
      )
    return user !== undefined
  })
  return { ...plan, delete: plan.delete.filter((row) => !kept.includes(row)), unchanged: plan.unchanged + kept.length }
}
