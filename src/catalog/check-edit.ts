/** Checks manual changes before the layers merge, which narrows routes to their models. */
import { type TProperties, Type } from '@sinclair/typebox'
import { byField } from '../domain/deadlines.ts'
import { isBuiltIn } from '../domain/dialects.ts'
import { explain, toPath } from '../domain/explain.ts'
import { ServiceError } from '../domain/service-error.ts'
import { isTimed } from '../domain/tariff.ts'
import { TIMER_MS } from '../domain/time.ts'
import type { CatalogRows, ModelRow, RouteRow, UpstreamRow } from '../store/catalog-rows.ts'
import { checkLengths, checkNarrower, checkPricing, explainStars, NO_SECONDS, toIssue } from './check.ts'
import { checkUpstream } from './check-upstream.ts'
import { isFree } from './complete.ts'
import { type Entry, type Issue, issue, type Path } from './entry.ts'
import { KINDS, Model, Route, Upstream, withoutNull } from './fields.ts'

const ms = Type.Optional(Type.Integer({ minimum: TIMER_MS.min, maximum: TIMER_MS.max }))
/** Deadlines in ms. */
const Deadlines = Type.Object({ deadlines: Type.Object(byField(() => ms)) })

/** @throws `invalid` for the first problem, with the admin API's field name. */
function refuse(issues: readonly Issue[], toField = (path: string) => path): void {
  const [found] = issues
  if (!found) return
  const field = toField(toPath(found.segments))
  throw new ServiceError({ kind: 'invalid', field }, `Invalid ${field || 'values'}: ${found.message}`)
}

const checkShapes = (of: { properties: TProperties }, fields: Entry): Issue[] =>
  Object.entries(fields).flatMap(([field, value]) => {
    const shape = of.properties[field]
    if (!shape) return []
    const Said = Type.Object({ [field]: shape })
    return explain(Said, { [field]: value }, { all: true }).map((problem) => toIssue(problem, Said))
  })

const modelFields = (row: ModelRow): Entry => withoutNull(KINDS.models.fieldsOf(row))
const routeFields = (row: RouteRow): Entry => withoutNull(KINDS.routes.fieldsOf(row))

/** @throws `invalid`. Includes its current routes. */
export function requireModel(model: ModelRow, rows: Pick<CatalogRows, 'routes' | 'upstreams'>): void {
  const fields = modelFields(model)
  const routes = rows.routes.filter((route) => route.model === model.slug)
  const paid = idsOfPaid(rows)
  const lacksPrice =
    model.enabled &&
    model.pricing.length === 0 &&
    routes.some(({ upstream, pricing }) => pricing === null && paid.has(upstream))
  refuse([
    ...checkShapes(Model, fields),
    ...checkLengths(fields, []),
    ...checkPricing(fields.pricing, ['pricing']),
    ...(lacksPrice ? [issue([], 'pricing is missing: its price is unknown. Set a price first.')] : []),
    ...routes.flatMap((route, index) => [...checkRoute(route, model, ['routes', index], paid)]),
  ])
}

/** @throws `invalid`. */
export function requireRoute(route: RouteRow, model: ModelRow, { upstreams }: Pick<CatalogRows, 'upstreams'>): void {
  const fields = routeFields(route)
  const stars = explainStars(route.upstreamModel, false)
  refuse([
    ...checkShapes(Route, fields),
    ...(stars === null ? [] : [issue(['model'], stars)]),
    ...checkLengths(fields, []),
    ...checkPricing(fields.pricing, ['pricing']),
    ...checkRoute(route, model, [], idsOfPaid({ upstreams })),
  ])
}

function* checkRoute(route: RouteRow, model: ModelRow, at: Path, paid: ReadonlySet<string>): Generator<Issue> {
  yield* checkNarrower(routeFields(route), model, at)
  if (paid.has(route.upstream) && isTimed(route.pricing ?? model.pricing)) yield issue([...at, 'pricing'], NO_SECONDS)
}

/** @throws `invalid`. */
export function requireSoundUpstream(row: UpstreamRow, toField?: (path: string) => string): void {
  const { id, dialect, baseUrl: base_url, apiKeyRef: api_key, local, options, deadlines } = row
  const fields = withoutNull({
    ...options,
    dialect: options.preset === undefined ? dialect : null,
    base_url,
    api_key,
    local,
  })
  const times = { deadlines: byField((name) => deadlines[name]) }
  const issues = [
    ...checkShapes(Upstream, fields),
    ...explain(Deadlines, times, { all: true }).map((problem) => toIssue(problem, Deadlines)),
    ...[...checkUpstream(id, fields)].map(({ segments, message }) => ({ segments: segments.slice(2), message })),
  ]
  refuse(issues, toField)
}

const idsOfPaid = ({ upstreams }: Pick<CatalogRows, 'upstreams'>): ReadonlySet<string> =>
  new Set(upstreams.flatMap((row) => (row.local || isBuiltIn(row) ? [] : row.id)))

/**
 * Prevents free or per-second use of a paid upstream by mistake. To make a route free on purpose, set its own price to
 * 0.
 * @param isMeant which routes were changed.
 * @throws `invalid` if a changed route to a paid upstream inherits a zero price or is charged per second.
 */
export function requirePriced(rows: CatalogRows, isMeant: (route: RouteRow) => boolean, field: string): void {
  const models = new Map(rows.models.map((row) => [row.slug, row]))
  const paid = idsOfPaid(rows)
  const meant = rows.routes.filter((route) => isMeant(route) && paid.has(route.upstream))
  const timed = meant.find((route) => isTimed(route.pricing ?? models.get(route.model)?.pricing ?? []))
  const free = meant.find((route) => route.pricing === null && isFree(models.get(route.model)?.pricing))
  const problem = timed
    ? `route of ${timed.model} to ${timed.upstream}: ${NO_SECONDS}`
    : free &&
      `${free.model} is free, and its route to ${free.upstream} has no price of its own. Set a price on the route, even if it is 0.`
  if (problem) refuse([issue([field], problem)])
}
