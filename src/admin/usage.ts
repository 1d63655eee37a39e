/** Who spent what: `/admin/api/usage`, with the filters and the document of `tollgate usage`. */
import type { Static } from '@sinclair/typebox'
import { Elysia, t } from 'elysia'
import { toDimensions } from '../ledger/usage.ts'
import { access } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { Several, toLimit, toSeveral, toSpan } from './query.ts'
import { toAnswer } from './reports.ts'

const MOST_ROWS = 10_000

export const UsageQuery = t.Object(
  {
    /** One or two dimensions, such as `key,model`. */
    by: t.Optional(t.String()),
    since: t.Optional(t.String()),
    until: t.Optional(t.String()),
    ...{ key: Several, team: Several, model: Several, upstream: Several, endpoint: Several, user: Several },
    limit: t.Optional(t.Integer()),
    figures: t.Optional(t.UnionEnum(['all', 'spend'])),
  },
  { additionalProperties: false },
)

export const usageController = ({ reports, now }: AdminDeps) =>
  new Elysia({ name: 'usage' })
    .use(access())
    .get(
      '/usage',
      async ({ request, asker, query }) => toAnswer(await reports.usage(asker, toUsageOptions(request, query, now()))),
      { least: 'viewer', query: UsageQuery },
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
