/** Which requests did not end well, by their error code: `/admin/api/failures`. */
import { Elysia, t } from 'elysia'
import { Failures } from '../documents/usage.ts'
import { ServiceError } from '../domain/service-error.ts'
import { access } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { FILTERS, Limit, NAMED, Since, several, text, toLimit, toSeveral, toSpan, Until } from './query.ts'
import { toAnswer } from './reports.ts'

const MOST_CODES = 1_000

const FailuresQuery = t.Object(
  {
    step: text('The time that a row is of: day or hour.', { enum: ['day', 'hour'] }),
    ...{ since: Since, until: Until },
    ...{ key: several(FILTERS.key), team: several(FILTERS.team) },
    ...{ model: several(FILTERS.model), upstream: several(FILTERS.upstream) },
    limit: Limit,
  },
  { additionalProperties: false },
)

export const failuresController = ({ reports, now }: AdminDeps) =>
  new Elysia({ name: 'failures' }).use(access()).get(
    '/failures',
    async ({ request, asker, query: { step: by = 'day', since = '7d', until, limit = 50 } }) => {
      if (by !== 'day' && by !== 'hour') throw new ServiceError({ kind: 'invalid', field: 'step' }, NO_STEP)
      const where = {
        keys: toSeveral(request, 'key'),
        teams: toSeveral(request, 'team'),
        models: toSeveral(request, 'model'),
        upstreams: toSeveral(request, 'upstream'),
      }
      const options = { by, ...toSpan(since, until, now()), where, limit: toLimit(limit, MOST_CODES) } as const
      return toAnswer(await reports.failures(asker, options))
    },
    {
      route: {
        least: 'viewer',
        summary: 'Tells which requests did not end well, by error code',
        description:
          'By the UTC hour or day in which they were created, as far back as requests are kept. `limit` is of codes.',
        answer: Failures,
        errors: ['report_too_long', ...NAMED],
      },
      query: FailuresQuery,
    },
  )

const NO_STEP = 'The field step is invalid: it must be day or hour.'
