/** Which requests a list shows: between what its address says and what the API is asked. Pure. */
import { REQUEST_FILTERS, REQUEST_STATUSES, type RequestStatus } from '../../domain/report-filters.ts'

/** Beside the filters of the API: `state`, which is `errors` or a status, how long ago or since when, and before when, in ms. */
export const FILTER_NAMES = [...REQUEST_FILTERS, 'state', 'since', 'until'] as const
/** '' for all. */
export type RequestFilters = Record<(typeof FILTER_NAMES)[number], string>

const STATUS_TEXTS: Readonly<Record<RequestStatus, string>> = {
  ...{ ok: 'Succeeded', failed: 'Failed', cut: 'Interrupted', abandoned: 'Abandoned', open: 'In progress' },
}
export const STATES = [
  ['', 'All statuses'],
  ['errors', 'Errors'],
  ...REQUEST_STATUSES.map((status) => [status, STATUS_TEXTS[status]] as const),
] as const

export const TIMES = [
  ['', 'At any time'],
  ['1h', 'In the last hour'],
  ['24h', 'In the last 24 hours'],
  ['7d', 'In the last 7 days'],
] as const

export const toFilters = (query: URLSearchParams): RequestFilters => {
  const read = (name: keyof RequestFilters) => query.get(name) ?? ''
  return {
    ...{ key: read('key'), team: read('team'), model: read('model'), upstream: read('upstream'), user: read('user') },
    ...{ error_code: read('error_code'), state: read('state'), since: read('since'), until: read('until') },
  }
}

type LiveQuery = Partial<Record<(typeof REQUEST_FILTERS)[number], string>> & { errors?: boolean; status?: string }

/** What those who follow are asked with: what has just ended is of no other time. */
export function toLiveQuery(filters: RequestFilters): LiveQuery {
  const { state } = filters
  const named = Object.fromEntries(REQUEST_FILTERS.flatMap((name) => (filters[name] ? [[name, filters[name]]] : [])))
  if (state === 'errors') return { ...named, errors: true }
  return { ...named, ...(state !== '' && { status: state }) }
}

export const toListQuery = (filters: RequestFilters, before: string | null, limit: number) => ({
  ...toLiveQuery(filters),
  ...(filters.since !== '' && { since: filters.since }),
  ...(filters.until !== '' && { until: filters.until }),
  ...(before !== null && { before }),
  limit,
})

/** What has just ended before what was read before, the newest first, each once. */
export function merge<Row extends { id: string }>(arrived: readonly Row[], read: readonly Row[], most: number): Row[] {
  const rows = new Map([...read, ...arrived].map((row) => [row.id, row]))
  // Ids begin with their time.
  return [...rows.values()].sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, most)
}
