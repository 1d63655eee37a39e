/** Which requests did not end well, by their error code: `/admin/api/failures`. */
import { Type } from '@sinclair/typebox'
import { Elysia, t } from 'elysia'
import { Failures } from '../documents/usage.ts'
import { FAILURE_FILTERS } from '../domain/report-filters.ts'
import { ServiceError } from '../domain/service-error.ts'
import { access } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { Limit, NAMED, one, several, toLimit, toSpan, toWhere } from './query.ts'
import { toAnswer } from './reports.ts'

const MOST_CODES = 1_000

const FailuresQuery = t.Object(
  {
    step: Type.Optional(
      Type.String({ description: 'The time that a row is of: day or hour.', values: { enum: ['day', 'hour'] } }),
    ),
    ...one('since', 'until'),
    ...several(...FAILURE_FILTERS),
    limit: Limit,
  },
  { additionalProperties: false },
)

export const failuresController = ({ reports, now }: AdminDeps) =>
  new Elysia({ name: 'failures' }).use(access()).get(
    '/failures',
    async ({ request, asker, query: { step: by = 'day', since = '7d', until, limit = 50 } }) => {
      if (by !== 'day' && by !== 'hour') throw new ServiceError({ kind: 'invalid', field: 'step' }, NO_STEP)
      const options = {
        by,
        ...toSpan(since, until, now()),
        where: toWhere(request, FAILURE_FILTERS),
        limit: toLimit(limit, MOST_CODES, asker),
      } as const
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
