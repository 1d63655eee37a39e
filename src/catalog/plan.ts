/**
 * Compares what a catalogue declares with the rows that there are, and decides what to create, update, delete and leave alone.
 * Called by `apply.ts` inside its transaction, and by whoever only asks. Pure: time and ids come in.
 *
 * A row remembers its origin, and a weaker origin never overwrites a stronger one: such a row is left alone, and named
 * where it differs. What an origin no longer declares is deleted where that is asked for (`prune`); built-in rows, which
 * are only there for want of a file, and have nobody to ask, always.
 */
import { type Difference, toDifference } from '../domain/changes.ts'
import { ORIGINS, type Origin } from '../domain/models.ts'
import type { CatalogRows, CatalogWrite, RouteRow, TableWrite } from '../store/catalog-rows.ts'
import { type Changes, type Counts, toChanges, toCounts, withoutNull } from './changes.ts'
import type { Catalog } from './complete.ts'
import { type RowOptions, toRows } from './declared-rows.ts'
import { KINDS, type Kind, toRouteName } from './rows-as-entries.ts'
import { isSameRow } from './states.ts'

export interface PlanOptions extends RowOptions {
  /** Whether rows of this origin that are no longer declared are deleted, or the names of those that are. */
  prune: boolean | ReadonlySet<string>
  /** Whether what is declared becomes this origin's although a stronger one has it. */
  takeOver: boolean
  /** Names of rows that other catalogues of this origin declare: they stay, and are not told of. */
  beside?: ReadonlySet<string>
}

/** A row that differs from what is declared and stays as it is. */
export interface Left extends Difference {
  name: string
  /** Whose it is. */
  origin: Origin
  /**
   * `stronger`: its origin wins, and `after` is what was declared. `undeclared`: it is this origin's, no longer declared, and
   * not pruned. `used`: it would be deleted, but a route that stays needs it.
   */
  why: 'stronger' | 'undeclared' | 'used'
  /** The route that needs it. */
  by?: string
}

export interface CatalogPlan extends Changes, Counts {
  /** Its prices are those that the created and updated rows point at. */
  write: CatalogWrite
  left: Left[]
}

/** Decides how the rows become what the catalogue declares. */
export function planCatalog(current: CatalogRows, catalog: Catalog, options: PlanOptions): CatalogPlan {
  const { rows, prices } = toRows(catalog, current, options)
  const left: Left[] = []
  const diff = <Row extends { origin: Origin }>(before: Row[], wanted: Row[], kind: Kind<Row>) =>
    diffTable(before, wanted, kind, options, left)
  const upstreams = diff(current.upstreams, rows.upstreams, KINDS.upstreams)
  const models = diff(current.models, rows.models, KINDS.models)
  const routes = diff(current.routes, rows.routes, KINDS.routes)
  const aliases = diff(current.aliases, rows.aliases, KINDS.aliases)
  const going = new Set(routes.delete)
  const staying = current.routes.filter((row) => !going.has(row) && !isStronger(options.origin, row.origin))
  upstreams.delete = keepUsed(
    upstreams.delete,
    staying,
    (row, route) => route.upstream === row.id,
    KINDS.upstreams,
    left,
  )
  models.delete = keepUsed(models.delete, staying, (row, route) => route.model === row.slug, KINDS.models, left)
  routes.delete.push(...findOrphans(current.routes, going, upstreams.delete, models.delete))
  const written = new Set(
    [models, routes].flatMap((plan) => [...plan.create, ...plan.update].map((row) => row.priceId)),
  )
  const write = { upstreams, models, routes, aliases, prices: prices.filter((price) => written.has(price.id)) }
  const told = toChanges(current, write)
  return { write, ...told, ...toCounts(current, told), left }
}

const isStronger = (one: Origin, other: Origin) => ORIGINS.indexOf(one) > ORIGINS.indexOf(other)

function diffTable<Row extends { origin: Origin }>(
  current: Row[],
  wanted: Row[],
  { nameOf, fieldsOf }: Kind<Row>,
  { origin, prune, takeOver, beside }: PlanOptions,
  left: Left[],
): TableWrite<Row> {
  const fields = (row: Row) => withoutNull(fieldsOf(row))
  const isPruned = (name: string) => (typeof prune === 'boolean' ? prune : prune.has(name))
  const before = new Map(current.map((row) => [nameOf(row), row]))
  const names = new Set(wanted.map(nameOf))
  const plan: TableWrite<Row> = { create: [], update: [], delete: [] }
  for (const row of wanted) {
    const name = nameOf(row)
    const existing = before.get(name)
    if (!existing) plan.create.push(row)
    else if (isStronger(existing.origin, origin) && !takeOver) {
      const difference = toDifference(fields(existing), fields(row))
      if (difference) left.push({ name, origin: existing.origin, why: 'stronger', ...difference })
    } else if (!isSameRow(existing, row)) plan.update.push(row)
  }
  for (const row of current) {
    const name = nameOf(row)
    if (names.has(name) || beside?.has(name)) continue
    const isStandIn = row.origin === 'builtin' && (origin === 'builtin' || origin === 'file')
    if (isStandIn || (row.origin === origin && isPruned(name))) plan.delete.push(row)
    else if (row.origin === origin) left.push({ name, origin, why: 'undeclared', before: fields(row), after: {} })
  }
  return plan
}

/** Keeps what a route that stays still needs: deleting it would take that route along. */
function keepUsed<Row extends { origin: Origin }>(
  going: Row[],
  staying: RouteRow[],
  uses: (row: Row, route: RouteRow) => boolean,
  { nameOf }: Kind<Row>,
  left: Left[],
): Row[] {
  return going.filter((row) => {
    const user = staying.find((route) => uses(row, route))
    if (!user) return true
    left.push({ name: nameOf(row), origin: row.origin, why: 'used', by: toRouteName(user), before: {}, after: {} })
    return false
  })
}

/** The weaker origins' routes that go with their model or upstream. */
function findOrphans(
  routes: RouteRow[],
  going: ReadonlySet<RouteRow>,
  upstreams: { id: string }[],
  models: { slug: string }[],
): RouteRow[] {
  const [ids, slugs] = [new Set(upstreams.map(({ id }) => id)), new Set(models.map(({ slug }) => slug))]
  return routes.filter((row) => !going.has(row) && (ids.has(row.upstream) || slugs.has(row.model)))
}
