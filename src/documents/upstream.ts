/** Upstreams with their live state in JSON, for the CLI and the admin API; never with credentials. */
import { type Static, Type } from '@sinclair/typebox'
import { Upstream as Fields, saysOf } from '../catalog/fields.ts'
import type { FoundProvider, FoundServer } from '../catalog/providers.ts'
import { toRevision } from '../domain/changes.ts'
import { byMsField } from '../domain/deadlines.ts'
import { keysOf } from '../domain/json.ts'
import { mapLimits } from '../domain/limits.ts'
import { SERVER_STATES, type ServedFigures, type ServerStatus } from '../domain/model-server.ts'
import type { Environment, Upstream as KnownUpstream, OpenedCredentials, Snapshot, Target } from '../domain/snapshot.ts'
import { UPSTREAM_STATES } from '../domain/upstream-state.ts'
import type { UpstreamHealth } from '../health/health.ts'
import type { SealedCredential, UpstreamRow } from '../store/catalog-rows.ts'
import { allPresets } from '../store/presets.ts'
import { toUpstream } from '../store/upstream.ts'
import { toUpstreamState } from '../store/vault.ts'
import { Count, CountOrNull, orNull, Revision, Text, TextOrNull, Time, TimeOrNull, wordOf } from './fields.ts'

/** Reported by a running local server. */
export const SERVED = {
  context_length: CountOrNull,
  quantization: TextOrNull,
  size_bytes: CountOrNull,
  tokens_per_second: orNull(Type.Number()),
}

/** Catalog fields have their defaults filled in. */
export const Upstream = Type.Object({
  ...{ id: Text, revision: Revision, dialect: Text },
  preset: orNull(Type.String(saysOf(Fields, 'preset'))),
  base_url: orNull(Type.String(saysOf(Fields, 'base_url'))),
  local: Type.Boolean(saysOf(Fields, 'local')),
  deadlines: Type.Object(byMsField(() => Count)),
  limits: Type.Object(
    mapLimits(() => CountOrNull),
    { description: 'null: no limit.' },
  ),
  state: wordOf(keysOf(UPSTREAM_STATES)),
  ...{ reason: TextOrNull, enabled: Type.Boolean(saysOf(Fields, 'enabled')), origin: Text },
  credential: orNull(
    Type.Object({
      variable: TextOrNull,
      sealed: Type.Boolean({ description: 'True for a stored, encrypted credential.' }),
      status: wordOf(['set', 'not_set'] as const),
    }),
  ),
  credentials: Type.Array(
    Type.Object({
      number: Count,
      from: wordOf(['variable', 'file', 'typed_in'] as const),
      name: TextOrNull,
      /** `suspended`: rejected by the upstream, or out of quota. */
      status: wordOf(['set', 'not_set', 'suspended'] as const),
      reason: orNull(Type.String({ description: 'Why it is not used.' })),
      retry_in_ms: orNull(Type.Integer({ description: 'Time until a suspended credential is retried.' })),
    }),
  ),
  process: orNull(
    Type.Object(
      {
        state: wordOf(SERVER_STATES),
        ...{ reason: TextOrNull, pid: CountOrNull, answering: Count, queued: Count, memory_bytes: CountOrNull },
      },
      { description: 'null: the server is not run by Tollgate.' },
    ),
  ),
  served: Type.Array(Type.Object({ upstream_model: Text, ...SERVED })),
  last_ok_ms: TimeOrNull,
  last_error: orNull(Type.Object({ message: Text, at_ms: Time })),
  targets: Type.Array(
    Type.Object({
      ...{ model: Text, upstream_model: Text, breaker: wordOf(['closed', 'open', 'half_open'] as const) },
      ...{ open_for_keys: CountOrNull, failures_in_a_row: Count, retry_in_ms: CountOrNull, reason: TextOrNull },
    }),
  ),
})
export type ShownUpstream = Static<typeof Upstream>
/** Facts about a credential, never its value. */
export type ShownCredential = ShownUpstream['credentials'][number]
export type UpstreamFacts = Pick<ShownUpstream, 'dialect' | 'preset' | 'base_url' | 'local' | 'deadlines' | 'limits'>

