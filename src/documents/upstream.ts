/**
 * Every upstream of the database together with what a running server knows of it, if one runs: `upstreams list --json` and the admin
 * API. No secret is ever part of it: of a credential only whether there is one. Pure.
 */

import type { FoundProvider, FoundServer } from '../catalog/on-this-machine.ts'
import { toRevision } from '../domain/changes.ts'
import type { ServedFigures, ServerStatus } from '../domain/model-server.ts'
import type {
  CredentialSource,
  Environment,
  OpenedCredentials,
  Snapshot,
  Target,
  Upstream,
} from '../domain/snapshot.ts'
import type { UpstreamHealth } from '../health/report.ts'
import type { UpstreamRow } from '../store/catalog-rows.ts'
import { allPresets } from '../store/presets.ts'
import { toUpstream } from '../store/upstream.ts'

/** How an upstream is set up, in the words of the catalogue, with every default filled in. */
export interface UpstreamFacts {
  dialect: string
  /** Whose settings it has, where it says nothing itself. */
  preset: string | null
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

/** What a running server says of an upstream. `credential`: `none` = it needs none. */
export interface UpstreamStatus extends UpstreamHealth, UpstreamFacts {
  credential: 'set' | 'not_set' | 'none'
  /** Where it has any: what each comes from, and whether it is there. */
  credentials: ShownCredential[]
  /** Null where its server is not started here. */
  process: ServerStatus | null
  /** Of the models that routes lead to, where it is a local server; else none. */
  served: ServedModel[]
}

/** By the upstream's own name of the model. */
export interface ServedModel extends ServedFigures {
  upstream_model: string
}

/** One credential of an upstream, never itself. `left_out`: the upstream has refused it, or its quota is used up, for now. */
export interface ShownCredential extends Omit<CredentialSource, 'problem'> {
  status: 'set' | 'not_set' | 'left_out'
  /** Why it is not used, in words; null where it is. */
  reason: string | null
  /** Until one that is left out is tried again. */
  back_in_ms: number | null
}

/** What a free question to an upstream has come to; `server/protocol.ts` says what the states mean. */
export interface UpstreamTest {
  id: string
  state: string
  /** In words, where it is neither `ready` nor `unknown`; or of several credentials what is wrong with those that do not work. */
  reason: string | null
  /** How long the answer took; null where nothing was asked. */
  ms: number | null
}

/** An upstream as the database declares it, its credential looked for in this process's environment. */
export interface StoredUpstream {
  upstream: Upstream
  revision: string
  enabled: boolean
  origin: string
}

/** One upstream as `upstreams list --json` shows it. */
export interface ShownUpstream extends UpstreamFacts, Omit<UpstreamHealth, 'state' | 'left_out'> {
  revision: string
  state: UpstreamHealth['state'] | 'disabled'
  enabled: boolean
  origin: string
  /** Null where it needs none. Never the credential itself; `sealed`: it was typed in, or is to be. */
  credential: { variable: string | null; sealed: boolean; status: 'set' | 'not_set' } | null
  /** All that it has. */
  credentials: ShownCredential[]
  /** Null where its server is not started here. */
  process: ServerStatus | null
  /** As a running server knows them. */
  served: ServedModel[]
}

/** All upstreams, also the disabled ones, in the order in which they were declared. */
export function toDeclared(
  rows: readonly UpstreamRow[],
  environment: Environment,
  opened: OpenedCredentials,
): StoredUpstream[] {
  return rows.map((row) => ({
    upstream: toUpstream(row, environment, 'here', opened.get(row.id)),
    revision: toRevision(row),
    enabled: row.enabled,
    origin: row.origin,
  }))
}

/** All of them as a running server knows them, whose own environment resolves their credentials. */
export const toUpstreamDocuments = (
  rows: readonly UpstreamRow[],
  opened: OpenedCredentials,
  statuses: readonly UpstreamStatus[],
) => toDeclared(rows, {}, opened).map((declared) => toRow(declared, statuses))

/** Joins one with what the server says of it; without a server, `state` is all that this process can tell. */
export function toRow(declared: StoredUpstream, statuses: readonly UpstreamStatus[] | null): ShownUpstream {
  const { upstream, revision, enabled, origin } = declared
  const { variable, isSealed: sealed } = upstream
  const known = enabled ? statuses?.find(({ id }) => id === upstream.id) : undefined
  if (known) {
    const { credential, left_out: _, ...rest } = known
    return {
      ...rest,
      revision,
      enabled,
      origin,
      credential: credential === 'none' ? null : { variable, sealed, status: credential },
    }
  }
  const found = upstream.credential === null ? 'not_set' : 'set'
  return {
    id: upstream.id,
    revision,
    ...toUpstreamFacts(upstream),
    enabled,
    origin,
    credential: upstream.credentials.length === 0 ? null : { variable, sealed, status: found },
    credentials: toShownCredentials(upstream, []),
    process: upstream.process === null ? null : NOT_RUNNING,
    served: [],
    ...toUnasked(declared, statuses !== null),
    last_ok_ms: null,
    last_error: null,
    targets: [],
  }
}

/** As far as anybody knows. */
const NOT_RUNNING: ServerStatus = {
  ...{ state: 'stopped', reason: null, pid: null, answering: 0, waiting: 0, memory_bytes: null },
}

/** Of an upstream that the database has and the server does not know. */
export const NOT_TAKEN_IN = 'the server has not taken it in yet'

/** Why nobody can say how an upstream is doing. */
function toUnasked({ upstream, enabled }: StoredUpstream, serves: boolean): Pick<ShownUpstream, 'state' | 'reason'> {
  if (!enabled) return { state: 'disabled', reason: null }
  if (serves) return { state: 'unknown', reason: NOT_TAKEN_IN }
  // What it lacks here it may well have where the server will run.
  return { state: 'unknown', reason: upstream.notReady }
}

/** Every upstream of a snapshot, in its order, with what is known of it. */
export function toUpstreamStatuses(
  snapshot: Snapshot,
  states: readonly UpstreamHealth[],
  servers: { status(id: string): ServerStatus | null } = { status: () => null },
  figuresOf: FiguresOf = () => null,
): UpstreamStatus[] {
  const known = new Map(states.map((state) => [state.id, state]))
  const served = toServed(snapshot, figuresOf)
  return [...snapshot.upstreams.values()].map((upstream) => ({
    ...toHealth(upstream, known.get(upstream.id)),
    ...toUpstreamFacts(upstream),
    credential: upstream.credential !== null ? 'set' : upstream.credentials.length > 0 ? 'not_set' : 'none',
    credentials: toShownCredentials(upstream, known.get(upstream.id)?.left_out ?? []),
    process: upstream.process === null ? null : (servers.status(upstream.id) ?? NOT_RUNNING),
    served: [...(served.get(upstream.id)?.values() ?? [])],
  }))
}

/** Null where the target is no local server's. */
export type FiguresOf = (target: Target) => ServedFigures | null

/** By the ids of upstreams, each of their models once. */
function toServed({ models }: Snapshot, figuresOf: FiguresOf): Map<string, Map<string, ServedModel>> {
  const served = new Map<string, Map<string, ServedModel>>()
  for (const { targets } of models.values())
    for (const target of targets) {
      const figures = figuresOf(target)
      if (figures === null) continue
      const known = served.getOrInsertComputed(target.upstream.id, () => new Map())
      known.set(target.upstreamModel, { upstream_model: target.upstreamModel, ...figures })
    }
  return served
}

function toShownCredentials(upstream: Upstream, leftOut: UpstreamHealth['left_out']): ShownCredential[] {
  return upstream.credentials.map(({ problem, ...source }): ShownCredential => {
    const out = leftOut.find(({ number }) => number === source.number)
    if (out) return { ...source, status: 'left_out', reason: out.reason, back_in_ms: out.back_in_ms }
    return { ...source, status: problem === null ? 'set' : 'not_set', reason: problem, back_in_ms: null }
  })
}

/** How an upstream is set up. */
export function toUpstreamFacts(upstream: Upstream): UpstreamFacts {
  const { dialect, baseUrl, local, deadlines, limits, options } = upstream
  return {
    dialect,
    preset: options.preset ?? null,
    base_url: baseUrl,
    local,
    deadlines: {
      headers_ms: deadlines.headers,
      first_token_ms: deadlines.firstToken,
      idle_ms: deadlines.idle,
      total_ms: deadlines.total,
      total_whole_ms: deadlines.totalWhole,
    },
    limits: {
      rpm: limits.requestsPerMinute,
      tpm: limits.tokensPerMinute,
      concurrency: limits.concurrency ?? options.concurrency ?? null,
    },
  }
}

/** A provider that an upstream can be set up as by its name. */
export interface ShownPreset {
  id: string
  name: string
  dialect: string
  /** Null where each customer has another one, such as `example`. */
  base_url: string | null
  example: string | null
  /** Which variable its own libraries read the credential from; null where it mostly needs none. */
  variable: string | null
}

export const toPresetDocuments = (): ShownPreset[] =>
  Object.entries(allPresets()).map(([id, { name, dialect, base_url, example, env }]) => ({
    ...{ id, name, dialect, base_url: base_url ?? null, example: example ?? null, variable: env ?? null },
  }))

/** What of this machine may become an upstream; of variables their names alone. */
export const toFoundDocument = (servers: readonly FoundServer[], providers: readonly FoundProvider[]) => ({
  servers: servers.map(({ preset, name, baseUrl, upstream, id }) => ({
    preset,
    name,
    base_url: baseUrl,
    upstream,
    id,
  })),
  providers: providers.map(({ preset, name, variable }) => ({ preset, name, variable })),
})

export type ShownFoundServer = ReturnType<typeof toFoundDocument>['servers'][number]

/** What is known, without the credential: an upstream may have quoted it in an error. */
function toHealth({ id, secrets, notReady }: Upstream, known: UpstreamHealth | undefined): UpstreamHealth {
  if (!known) {
    const state = notReady === null ? 'unknown' : 'not_ready'
    return { id, state, reason: notReady, left_out: [], last_ok_ms: null, last_error: null, targets: [] }
  }
  const clean = (text: string) => secrets.reduce((left, secret) => left.replaceAll(secret, '…'), text)
  const { reason, last_error: error } = known
  return {
    ...known,
    reason: reason === null ? null : clean(reason),
    last_error: error === null ? null : { ...error, message: clean(error.message) },
  }
}
