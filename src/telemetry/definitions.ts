/**
 * All metrics. Labels have closed sets of values, and at most one is an owner from the configuration. So series add up
 * instead of multiplying, and no request can create a series.
 */
import { ERROR_KINDS } from '../domain/error.ts'
import { keysOf } from '../domain/json.ts'
import { ENDPOINT_PATHS } from '../domain/task.ts'
import { UNIT_COLUMNS } from '../domain/units.ts'
import { UPSTREAM_STATES } from '../domain/upstream-state.ts'
import { NANO_PER_USD } from '../domain/usage.ts'

/** By ID; teams are shown by name. */
export type Owner = 'model' | 'upstream' | 'team'

interface Described {
  name: string
  help: string
}

/** Counted when an event happens. */
export interface Counted extends Described {
  type: 'counter' | 'histogram'
  owner: Owner | null
  /** Values by label. */
  labels: Readonly<Record<string, readonly string[]>>
  /** Owners beyond this number are counted together, as `other`. */
  most: number
  /** Stored as integers: number of parts per unit. */
  perUnit: number
  /** Upper bounds of buckets; empty for counters. */
  bounds: readonly number[]
}

/** Read at each scrape. */
export interface Read extends Described {
  type: 'counter' | 'gauge'
  labels: readonly string[]
}

/** Enough for the models of a large catalog; a counter has one line per owner. */
const MOST_OWNERS = 1_000
/** A histogram has a dozen lines per owner. */
const MOST_DISTRIBUTIONS = 50
/** Keys or teams whose budgets have the highest use. */
export const MOST_BUDGETS = 200

export const OTHER = 'other'
/** As clients see it. `cut`: the response began and didn't end. */
export const STATUSES = ['2xx', '4xx', '5xx', 'cut'] as const
export const TOKEN_TYPES = ['input', 'cache_read', 'cache_write', 'output', 'reasoning'] as const
export const CALL_OUTCOMES = ['ok', 'cut', 'connection', 'deadline', '4xx', '429', '5xx', 'broken', 'aborted'] as const
const CALL_REASONS = ['first', 'retry', 'fallback', 'limit', 'fan_out', 'schema'] as const
/** Not counted: requests to other paths aren't model requests. */
const OF_PATHS: readonly string[] = ['unknown_url', 'method_not_supported', 'websocket_not_supported']
const REJECTIONS = ERROR_KINDS.filter((kind) => !OF_PATHS.includes(kind))
/** Upstreams can send any code; unknown ones count as `other`. */
const ERROR_REASONS = [...REJECTIONS, OTHER]

export const HEALTH_STATES = keysOf(UPSTREAM_STATES).filter((state) => state !== 'disabled')

/** From a small model's first token to an hour of reasoning. */
const SECONDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 600]
const FIRST_TOKEN = [0.1, 0.2, 0.4, 0.7, 1, 1.5, 2.5, 5, 10, 20, 60]
const SHORT = [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1]
const SPEEDS = [5, 10, 20, 40, 60, 80, 120, 160, 240, 400, 1_000]

type Labels = Counted['labels']

const counter = (name: string, help: string, owner: Owner | null, labels: Labels = {}, perUnit = 1) =>
  ({ type: 'counter', name, help, owner, labels, perUnit, most: MOST_OWNERS, bounds: [] }) as const

const histogram = (name: string, help: string, bounds: number[], owner: Owner | null = null, labels: Labels = {}) =>
  ({ type: 'histogram', name, help, owner, labels, bounds, most: MOST_DISTRIBUTIONS, perUnit: 1 }) as const

const gauge = (name: string, help: string, ...labels: string[]) => ({ type: 'gauge', name, help, labels }) as const

const STATUS = { status: STATUSES }
const TYPE = { type: TOKEN_TYPES }

export const COUNTED = {
  requests: counter('tollgate_requests_total', 'Finished requests, by model and endpoint', 'model', {
    endpoint: keysOf(ENDPOINT_PATHS),
    status: STATUSES,
  }),
  errors: counter(
    'tollgate_request_errors_total',
    'Finished requests that failed or were interrupted, by reason',
    null,
    {
      reason: ERROR_REASONS,
    },
  ),
  rejected: counter(
    'tollgate_requests_rejected_total',
    'Requests rejected before they were recorded, by reason',
    null,
    {
      reason: REJECTIONS,
    },
  ),
  tokens: counter('tollgate_tokens_total', 'Tokens of finished requests; the types add up', 'model', TYPE),
  units: counter('tollgate_units_total', 'Other usage of finished requests, such as ms of audio', 'model', {
    unit: UNIT_COLUMNS,
  }),
  cost: counter('tollgate_cost_usd_total', 'Cost of finished requests, in US dollars', 'model', {}, NANO_PER_USD),
  teamRequests: counter('tollgate_team_requests_total', 'Finished requests of a team', 'team', STATUS),
  teamTokens: counter('tollgate_team_tokens_total', 'Tokens of a team', 'team', TYPE),
  teamCost: counter('tollgate_team_cost_usd_total', 'Cost of a team, in US dollars', 'team', {}, NANO_PER_USD),
  duration: histogram('tollgate_request_duration_seconds', 'Time until the response was complete', SECONDS, 'model'),
  firstToken: histogram(
    'tollgate_time_to_first_token_seconds',
    'Time until the first token of a stream',
    FIRST_TOKEN,
    'model',
  ),
  speed: histogram(
    'tollgate_output_tokens_per_second',
    'Output speed of streams after their first token',
    SPEEDS,
    'model',
  ),
  overhead: histogram(
    'tollgate_overhead_seconds',
    'Time in Tollgate: from the whole request body to the first call, and from the end of the last call until the request is recorded',
    SHORT,
    null,
    { side: ['before', 'after'] },
  ),
  calls: counter('tollgate_upstream_calls_total', 'Calls of upstreams, by reason and outcome', 'upstream', {
    reason: CALL_REASONS,
    outcome: CALL_OUTCOMES,
  }),
  callDuration: histogram('tollgate_upstream_call_duration_seconds', 'Duration of a call', SECONDS, 'upstream'),
  upstreamCost: counter(
    'tollgate_upstream_cost_usd_total',
    'Cost at an upstream, by its last call',
    'upstream',
    {},
    NANO_PER_USD,
  ),
  otlp: counter('tollgate_otlp_items_total', 'Spans and metric documents for the collector of --otlp', null, {
    signal: ['traces', 'metrics'],
    outcome: ['sent', 'dropped'],
  }),
  commit: histogram('tollgate_ledger_commit_seconds', 'Time to write a group of records to the journal', SHORT),
  apply: histogram('tollgate_ledger_apply_seconds', 'Time to write a batch of records to the database', SHORT),
  lag: histogram('tollgate_event_loop_lag_seconds', 'Delay of a timer, measured from the first scrape on', SHORT),
} satisfies Record<string, Counted>
export type CountedName = keyof typeof COUNTED

