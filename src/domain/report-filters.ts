/**
 * What usage is told apart by, and what reports and lists of requests are filtered by: each once, for the parameters of the admin API and
 * their description, the flags of commands and their help, the columns of reports, and the filters and lists of the dashboard.
 */

/** Of reports of usage, each with any number of values. */
export const USAGE_FILTERS = ['key', 'team', 'model', 'upstream', 'endpoint', 'user'] as const
export type UsageFilterName = (typeof USAGE_FILTERS)[number]

/** Those that have a name beside the ID that requests are recorded with. */
const NAMED = ['key', 'team'] as const satisfies UsageFilterName[]
export type NamedDimension = (typeof NAMED)[number]
export const isNamed = (dimension: Dimension): dimension is NamedDimension => NAMED.some((one) => one === dimension)

/** Days and hours are those of UTC in which a request was created. */
const TIMES = { day: 'Day (UTC)', hour: 'Hour (UTC)' } as const
export type TimeDimension = keyof typeof TIMES
export const isTime = (dimension: Dimension): dimension is TimeDimension => dimension in TIMES

export const DIMENSIONS = [...USAGE_FILTERS, 'day', 'hour'] as const
export type Dimension = UsageFilterName | TimeDimension

/** How a request stands, or has ended. */
export const REQUEST_STATUSES = ['ok', 'failed', 'cut', 'abandoned', 'open'] as const
export type RequestStatus = (typeof REQUEST_STATUSES)[number]

/** Those that did not succeed. */
export const ERROR_STATUSES = ['failed', 'cut', 'abandoned'] as const satisfies RequestStatus[]

interface Parameter {
  /** What columns, lists and filters call it, with an `s` for all of them. */
  title?: string
  /** What its flag takes; null: a switch. */
  argument: string | null
  /** A noun phrase, without a full stop. */
  description: string
}

/** By the name of its parameter; its flag has dashes. */
export const REPORT_PARAMETERS = {
  key: { title: 'Key', argument: '<key>', description: 'Key: its name, its ID, or part of the ID' },
  team: {
    title: 'Team',
    argument: '<team>',
    description: 'Team of the key at the time: its name, its ID, or part of the ID',
  },
  model: { title: 'Model', argument: '<pattern>', description: 'Model ID, alias, or pattern such as openai/*' },
  upstream: {
    title: 'Upstream',
    argument: '<id>',
    description: 'Upstream ID; of a request, the upstream called last',
  },
  endpoint: { title: 'Endpoint', argument: '<name>', description: 'Endpoint, such as chat' },
  user: { title: 'User', argument: '<user>', description: 'User, as named by the client' },
  error_code: { title: 'Error', argument: '<code>', description: 'Error code, such as upstream_timeout' },
  status: { argument: '<status>', description: `Status: ${REQUEST_STATUSES.join(', ')}, or several with commas` },
  errors: { argument: null, description: `Only requests that did not succeed: ${ERROR_STATUSES.join(', ')}` },
  since: {
    argument: '<time>',
    description: 'Start: 7d or 24h (ago), or a date such as 2027-01-31 or 2027-01-31T12:30 (UTC)',
  },
  until: { argument: '<time>', description: 'End, as for the start; itself excluded' },
  by: {
    argument: '<dimensions>',
    description: `One or two of ${DIMENSIONS.join(', ')}, with a comma between, such as key,model`,
  },
  before: { argument: '<id>', description: 'Only rows older than this ID: next of the page before' },
  limit: { argument: '<n>', description: 'Maximum number of rows' },
  actor: { argument: '<name>', description: 'Who: cli, server, or the name or ID of a user or a token' },
  action: { argument: '<action>', description: 'Action such as keys.edit, or keys for the whole group' },
  subject: { argument: '<name>', description: 'What was changed: its name or its ID' },
} as const satisfies Record<string, Parameter> & Record<UsageFilterName, Required<Parameter>>
export type ReportParameter = keyof typeof REPORT_PARAMETERS

/** What a column of a report is called. */
export const toDimensionTitle = (dimension: Dimension): string =>
  isTime(dimension) ? TIMES[dimension] : REPORT_PARAMETERS[dimension].title

/** Of reports of failures. */
export const FAILURE_FILTERS = ['key', 'team', 'model', 'upstream'] as const satisfies Dimension[]
/** Of requests, each with one value; beside them `status` and `errors`. */
export const REQUEST_FILTERS = ['key', 'team', 'model', 'upstream', 'user', 'error_code'] as const
export type RequestFilterName = (typeof REQUEST_FILTERS)[number]

/** Of what the overview lists those that cost most: at once, … */
export const TOPS = ['key', 'model', 'team', 'upstream'] as const satisfies UsageFilterName[]
/** … and once it is wanted, as it is in no sums, and the requests of the whole range are gone through for it. Each with what it is. */
export const WANTED_TOPS = { user: 'As clients name theirs.' } as const satisfies Partial<
  Record<UsageFilterName, string>
>
