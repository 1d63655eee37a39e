/** What the page of changes reads. */
import { api, ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'

const FRESH_MS = 15_000
const ROWS = 50

export const FILTERS = ['since', 'actor', 'action', 'subject'] as const

/** As the address has it; '' for none. */
export type AuditFilter = Record<(typeof FILTERS)[number] | 'before', string>

/** A page of them, newest first. What is older stays as it is. */
export function useAudit(filter: AuditFilter) {
  const query = Object.fromEntries(Object.entries(filter).filter(([, text]) => text !== ''))
  return useLoaded(
    `audit?${new URLSearchParams(query)}`,
    () => ask(api.audit.get({ query: { ...query, limit: ROWS } })),
    filter.before === '' ? { everyMs: FRESH_MS } : {},
  )
}
