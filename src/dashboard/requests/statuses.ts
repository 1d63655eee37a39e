/** Texts of request statuses, also for pages of keys. */
import type { RequestStatus } from '../../domain/report-filters.ts'

export const STATUS_KINDS = { ok: 'good', failed: 'bad', cut: 'warn', abandoned: 'warn', open: 'off' } as const

export const STATUS_TEXTS: Readonly<Record<RequestStatus, string>> = {
  ...{ ok: 'Succeeded', failed: 'Failed', cut: 'Interrupted', abandoned: 'Abandoned', open: 'In progress' },
}
