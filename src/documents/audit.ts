/** Who changed what, under the columns' names, as `audit log --json` prints it and the admin API answers. Pure. */
import type { AuditPage } from '../keys/audit-log.ts'

export const toAuditPageDocument = ({ audit, next }: AuditPage) => ({
  audit: audit.map(({ id, atMs, actor, actorName, action, subject, detail }) => ({
    id,
    at_ms: atMs,
    actor,
    actor_name: actorName,
    action,
    subject,
    detail,
  })),
  next,
})

export type AuditPageDocument = ReturnType<typeof toAuditPageDocument>