/** State of an upstream in a running server. `credential`: `none` if it needs none. */
export interface UpstreamStatus
  extends UpstreamHealth,
    UpstreamFacts,
    Pick<ShownUpstream, 'credentials' | 'process' | 'served'> {
  credential: 'set' | 'not_set' | 'none'
}

/** An upstream from the database; its credential is resolved in this process's environment. */
export interface StoredUpstream {
  upstream: KnownUpstream
  revision: string
  enabled: boolean
  origin: string
}

/** All upstreams in the order of declaration, including disabled ones. */
export function toDeclared(
  rows: readonly UpstreamRow[],
  environment: Environment,
  opened: OpenedCredentials,
  sealed: readonly SealedCredential[],
): StoredUpstream[] {
  return rows.map((row) => ({
    upstream: toUpstream(row, environment, 'here', opened.get(row.id)),
    revision: toRevision(toUpstreamState(row, sealed)),
    enabled: row.enabled,
    origin: row.origin,
  }))
}

/** @param statuses from a running server; null without one */
export const toUpstreamDocuments = (
  rows: readonly UpstreamRow[],
  opened: OpenedCredentials,
  sealed: readonly SealedCredential[],
  statuses: readonly UpstreamStatus[] | null,
  environment: Environment = {},
) => toDeclared(rows, environment, opened, sealed).map((declared) => toRow(declared, statuses))

/** Joins an upstream with its state in the server, if it runs. */
export function toRow(declared: StoredUpstream, statuses: readonly UpstreamStatus[] | null): ShownUpstream {
  const { upstream, revision, enabled, origin } = declared
  const { variable, hasStoredCredential: sealed } = upstream
  const known = enabled ? statuses?.find(({ id }) => id === upstream.id) : undefined
  if (known) {
    const { credential, suspended: _, ...rest } = known
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

const NOT_RUNNING: ServerStatus = {
  ...{ state: 'stopped', reason: null, pid: null, answering: 0, queued: 0, memory_bytes: null },
}

/** For an upstream in the database that the server doesn't have yet. */
export const NOT_TAKEN_IN = 'not yet loaded by the server'

/** State of an upstream that the server doesn't report. */
function toUnasked({ upstream, enabled }: StoredUpstream, serves: boolean): Pick<ShownUpstream, 'state' | 'reason'> {
  if (!enabled) return { state: 'disabled', reason: null }
  if (serves) return { state: 'unknown', reason: NOT_TAKEN_IN }
  // The server may have credentials that this environment lacks.
  return { state: 'unknown', reason: upstream.notReady }
}

/** All upstreams of a snapshot, in its order. */
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
    credentials: toShownCredentials(upstream, known.get(upstream.id)?.suspended ?? []),
    process: upstream.process === null ? null : (servers.status(upstream.id) ?? NOT_RUNNING),
    served: [...(served.get(upstream.id)?.values() ?? [])],
  }))
}

/** Null if the target is not a local server. */
export type FiguresOf = (target: Target) => ServedFigures | null

/** By upstream ID, then model. */
function toServed(
  { models }: Snapshot,
  figuresOf: FiguresOf,
): Map<string, Map<string, ShownUpstream['served'][number]>> {
  const served = new Map<string, Map<string, ShownUpstream['served'][number]>>()
  for (const { targets } of models.values())
    for (const target of targets) {
      const figures = figuresOf(target)
      if (figures === null) continue
      const known = served.getOrInsertComputed(target.upstream.id, () => new Map())
      known.set(target.upstreamModel, { upstream_model: target.upstreamModel, ...figures })
    }
  return served
}

