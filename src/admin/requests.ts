/** `/admin/api/requests`: list, details, and live stream. */
import type { Static } from '@sinclair/typebox'
import { Elysia, t } from 'elysia'
import { ExplainedRequest, RequestPage } from '../documents/request.ts'
import { toDefined } from '../domain/changes.ts'
import { ERROR_STATUSES, OWN_REQUEST_FILTERS, REPORT_PARAMETERS, REQUEST_STATUSES } from '../domain/report-filters.ts'
import { ServiceError } from '../domain/service-error.ts'
import { findAdmin } from '../identity/admins.ts'
import { toRequestFilter, type WantedRequests } from '../ledger/report-filter.ts'
import type { IdentityStore } from '../store/identity-store.ts'
import { access, isOperator, isStillLetIn, type Route } from './access.ts'
import type { AdminDeps, LiveRequests } from './deps.ts'
import { type Asker, toAnswer, type WantedPage } from './deps.ts'
import { AdminError } from './errors.ts'
import { Limit, NAMED, one, several, toLimit, toSeveral, toTimeOrNone } from './query.ts'
import { MAX_CSV_ROWS } from './requests-csv.ts'

export const MAX_ROWS = 1_000

/** For members only. */
const OwnFilter = {
  ...one(...OWN_REQUEST_FILTERS),
  ...several('status'),
  errors: t.Optional(t.Boolean({ description: `${REPORT_PARAMETERS.errors.description}.` })),
}
const Filter = { ...OwnFilter, ...one('owner') }
const Page = { ...one('since', 'until', 'before'), limit: Limit }
const closed = { additionalProperties: false }
const FilterQuery = t.Object(Filter, closed)
const ListQuery = t.Object({ ...Filter, ...Page }, closed)
export const OwnFilterQuery = t.Object(OwnFilter, closed)
export const OwnListQuery = t.Object({ ...OwnFilter, ...Page }, closed)

/** Shared with the routes of a member's own requests. */
export const REQUESTS = {
  list: {
    summary: 'List requests, newest first, in pages',
    answer: RequestPage,
    errors: ['report_too_long', ...NAMED],
  },
  csv: {
    summary: 'Export requests as CSV, newest first',
    description: `At most ${MAX_CSV_ROWS} rows. Times are UTC. Cells that a spreadsheet would run as formulas begin with an apostrophe.`,
    answer: null,
    operation: {
      responses: { 200: { description: 'CSV.', content: { 'text/csv': { schema: { type: 'string' } } } } },
    },
    errors: ['report_too_long', ...NAMED],
    ownErrors: { too_many_exports: 429 },
  },
  live: {
    summary: 'Stream requests as they finish',
    description: 'Server-sent events, each with a request as in lists, and `reason` if its upstream failed.',
    answer: null,
    operation: {
      responses: {
        200: { description: 'Event stream.', content: { 'text/event-stream': { schema: { type: 'string' } } } },
      },
    },
    errors: NAMED,
    ownErrors: { too_many_tails: 429 },
  },
  one: {
    summary: "Get a request's calls and cost breakdown",
    answer: ExplainedRequest,
    errors: ['report_too_long', 'request_not_found', 'request_removed', 'request_ambiguous'],
  },
} as const satisfies Record<string, Omit<Route, 'least'>>

