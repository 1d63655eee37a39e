/**
 * What a change by hand must keep to: the shapes of the fields that it sets, and what the fields of a row mean to each other. Called with
 * what would be, before layers are merged: those keep a route within its model.
 */
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
/** By hand, deadlines are numbers. */
const Deadlines = Type.Object({ deadlines: Type.Object(byField(() => ms)) })

/** Throws `invalid` for the first problem, with the name that its field has for whoever changes it. */
function refuse(issues: readonly Issue[], toField = (path: string) => path): void {
  const [found] = issues
  if (!found) return
  const field = toField(toPath(found.segments))
  const what = field === '' ? 'This' : `The field ${field}`
  throw new ServiceError({ kind: 'invalid', field }, `${what} is invalid: ${found.message}`)
}

/** What is wrong with the shapes of fields, whichever they are. */
const checkShapes = (of: { properties: TProperties }, fields: Entry): Issue[] =>
  Object.entries(fields).flatMap(([field, value]) => {
    const shape = of.properties[field]
    if (!shape) return []
    const Said = Type.Object({ [field]: shape })
    return explain(Said, { [field]: value }, { all: true }).map((problem) => toIssue(problem, Said))
  })

const modelFields = (row: ModelRow): Entry => withoutNull(KINDS.models.fieldsOf(row))
const routeFields = (row: RouteRow): Entry => withoutNull(KINDS.routes.fieldsOf(row))

/** Throws `invalid` for a model that may not be as it would be, seen with its routes as they are. */
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
    ...(lacksPrice ? [issue([], 'pricing is missing: nobody knows what it costs, so give it a price first.')] : []),
    ...routes.flatMap((route, index) => [...checkRoute(route, model, ['routes', index], paid)]),
  ])
}

/** Throws `invalid` for a route that may not be as it would be. */
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

/** What a route and its model mean to each other. */
function* checkRoute(route: RouteRow, model: ModelRow, at: Path, paid: ReadonlySet<string>): Generator<Issue> {
  yield* checkNarrower(routeFields(route), model, at)
  if (paid.has(route.upstream) && isTimed(route.pricing ?? model.pricing)) yield issue([...at, 'pricing'], NO_SECONDS)
}

/** Throws `invalid` for an upstream that may not be as it would be. */
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

/** The upstreams that cost money. */
const idsOfPaid = ({ upstreams }: Pick<CatalogRows, 'upstreams'>): ReadonlySet<string> =>
  new Set(upstreams.flatMap((row) => (row.local || isBuiltIn(row) ? [] : row.id)))

/**
 * That nobody uses a paid upstream for nothing, or by the price of a server of one's own, by a slip of the hand. Throws `invalid` where
 * a route to an upstream that costs money has no price of its own, and its model's is that of one which costs nothing, or where it is
 * charged by the second. Who means the first says so on the route.
 *
 * @param isMeant which routes were changed.
 */
export function requirePriced(rows: CatalogRows, isMeant: (route: RouteRow) => boolean, field: string): void {
  const models = new Map(rows.models.map((row) => [row.slug, row]))
  const paid = idsOfPaid(rows)
  const meant = rows.routes.filter((route) => isMeant(route) && paid.has(route.upstream))
  const timed = meant.find((route) => isTimed(route.pricing ?? models.get(route.model)?.pricing ?? []))
  const free = meant.find((route) => route.pricing === null && isFree(models.get(route.model)?.pricing))
  const problem = timed
    ? `of the route of ${timed.model} to ${timed.upstream}, ${NO_SECONDS}`
    : free &&
      `${free.model} costs nothing, and its route to ${free.upstream} has no price of its own: give the route one, be it of 0.`
  if (problem) refuse([issue([field], problem)])
}
