/** Who spent what: `/admin/api/usage`, with the filters and the document of `tollgate usage`. */
import type { Static } from '@sinclair/typebox'
import { Elysia, t } from 'elysia'
import { Usage } from '../documents/usage.ts'
import { DIMENSIONS, USAGE_FILTERS } from '../domain/report-filters.ts'
import { toDimensions } from '../ledger/usage.ts'
import { access, type Route } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { Limit, NAMED, one, several, toLimit, toSpan, toWhere } from './query.ts'
import { type Asker, toAnswer } from './reports.ts'

const MOST_ROWS = 10_000

export const UsageQuery = t.Object(
  {
    ...one('by', 'since', 'until'),
    ...several(...USAGE_FILTERS),
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
  description: `Grouped by one or two of ${DIMENSIONS.join(', ')}.`,
  answer: Usage,
  errors: ['report_too_long', ...NAMED],
}

export const usageController = ({ reports, now }: AdminDeps) =>
  new Elysia({ name: 'usage' })
    .use(access())
    .get(
      '/usage',
      async ({ request, asker, query }) =>
        toAnswer(await reports.usage(asker, toUsageOptions(request, query, asker, now()))),
      { route: { ...USAGE, least: 'viewer' }, query: UsageQuery },
    )

/** What a report of usage is asked for. Throws `invalid`. */
export function toUsageOptions(request: Request, query: Static<typeof UsageQuery>, asker: Asker, nowMs: number) {
  const { by = 'key', since = '7d', until, limit = 1_000, figures = 'all' } = query
  return {
    by: toDimensions(by),
    ...toSpan(since, until, nowMs),
    where: toWhere(request, USAGE_FILTERS),
    limit: toLimit(limit, MOST_ROWS, asker),
    figures,
  }
}
