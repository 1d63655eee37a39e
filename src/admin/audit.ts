/** Who changed what: `/admin/api/audit`, as `tollgate audit log` has it. */

import { Elysia, t } from 'elysia'
import { AuditPage } from '../documents/audit.ts'
import { toDefined } from '../domain/changes.ts'
import { access } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { Limit, one, toLimit, toTimeOrNone } from './query.ts'
import { toAnswer } from './reports.ts'

const MOST_ROWS = 1_000

const AuditQuery = t.Object(
  {
    ...one('since', 'actor', 'action', 'subject', 'before'),
    limit: Limit,
  },
  { additionalProperties: false },
)

export const auditController = ({ reports, now }: AdminDeps) =>
  new Elysia({ name: 'audit' }).use(access()).get(
    '/audit',
    async ({ asker, query: { since, limit = 50, ...filter } }) => {
      const sinceMs = toTimeOrNone('since', since, now())
      const options = { ...toDefined({ ...filter, sinceMs }), limit: toLimit(limit, MOST_ROWS, asker) }
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
