/** Who changed what: `/admin/api/audit`, as `tollgate audit log` has it. */

import { Elysia, t } from 'elysia'
import { AuditPage } from '../documents/audit.ts'
import { toDefined } from '../domain/changes.ts'
import { access } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { Before, Limit, Since, text, toLimit, toTimeOrNone } from './query.ts'
import { toAnswer } from './reports.ts'

const MOST_ROWS = 1_000

const AuditQuery = t.Object(
  {
    since: Since,
    actor: text('Who: `cli`, `server`, or the id or the name of somebody who may sign in.'),
    action: text('Such as `keys.edit`, or `keys` for all of that group.'),
    subject: text('What was changed: a name or an id.'),
    ...{ limit: Limit, before: Before },
  },
  { additionalProperties: false },
)

export const auditController = ({ reports, now }: AdminDeps) =>
  new Elysia({ name: 'audit' }).use(access()).get(
    '/audit',
    async ({ asker, query: { since, limit = 50, ...filter } }) => {
      const sinceMs = toTimeOrNone('since', since, now())
      const options = { ...toDefined({ ...filter, sinceMs }), limit: toLimit(limit, MOST_ROWS) }
      return toAnswer(await reports.audit(asker, options))
    },
    {
      route: {
        least: 'viewer',
        summary: 'Lists who changed what, newest first',
        answer: AuditPage,
        errors: ['report_too_long'],
      },
      query: AuditQuery,
    },
  )
