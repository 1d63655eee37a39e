/** Who changed what: `/admin/api/audit`, as `tollgate audit log` has it. */
import { Type } from '@sinclair/typebox'
import { Elysia, t } from 'elysia'
import { toDefined } from '../domain/changes.ts'
import { access } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { toLimit, toTimeOrNone } from './query.ts'
import { toAnswer } from './reports.ts'

const MOST_ROWS = 1_000
const Text = Type.Optional(Type.String())

const AuditQuery = t.Object(
  {
    ...{ since: Text, actor: Text, action: Text, subject: Text },
    limit: t.Optional(t.Integer()),
    /** `next` of the page before. */
    before: Text,
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
    { least: 'viewer', query: AuditQuery },
  )
