/**
 * Every upstream of the database together with what the running server knows of it, if one runs, and how commands tell of it
 * in words: what is behind `upstreams list` and `doctor`. Pure.
 */

import type { Environment, Upstream } from '../domain/snapshot.ts'
import { toSpan } from '../domain/time.ts'
import { count } from '../domain/words.ts'
import type { UpstreamHealth } from '../health/report.ts'
import { type Status, toUpstreamFacts, type UpstreamFacts } from '../server/protocol.ts'
import type { UpstreamRow } from '../store/catalog-rows.ts'
import { toUpstream } from '../store/snapshot.ts'
import { toAgo, toDescribedTable, toPrintable } from './io.ts'
import { NOT_TAKEN_IN } from './live.ts'
import type { Paint } from './terminal.ts'

/** An upstream as the database declares it, its credential looked for in this process's environment. */
export interface StoredUpstream {
  upstream: Upstream
  enabled: boolean
  origin: string
}

/** One upstream as `upstreams list --json` shows it. */
export interface ShownUpstream extends UpstreamFacts, Omit<UpstreamHealth, 'state'> {
  state: UpstreamHealth['state'] | 'disabled'
  enabled: boolean
  origin: string
  /** Null where it needs none. Never the credential itself. */
  credential: { variable: string | null; status: 'set' | 'not_set' } | null
}

/** All upstreams, also the disabled ones, in the order in which they were declared. */
export function toDeclared(rows: readonly UpstreamRow[], environment: Environment): StoredUpstream[] {
  return rows.map((row) => ({
    upstream: toUpstream(row, environment, 'here'),
    enabled: row.enabled,
    origin: row.origin,
  }))
}

/** Joins one with what the server says of it; without a server, `state` is all that this process can tell. */
export function toRow(declared: StoredUpstream, status: Status | null): ShownUpstream {
  const { upstream, enabled, origin } = declared
  const { variable } = upstream
  const known = enabled ? status?.upstreams.find(({ id }) => id === upstream.id) : undefined
  if (known) {
    const { credential, ...rest } = known
    return { ...rest, enabled, origin, credential: credential === 'none' ? null : { variable, status: credential } }
  }
  const found = upstream.credential === null ? 'not_set' : 'set'
  return {
    id: upstream.id,
    ...toUpstreamFacts(upstream),
    enabled,
    origin,
    credential: variable === null ? null : { variable, status: found },
    ...toUnasked(declared, status !== null),
    last_ok_ms: null,
    last_error: null,
    targets: [],
  }
}

/** Why nobody can say how an upstream is doing. */
function toUnasked({ upstream, enabled }: StoredUpstream, serves: boolean): Pick<ShownUpstream, 'state' | 'reason'> {
  if (!enabled) return { state: 'disabled', reason: null }
  if (serves) return { state: 'unknown', reason: NOT_TAKEN_IN }
  // What it lacks here it may well have where the server will run.
  return { state: 'unknown', reason: upstream.notReady }
}

/** The table of `upstreams list`: one line an upstream that fits a terminal, and beneath it how it is and what it is given. */
export function toUpstreamTable(rows: readonly ShownUpstream[], nowMs: number, paint: Paint): string {
  const notes = rows.map((row) => toNotes(row, nowMs).map(toPrintable))
  return toDescribedTable(['ID', 'STATE', 'CREDENTIAL', 'ADDRESS'], rows.map(toCells), notes, paint)
}

function toCells({ id, state, credential, base_url: address }: ShownUpstream): string[] {
  const key = credential ? `${credential.variable ?? ''} ${credential.status.replace('_', ' ')}`.trim() : '-'
  return [id, state.replace('_', ' '), key, address ?? '-'].map(toPrintable)
}

function toNotes(row: ShownUpstream, nowMs: number): string[] {
  const breakers = toBreakers(row)
  return [
    toTrouble(row, nowMs) ?? '',
    breakers === 'closed' || breakers === '-' ? '' : `breakers: ${breakers}`,
    `${row.dialect}; ${toDeadlines(row.deadlines)}`,
  ]
}

/** Such as `1 of 3 not closed: openai/gpt-4o open for 8s, for 2 keys only`. */
export function toBreakers({ targets }: Pick<ShownUpstream, 'targets'>): string {
  if (targets.length === 0) return '-'
  const tripped = targets.filter(({ breaker }) => breaker !== 'closed')
  if (tripped.length === 0) return 'closed'
  const which = tripped.map((target) => `${target.model} ${toPhase(target)}`)
  return `${tripped.length} of ${targets.length} not closed: ${which.join(', ')}`
}

/** A half-open one has to wait only while another request is its probe. */
function toPhase({ breaker, retry_in_ms: ms, open_for_keys: keys }: ShownUpstream['targets'][number]): string {
  const whose = keys === null ? '' : ` for ${count(keys, 'key')} only`
  if (breaker === 'half_open') return `half-open${whose}${ms === 0 ? '' : ', its probe under way'}`
  return `${ms === null ? 'open' : `open for ${Math.ceil(ms / 1_000)}s`}${whose}`
}

const toDeadlines = (deadlines: UpstreamFacts['deadlines']) =>
  [
    `headers ${toSpan(deadlines.headers_ms)}`,
    `first token ${toSpan(deadlines.first_token_ms)}`,
    `idle ${toSpan(deadlines.idle_ms)}`,
    `total ${toSpan(deadlines.total_ms)}`,
    `whole ${toSpan(deadlines.total_whole_ms)}`,
  ].join(', ')

/** Why an upstream is not up and what went wrong last; null where nothing did. */
export function toTrouble({ reason, last_error: error }: ShownUpstream, nowMs: number): string | null {
  const last = error && `${error.message} (${toAgo(error.at_ms, nowMs)})`
  if (reason === null || reason === error?.message) return last
  return last ? `${reason}; last error: ${last}` : reason
}
