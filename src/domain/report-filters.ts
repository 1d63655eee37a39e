/** Dimensions and filters, defined once for API, flags, reports, and dashboard. */

/** Any number of values each. */
export const USAGE_FILTERS = ['key', 'team', 'model', 'upstream', 'endpoint', 'user'] as const
export type UsageFilterName = (typeof USAGE_FILTERS)[number]

/** Filters that have a name in addition to an ID. */
const NAMED = ['key', 'team'] as const satisfies UsageFilterName[]
export type NamedDimension = (typeof NAMED)[number]
export const isNamed = (dimension: Dimension): dimension is NamedDimension => NAMED.some((one) => one === dimension)

/** When a request was created. */
const TIMES = { day: 'Day (UTC)', hour: 'Hour (UTC)' } as const
export type TimeDimension = keyof typeof TIMES
export const isTime = (dimension: string): dimension is TimeDimension => dimension in TIMES

export const DIMENSIONS = [...USAGE_FILTERS, 'day', 'hour'] as const
export type Dimension = UsageFilterName | TimeDimension

export const REQUEST_STATUSES = ['ok', 'failed', 'cut', 'abandoned', 'open'] as const
export type RequestStatus = (typeof REQUEST_STATUSES)[number]

export const ERROR_STATUSES = ['failed', 'cut', 'abandoned'] as const satisfies RequestStatus[]

/** Error code of requests that the client ended, for example with a Stop button. */
export const CLIENT_CLOSED = 'client_closed_request'

/** Key of corrections from a provider's bill. */
export const CORRECTION = 'correction'

interface Parameter {
  /** Singular; the plural adds an `s`. */
  title?: string
  /** null: a switch. */
  argument: string | null
  /** A noun phrase without a full stop. */
  description: string
}

/** Flags use dashes. */
export const REPORT_PARAMETERS = {
  key: { title: 'Key', argument: '<key>', description: 'Key: name, ID, or part of the ID' },
  team: {
    title: 'Team',
    argument: '<team>',
    description: 'Team of the key at request time: name, ID, or part of the ID',
  },
  model: { title: 'Model', argument: '<pattern>', description: 'Model ID, alias, or pattern such as openai/*' },
  upstream: {
    title: 'Upstream',
    argument: '<id>',
    description: 'Upstream ID; requests count for the upstream called last',
  },
  endpoint: { title: 'Endpoint', argument: '<name>', description: 'Endpoint, such as chat, images, or realtime' },
  user: { title: 'User', argument: '<user>', description: 'User, as reported by the client' },
  owner: { title: 'Owner', argument: '<user>', description: 'Owner of the key: name or ID of a user' },
  error_code: { title: 'Error', argument: '<code>', description: 'Error code, such as upstream_timeout' },
  code: {
    title: 'Code',
    argument: '<code>',
    description: 'Code of refused requests, such as insufficient_quota or request_limit',
  },
  status: { argument: '<status>', description: `Status: ${REQUEST_STATUSES.join(', ')}; separate several with commas` },
  errors: { argument: null, description: `Only requests with errors: ${ERROR_STATUSES.join(', ')}` },
  since: {
    argument: '<time>',
    description: 'Start: 7d or 24h (ago), today, yesterday, or a date such as 2027-01-31 or 2027-01-31T12:30 (UTC)',
  },
  until: { argument: '<time>', description: 'End, exclusive; same formats as the start' },
  by: {
    argument: '<dimensions>',
    description: `One or two of ${DIMENSIONS.join(', ')}, separated by a comma, such as key,model`,
  },
  before: { argument: '<id>', description: 'Only rows older than this ID, which the previous page ends with' },
  limit: { argument: '<n>', description: 'Maximum number of rows' },
  actor: { argument: '<name>', description: 'Actor: cli, server, or the name or ID of a user or token' },
  action: { argument: '<action>', description: 'Action such as keys.edit, or a group such as keys' },
  subject: { argument: '<name>', description: 'Changed object: name or ID' },
} as const satisfies Record<string, Parameter> & Record<UsageFilterName, Required<Parameter>>
export type ReportParameter = keyof typeof REPORT_PARAMETERS

/** Any number of values each. */
export const REFUSAL_FILTERS = ['key', 'team', 'code'] as const satisfies ReportParameter[]
export const REFUSAL_DIMENSIONS = [...REFUSAL_FILTERS, 'day', 'hour'] as const
export type RefusalDimension = (typeof REFUSAL_DIMENSIONS)[number]

export const toDimensionTitle = (dimension: Dimension | RefusalDimension): string =>
  isTime(dimension) ? TIMES[dimension] : REPORT_PARAMETERS[dimension].title

export const FAILURE_FILTERS = ['key', 'team', 'model', 'upstream'] as const satisfies Dimension[]
/** One value each; also `status` and `errors`. */
export const OWN_REQUEST_FILTERS = ['key', 'team', 'model', 'upstream', 'endpoint', 'user', 'error_code'] as const
/** For administrators, since members see only their own keys. */
export const REQUEST_FILTERS = [...OWN_REQUEST_FILTERS, 'owner'] as const
export type RequestFilterName = (typeof REQUEST_FILTERS)[number]

/** Groups of the overview's breakdown. Requests are scanned for users, since totals don't have them. */
export const BREAKDOWNS = ['model', 'key', 'team', 'upstream', 'user'] as const satisfies UsageFilterName[]
