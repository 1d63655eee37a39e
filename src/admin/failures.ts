/** Which requests did not end well, by their error code: `/admin/api/failures`. */
import { Elysia, t } from 'elysia'
import { ServiceError } from '../domain/service-error.ts'
import { access } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { Several, toLimit, toSeveral, toSpan } from './query.ts'
import { toAnswer } from './reports.ts'

const MOST_CODES = 1_000

const FailuresQuery = t.Object(
  {
    /** `day` or `hour`. */
    step: t.Optional(t.String()),
    since: t.Optional(t.String()),
    until: t.Optional(t.String()),
    ...{ key: Several, team: Several, model: Several, upstream: Several },
    limit: t.Optional(t.Integer()),
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
    { least: 'viewer', query: FailuresQuery },
  )

const NO_STEP = 'The field step is invalid: it must be day or hour.'