export const READ = {
  build: gauge('tollgate_build_info', 'Version of Tollgate and of its runtime; always 1', 'version', 'bun'),
  readiness: gauge('tollgate_readiness', '1 for the current state of /readyz', 'state'),
  inFlight: gauge('tollgate_requests_in_flight', 'Requests in flight'),
  maxInFlight: gauge('tollgate_requests_in_flight_limit', 'Value of --max-in-flight, or what open files allow'),
  buffered: gauge('tollgate_request_memory_bytes', 'Memory held by requests in flight'),
  queued: gauge('tollgate_upstream_queued_requests', 'Requests that wait for a local upstream', 'upstream'),
  state: gauge('tollgate_upstream_state', `1 for the current state: ${HEALTH_STATES.join(', ')}`, 'upstream', 'state'),
  breakers: gauge('tollgate_upstream_open_breakers', 'Routes whose circuit breaker is not closed', 'upstream'),
  suspended: gauge('tollgate_upstream_suspended_credentials', 'Suspended credentials', 'upstream', 'state'),
  keyBudget: gauge('tollgate_key_budget_usd', `Budget per period; the ${MOST_BUDGETS} most used`, 'key', 'key_id'),
  keyLeft: gauge('tollgate_key_budget_left_usd', 'Remaining budget, minus reservations', 'key', 'key_id'),
  teamBudget: gauge('tollgate_team_budget_usd', `Budget per period; the ${MOST_BUDGETS} most used`, 'team'),
  teamLeft: gauge('tollgate_team_budget_left_usd', 'Remaining budget, minus reservations', 'team'),
  pending: gauge('tollgate_ledger_pending_records', 'Records in the journal that are not in the database yet'),
  pendingAge: gauge('tollgate_ledger_pending_seconds', 'Age of the oldest pending record; 0 if none'),
  diskUsed: gauge('tollgate_data_used_bytes', 'Size of the data folder'),
  diskFree: gauge('tollgate_data_free_bytes', 'Free space on the disk of the data folder'),
  backupAge: gauge('tollgate_backup_timestamp_seconds', 'Time of the newest backup'),
  backupFailed: gauge('tollgate_backup_failed', '1 if the last scheduled backup failed'),
  certificate: gauge('tollgate_certificate_expiry_timestamp_seconds', 'End of a certificate of --tls-cert', 'name'),
  cluster: gauge('tollgate_cluster_reachable', '1 if this node of a cluster reaches PostgreSQL, otherwise 0'),
  clusterNodes: gauge('tollgate_cluster_nodes', 'Nodes of the cluster seen in the last seconds'),
  clusterConfigAge: gauge(
    'tollgate_cluster_configuration_age_seconds',
    'For how long configuration changes of other nodes may be missing here; 0 if none',
  ),
  unshipped: gauge('tollgate_cluster_ledger_pending_entries', 'Changes of the ledger that PostgreSQL lacks'),
  unshippedAge: gauge('tollgate_cluster_ledger_pending_seconds', 'Age of the oldest such change; 0 if none'),
  clusterLeader: gauge('tollgate_cluster_leader', '1 if this node leads the cluster'),
  clusterLimits: gauge(
    'tollgate_cluster_limits_shared',
    '1 if this node enforces the limits of all nodes, otherwise 0',
  ),
  cpu: {
    type: 'counter',
    name: 'process_cpu_seconds_total',
    help: 'CPU time of all processes of the server',
    labels: [],
  },
  rss: gauge('process_resident_memory_bytes', 'Resident memory of all processes of the server'),
  started: gauge('process_start_time_seconds', 'Start time of the process'),
} as const satisfies Record<string, Read>
export type ReadName = keyof typeof READ

const UNITS = ['seconds', 'bytes', 'usd'] as const
export type Unit = (typeof UNITS)[number]

/** Null if the name doesn't end in a unit. */
export const unitOf = (name: string): Unit | null =>
  UNITS.find((unit) => name.replace(/_total$/, '').endsWith(`_${unit}`)) ?? null

/** Writers of metrics yield to requests after this time. */
export const TURN_MS = 2

export const DEFINITIONS: readonly (Counted | Read)[] = [...Object.values(COUNTED), ...Object.values(READ)]
