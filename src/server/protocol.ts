/**
 * What is said over `control.sock`: its path, the shape of its answers, and how a snapshot and what is known of its
 * upstreams become one of them. Server and command line both read this. Pure. No secret is ever part of an answer: of a
 * credential only whether there is one.
 */
import { join } from 'node:path'
import type { Snapshot, Upstream } from '../domain/snapshot.ts'
import type { UpstreamHealth } from '../health/health.ts'
import type { Readiness } from '../upstreams/backend.ts'

/** Path of the socket in a data folder. It may be longer than the 107 bytes of the system's call: Bun goes around that. */
export const socketPath = (dataFolder: string) => join(dataFolder, 'control.sock')

/** Answer of `GET /status`. */
export interface Status {
  version: string
  /** Id of this run of the server: a part of the names of its spool files, and in its ledger rows. */
  instance: string
  pid: number
  /** Ends in `/v1`. */
  url: string
  started_ms: number
  readiness: 'ok' | 'degraded' | 'starting' | 'draining' | 'ledger_unavailable'
  ledger: 'ok' | 'spooling' | 'unavailable'
  config_revision: number
  /** Requests under way. */
  in_flight: number
  /** Bytes of bodies and answers that are held in memory for them. */
  buffered_bytes: number
  upstreams: UpstreamStatus[]
}

/** How an upstream is set up, with every default filled in. */
export interface UpstreamFacts {
  dialect: string
  base_url: string | null
  local: boolean
  deadlines: {
    headers_ms: number
    first_token_ms: number
    idle_ms: number
    total_ms: number
    total_whole_ms: number
  }
  /** null = no limit. */
  limits: { rpm: number | null; tpm: number | null; concurrency: number | null }
}

export interface UpstreamStatus extends UpstreamHealth, UpstreamFacts {
  /** `none`: it needs none. */
  credential: 'set' | 'not_set' | 'none'
}

/** Answer of `POST /upstreams/<id>/test`. */
export interface TestResult {
  id: string
  /**
   * `ready`; `unknown` = it answers, but not to a question that costs nothing; `refused` = it refuses the credential;
   * `doubtful` = it said nothing in time, or an error; `down` = it cannot be reached; `not_ready` = it was not asked, since
   * it could not be called anyway.
   */
  state: Readiness['state'] | 'not_ready'
  /** In words, where it is neither `ready` nor `unknown`. */
  reason: string | null
  /** How long the answer took; null where nothing was asked. */
  ms: number | null
}

/** Body of every answer that is not 2xx. */
export interface ControlError {
  error: { kind: string; message: string }
}

/** Every upstream of a snapshot, in its order, with what is known of it. */
export function toUpstreamStatuses(snapshot: Snapshot, states: readonly UpstreamHealth[]): UpstreamStatus[] {
  const known = new Map(states.map((state) => [state.id, state]))
  return [...snapshot.upstreams.values()].map((upstream) => ({
    ...toHealth(upstream, known.get(upstream.id)),
    ...toUpstreamFacts(upstream),
    credential: upstream.credential !== null ? 'set' : upstream.notReady !== null ? 'not_set' : 'none',
  }))
}

/** How an upstream is set up, in the words of the catalogue. */
export function toUpstreamFacts({ dialect, baseUrl, local, deadlines, limits }: Upstream): UpstreamFacts {
  return {
    dialect,
    base_url: baseUrl,
    local,
    deadlines: {
      headers_ms: deadlines.headers,
      first_token_ms: deadlines.firstToken,
      idle_ms: deadlines.idle,
      total_ms: deadlines.total,
      total_whole_ms: deadlines.totalWhole,
    },
    limits: { rpm: limits.requestsPerMinute, tpm: limits.tokensPerMinute, concurrency: limits.concurrency },
  }
}

/** What is known, without the credential: an upstream may have quoted it in an error. */
function toHealth({ id, credential, notReady }: Upstream, known: UpstreamHealth | undefined): UpstreamHealth {
  if (!known) {
    const state = notReady === null ? 'unknown' : 'not_ready'
    return { id, state, reason: notReady, last_ok_ms: null, last_error: null, targets: [] }
  }
  const clean = (text: string) => (credential ? text.replaceAll(credential, '…') : text)
  const { reason, last_error: error } = known
  return {
    ...known,
    reason: reason === null ? null : clean(reason),
    last_error: error === null ? null : { ...error, message: clean(error.message) },
  }
}