function toShownCredentials(upstream: KnownUpstream, suspended: UpstreamHealth['suspended']): ShownCredential[] {
  return upstream.credentials.map(({ problem, ...source }): ShownCredential => {
    const out = suspended.find(({ number }) => number === source.number)
    if (out) return { ...source, status: 'suspended', reason: out.reason, retry_in_ms: out.retry_in_ms }
    return { ...source, status: problem === null ? 'set' : 'not_set', reason: problem, retry_in_ms: null }
  })
}

function toUpstreamFacts(upstream: KnownUpstream): UpstreamFacts {
  const { dialect, baseUrl, local, deadlines, limits, options } = upstream
  return {
    dialect,
    preset: options.preset ?? null,
    base_url: baseUrl,
    local,
    deadlines: byMsField((name) => deadlines[name]),
    limits: {
      ...limits,
      concurrency: limits.concurrency ?? options.concurrency ?? null,
    },
  }
}

/** A provider with known settings. */
export const Preset = Type.Object({
  ...{ id: Text, name: Text, serves: Text, dialect: Text, local: Type.Boolean() },
  base_url: orNull(Type.String({ description: 'null: the URL differs per customer; see `example`.' })),
  example: TextOrNull,
  variable: orNull(
    Type.String({ description: "Environment variable that the provider's SDKs read the credential from." }),
  ),
})
export type ShownPreset = Static<typeof Preset>

export const toPresetDocuments = (): ShownPreset[] =>
  Object.entries(allPresets()).map(([id, { name, serves, dialect, local = false, base_url, example, env }]) => ({
    ...{
      id,
      name,
      serves,
      dialect,
      local,
      base_url: base_url ?? null,
      example: example ?? null,
      variable: env ?? null,
    },
  }))

/** Discovered model servers and provider credentials; only names of variables, never values. */
export const Found = Type.Object({
  servers: Type.Array(
    Type.Object({
      ...{ preset: Text, name: Text, base_url: Text },
      upstream: orNull(Type.String({ description: 'Existing upstream for this server; null: none.' })),
      id: Type.String({ description: 'Upstream ID, existing or suggested.' }),
    }),
  ),
  providers: Type.Array(
    Type.Object({
      ...{ preset: Text, name: Text },
      variable: Type.String({
        description: 'Environment variable that is set for the server. Its value is never shown.',
      }),
    }),
  ),
})
export type ShownFoundServer = Static<typeof Found>['servers'][number]

export const toFoundDocument = (
  servers: readonly FoundServer[],
  providers: readonly FoundProvider[],
): Static<typeof Found> => ({
  servers: servers.map(({ preset, name, baseUrl, upstream, id }) => ({
    ...{ preset, name, base_url: baseUrl, upstream, id },
  })),
  providers: providers.map(({ preset, name, variable }) => ({ preset, name, variable })),
})

/**
 * Result of a free health check. `unknown`: it responds, but has no free endpoint; `refused`: it rejects the credential; `degraded`: error
 * or interrupted response; `down`: unreachable; `not_made`: this process is out of file descriptors or ports; `not_ready`: not checked,
 * since it is not configured.
 */
export const TestedUpstream = Type.Object({
  ...{ id: Text, state: Text },
  /** Why it is not ready, or which of several credentials don't work. */
  reason: TextOrNull,
  ms: orNull(Type.Integer({ description: 'Response time; null if not checked.' })),
})
export type UpstreamTest = Static<typeof TestedUpstream>

/** Removes credentials that an upstream quoted in an error. */
function toHealth({ id, secrets, notReady }: KnownUpstream, known: UpstreamHealth | undefined): UpstreamHealth {
  if (!known) {
    const state = notReady === null ? 'unknown' : 'not_ready'
    return { id, state, reason: notReady, suspended: [], last_ok_ms: null, last_error: null, targets: [] }
  }
  const clean = (text: string) => secrets.reduce((left, secret) => left.replaceAll(secret, '…'), text)
  const { reason, last_error: error } = known
  return {
    ...known,
    reason: reason === null ? null : clean(reason),
    last_error: error === null ? null : { ...error, message: clean(error.message) },
  }
}
