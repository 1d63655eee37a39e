/** How commands tell of an upstream: its state, breakers, deadlines and last error in words. Pure. */
import { toSpan } from '../domain/time.ts'
import type { TestResult, UpstreamFacts } from '../server/protocol.ts'
import { toPrintable } from './text.ts'
import type { UpstreamRow } from './upstream-rows.ts'

const AGES: readonly [unit: string, ms: number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
]

/** Writes how long ago something was: `3 min ago`. What a clock that was set back calls the future is `just now`. */
export function toAgo(atMs: number, nowMs: number): string {
  const age = nowMs - atMs
  const [unit, size] = AGES.find(([, ms]) => age >= ms) ?? []
  return unit === undefined || size === undefined ? 'just now' : `${Math.floor(age / size)} ${unit} ago`
}

export const UPSTREAM_HEADINGS = [
  'ID',
  'DIALECT',
  'ADDRESS',
  'CREDENTIAL',
  'STATE',
  'BREAKERS',
  'HEADERS/FIRST/IDLE/TOTAL/WHOLE',
  'LAST ERROR',
]

/** The cells of a row, under UPSTREAM_HEADINGS. */
export function toUpstreamCells(row: UpstreamRow, nowMs: number): string[] {
  const cells = [
    row.id,
    row.dialect,
    row.base_url ?? '-',
    row.credential ? `${row.credential.variable ?? ''} ${row.credential.status.replace('_', ' ')}`.trim() : '-',
    row.state.replace('_', ' '),
    toBreakers(row),
    toDeadlines(row.deadlines),
    toTrouble(row, nowMs) ?? '-',
  ]
  return cells.map(toPrintable)
}

/** Such as `1 of 3 not closed: openai/gpt-4o open for 8s, for 2 keys only`. */
export function toBreakers({ targets }: Pick<UpstreamRow, 'targets'>): string {
  if (targets.length === 0) return '-'
  const tripped = targets.filter(({ breaker }) => breaker !== 'closed')
  if (tripped.length === 0) return 'closed'
  const which = tripped.map((target) => `${target.model} ${toPhase(target)}`)
  return `${tripped.length} of ${targets.length} not closed: ${which.join(', ')}`
}

/** A half-open one has to wait only while another request is its probe. */
function toPhase({ breaker, retry_in_ms: ms, open_for_keys: keys }: UpstreamRow['targets'][number]): string {
  const whose = keys === null ? '' : ` for ${keys} ${keys === 1 ? 'key' : 'keys'} only`
  if (breaker === 'half_open') return `half-open${whose}${ms === 0 ? '' : ', its probe under way'}`
  return `${ms === null ? 'open' : `open for ${Math.ceil(ms / 1_000)}s`}${whose}`
}

const toDeadlines = (deadlines: UpstreamFacts['deadlines']) =>
  [deadlines.headers_ms, deadlines.first_token_ms, deadlines.idle_ms, deadlines.total_ms, deadlines.total_whole_ms]
    .map(toSpan)
    .join('/')

/** Why an upstream is not up and what went wrong last; null where nothing did. */
export function toTrouble({ reason, last_error: error }: UpstreamRow, nowMs: number): string | null {
  const last = error && `${error.message} (${toAgo(error.at_ms, nowMs)})`
  if (reason === null || reason === error?.message) return last
  return last ? `${reason}; last error: ${last}` : reason
}

/** What came of a test, in words. */
export function toTestMessage({ state, reason }: TestResult): string {
  if (state === 'ready') return 'answers'
  if (state === 'unknown') return 'answers, but not to a request that costs nothing'
  return toPrintable(reason ?? state)
}

/** Whether a test shows that the upstream cannot be used now. */
export const hasFailed = ({ state }: TestResult) => state !== 'ready' && state !== 'unknown'