export function requestsController(deps: AdminDeps) {
  const { store, identity, reports, live, exportCsv, now } = deps

  return new Elysia({ name: 'requests' })
    .use(access())
    .get(
      '/requests',
      async ({ request, asker, query }) =>
        toAnswer(
          await reports.requests(
            asker,
            await withOwner(toWantedPage(request, query, { most: MAX_ROWS, asker, nowMs: now() }), identity),
          ),
        ),
      { route: { ...REQUESTS.list, least: 'viewer', errors: WITH_OWNER }, query: ListQuery },
    )
    .get(
      '/requests/csv',
      async ({ request, asker, query }) => {
        const nowMs = now()
        return exportCsv({
          ...{ asker, nowMs, read: reports.requestsCsv, keepOpen: (isKept) => live.keepOpen(request, isKept) },
          wanted: await withOwner(toWantedCsv(request, query, asker, nowMs), identity),
          isLetIn: () => isStillLetIn(request, 'viewer', deps),
        })
      },
      { route: { ...REQUESTS.csv, least: 'viewer', errors: WITH_OWNER }, query: ListQuery },
    )
    .get(
      '/requests/live',
      async ({ request, asker, query }) => {
        const wanted = await withOwner(toWanted(request, query), identity)
        // Usually nothing has to be looked up.
        const rows = (wanted.key ?? wanted.team ?? wanted.owner ?? wanted.model) ? await store.read() : NO_ROWS
        const filter = toRequestFilter(wanted, rows, now())
        const response = isOperator(asker)
          ? live.followByCommand(filter, asker.signal)
          : live.follow(asker, filter, () => isStillLetIn(request, 'viewer', deps))
        return toLasting(response, request, live)
      },
      { route: { ...REQUESTS.live, least: 'viewer', errors: [...NAMED, 'admin_not_found'] }, query: FilterQuery },
    )
    .get('/requests/:id', async ({ asker, params: { id } }) => toAnswer(await reports.request(asker, id)), {
      route: { ...REQUESTS.one, least: 'viewer' },
    })
}

const WITH_OWNER = ['report_too_long', 'admin_not_found', ...NAMED] as const
const NO_ROWS = { keys: [], teams: [], aliases: [] }
const TOO_MANY = 'Too many live request streams, in total or for you. Close another page that shows live requests.'

export function toLasting(response: Response | null, request: Request, { keepOpen }: LiveRequests): Response {
  if (response === null) throw new AdminError(429, 'too_many_tails', TOO_MANY)
  keepOpen(request)
  return response
}

/** Throws `invalid`. */
export function toWantedPage(
  request: Request,
  { since, until, limit = 50, before, ...filter }: Static<typeof ListQuery>,
  { most, asker, nowMs }: { most: number; asker: Asker; nowMs: number },
): WantedPage {
  const times = { sinceMs: toTimeOrNone('since', since, nowMs), untilMs: toTimeOrNone('until', until, nowMs) }
  return { ...toWanted(request, filter), ...toDefined({ ...times, before }), limit: toLimit(limit, most, asker) }
}

/** Throws `invalid`. */
export const toWantedCsv = (request: Request, query: Static<typeof ListQuery>, asker: Asker, nowMs: number) =>
  toWantedPage(request, { limit: MAX_CSV_ROWS, ...query }, { most: MAX_CSV_ROWS, asker, nowMs })

/** Names to IDs. Throws `admin_not_found`. */
async function withOwner<Wanted extends WantedRequests>(
  wanted: Wanted,
  identity: Pick<IdentityStore, 'readAdmins'>,
): Promise<Wanted> {
  const { owner } = wanted
  return owner === undefined ? wanted : { ...wanted, owner: findAdmin(await identity.readAdmins(), owner).id }
}

export function toWanted(
  request: Request,
  { status: _, errors, error_code: errorCode, ...others }: Static<typeof FilterQuery>,
): WantedRequests {
  const filter = { ...others, ...toDefined({ errorCode }) }
  const named = toSeveral(request, 'status')
  if (named.length === 0) return { ...filter, ...(errors ? { statuses: ERROR_STATUSES } : {}) }
  if (errors) throw invalidStatus('use either errors or status, not both')
  const statuses = named
    .flatMap((text) => text.split(','))
    .map((text) => {
      const known = REQUEST_STATUSES.find((one) => one === text.trim())
      if (known === undefined) throw invalidStatus(`'${text}' must be one of ${REQUEST_STATUSES.join(', ')}`)
      return known
    })
  return { ...filter, statuses }
}

const invalidStatus = (rule: string) =>
  new ServiceError({ kind: 'invalid', field: 'status' }, `Invalid status: ${rule}.`)
