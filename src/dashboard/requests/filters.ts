/** Which requests a list shows: between what its address says and what the API is asked. Pure. */

export interface RequestFilters {
  /** An id; '' for all, as with the others. */
  key: string
  model: string
  upstream: string
  team: string
  /** As clients name theirs. */
  user: string
  /** An error code. */
  code: string
  /** `errors`: those that did not end well; a status. */
  state: string
  /** How long ago they may have begun, `1h`, or since when, in ms. */
  since: string
  /** Before when they began, in ms. */
  until: string
}

export const STATES = [
  ['', 'In any state'],
  ['errors', 'Did not end well'],
  ['ok', 'Ended well'],
  ['failed', 'Failed'],
  ['cut', 'Broke off'],
  ['open', 'Under way'],
] as const

export const TIMES = [
  ['', 'At any time'],
  ['1h', 'In the last hour'],
  ['24h', 'In the last 24 hours'],
  ['7d', 'In the last 7 days'],
] as const

export const FILTER_NAMES = ['key', 'model', 'upstream', 'team', 'user', 'code', 'state', 'since', 'until'] as const

export const toFilters = (query: URLSearchParams): RequestFilters =>
  Object.fromEntries(FILTER_NAMES.map((name) => [name, query.get(name) ?? ''])) as unknown as RequestFilters

interface LiveQuery {
  key?: string
  model?: string
  upstream?: string
  team?: string
  user?: string
  error_code?: string
  errors?: boolean
  status?: string
}

/** What those who follow are asked with: what has just ended is of no other time. */
export function toLiveQuery({ key, model, upstream, team, user, code, state }: RequestFilters): LiveQuery {
  const fields = { key, model, upstream, team, user, error_code: code }
  const named = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''))
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
