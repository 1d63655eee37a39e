/** `/admin/api/requests`: list, details, and live stream. */
import type { Static } from '@sinclair/typebox'
import { Elysia, t } from 'elysia'
import { ExplainedRequest, RequestPage } from '../documents/request.ts'
import { toDefined } from '../domain/changes.ts'
import { ERROR_STATUSES, REPORT_PARAMETERS, REQUEST_FILTERS, REQUEST_STATUSES } from '../domain/report-filters.ts'
import { ServiceError } from '../domain/service-error.ts'
import { toRequestFilter, type WantedRequests } from '../ledger/report-filter.ts'
import { access, isOperator, isStillLetIn, type Route } from './access.ts'
import type { AdminDeps, LiveRequests } from './deps.ts'
import { type Asker, toAnswer, type WantedPage } from './deps.ts'
import { AdminError } from './errors.ts'
import { Limit, NAMED, one, several, toLimit, toSeveral, toTimeOrNone } from './query.ts'

const MAX_ROWS = 1_000

const Filter = {
  ...one(...REQUEST_FILTERS),
  ...several('status'),
  errors: t.Optional(t.Boolean({ description: `${REPORT_PARAMETERS.errors.description}.` })),
}
export const FilterQuery = t.Object(Filter, { additionalProperties: false })
export const ListQuery = t.Object(
  {
    ...Filter,
    ...one('since', 'until', 'before'),
    limit: Limit,
  },
  { additionalProperties: false },
)

/** Shared with the routes of a member's own requests. */
export const REQUESTS = {
  list: {
    summary: 'List requests, newest first, in pages',
    answer: RequestPage,
    errors: ['report_too_long', ...NAMED],
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
  const { store, reports, live, now } = deps

  return new Elysia({ name: 'requests' })
    .use(access())
    .get(
      '/requests',
      async ({ request, asker, query }) =>
        toAnswer(await reports.requests(asker, toWantedPage(request, query, asker, now()))),
      { route: { ...REQUESTS.list, least: 'viewer' }, query: ListQuery },
    )
    .get(
      '/requests/live',
      async ({ request, asker, query }) => {
        const wanted = toWanted(request, query)
        // Usually nothing has to be looked up.
        const rows = (wanted.key ?? wanted.team ?? wanted.model) ? await store.read() : NO_ROWS
        const filter = toRequestFilter(wanted, rows, now())
        const response = isOperator(asker)
          ? live.followByCommand(filter, asker.signal)
          : live.follow(asker, filter, () => isStillLetIn(request, 'viewer', deps))
        return toLasting(response, request, live)
      },
      { route: { ...REQUESTS.live, least: 'viewer' }, query: FilterQuery },
    )
    .get('/requests/:id', async ({ asker, params: { id } }) => toAnswer(await reports.request(asker, id)), {
      route: { ...REQUESTS.one, least: 'viewer' },
    })
}

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
  asker: Asker,
  nowMs: number,
): WantedPage {
  const times = { sinceMs: toTimeOrNone('since', since, nowMs), untilMs: toTimeOrNone('until', until, nowMs) }
  return { ...toWanted(request, filter), ...toDefined({ ...times, before }), limit: toLimit(limit, MAX_ROWS, asker) }
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
