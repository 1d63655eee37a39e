/** The audit log in JSON, for the CLI and the admin API. */
import { type Static, Type } from '@sinclair/typebox'
import type { AuditPage as Page } from '../keys/audit-log.ts'
import { Fields, Text, TextOrNull, Time } from './fields.ts'

export const AuditRow = Type.Object({
  ...{ id: Text, at_ms: Time, actor: Text, actor_name: TextOrNull, action: Text, subject: Text },
  detail: Fields,
})
export const AuditPage = Type.Object({ audit: Type.Array(AuditRow), next: TextOrNull })
export type AuditPageDocument = Static<typeof AuditPage>

export const toAuditPageDocument = ({ audit, next }: Page): AuditPageDocument => ({
  audit: audit.map(({ id, atMs, actor, actorName, action, subject, detail }) => ({
    ...{ id, at_ms: atMs, actor, actor_name: actorName, action, subject, detail },
  })),
  next,
})
