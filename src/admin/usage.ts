/** Who spent what: `/admin/api/usage`, with the filters and the document of `tollgate usage`. */
import type { Static } from '@sinclair/typebox'
import { Elysia, t } from 'elysia'
import { Usage } from '../documents/usage.ts'
import { toDimensions } from '../ledger/usage.ts'
import { DIMENSIONS } from '../store/report-store.ts'
import { access, type Route } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { FILTERS, Limit, NAMED, Since, several, text, toLimit, toSeveral, toSpan, Until } from './query.ts'
import { toAnswer } from './reports.ts'

const MOST_ROWS = 10_000

const DIMENSION = `(${DIMENSIONS.join('|')})`

export const UsageQuery = t.Object(
  {
    by: text('One or two of key, team, model, upstream, endpoint, user, day and hour, with a comma between.', {
      pattern: `^${DIMENSION}(,${DIMENSION})?$`,
    }),
    ...{ since: Since, until: Until },
    ...{ key: several(FILTERS.key), team: several(FILTERS.team), model: several(FILTERS.model) },
    ...{ upstream: several(FILTERS.upstream), endpoint: several(FILTERS.endpoint), user: several(FILTERS.user) },
    limit: Limit,
    figures: t.Optional(
      t.UnionEnum(['all', 'spend'], {
        description:
          'What is told of each group. `spend`: requests and cost, and nothing of the rest, which takes most of the time of a report with many groups.',
      }),
    ),
  },
  { additionalProperties: false },
)

export const USAGE: Omit<Route, 'least'> = {
  summary: 'Tells who spent what',
  description: 'Grouped by one or two of key, team, model, upstream, endpoint, user, day and hour.',
  answer: Usage,
  errors: ['report_too_long', ...NAMED],
}

export const usageController = ({ reports, now }: AdminDeps) =>
  new Elysia({ name: 'usage' })
    .use(access())
    .get(
      '/usage',
      async ({ request, asker, query }) => toAnswer(await reports.usage(asker, toUsageOptions(request, query, now()))),
      { route: { ...USAGE, least: 'viewer' }, query: UsageQuery },
    )

/** What a report of usage is asked for. Throws `invalid`. */
export function toUsageOptions(request: Request, query: Static<typeof UsageQuery>, nowMs: number) {
  const { by = 'key', since = '7d', until, limit = 1_000, figures = 'all' } = query
  const where = {
    keys: toSeveral(request, 'key'),
    teams: toSeveral(request, 'team'),
    models: toSeveral(request, 'model'),
    upstreams: toSeveral(request, 'upstream'),
    endpoints: toSeveral(request, 'endpoint'),
    users: toSeveral(request, 'user'),
  }
  return {
    by: toDimensions(by),
    ...toSpan(since, until, nowMs),
    where,
    limit: toLimit(limit, MOST_ROWS),
    figures,
  }
}
