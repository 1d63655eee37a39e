/** Finds model servers on this machine, lists an upstream's models, and tests upstreams. */

import type { LocalServer } from '../../catalog/providers.ts'
import type { UpstreamTest } from '../../documents/upstream.ts'
import type { DialectName } from '../../domain/dialects.ts'
import { asList, asObject, asText, parseJson } from '../../domain/json.ts'
import type { ListedModel } from '../../domain/model-server.ts'
import { ServiceError } from '../../domain/service-error.ts'
import type { Environment, Snapshot, Upstream } from '../../domain/snapshot.ts'
import { askDirectly } from '../../processes/engine.ts'
import type { UpstreamRow } from '../../store/catalog-rows.ts'
import { findPreset } from '../../store/presets.ts'
import { toUpstream } from '../../store/upstream.ts'
import { isServiceAccount } from '../../upstreams/auth.ts'
import type { Backend, Readiness } from '../../upstreams/backend.ts'
import { dialectOf } from '../../upstreams/dialects/dialects.ts'
import { askModels, type Send } from '../../upstreams/model-list.ts'

interface Identity {
  /** Below the base URL without `/v1`. */
  path: string
  isIt(json: unknown): boolean
}

/** Three identify themselves in their model lists; two have other endpoints. */
const IDENTITIES: Readonly<Record<string, Identity>> = {
  ollama: { path: '/api/tags', isIt: (json) => Array.isArray(asObject(json)?.models) },
  'llama.cpp': { path: '/v1/models', isIt: (json) => isOwnedBy(json, 'llamacpp') },
  vllm: { path: '/v1/models', isIt: (json) => isOwnedBy(json, 'vllm') },
  'llama-swap': { path: '/v1/models', isIt: (json) => isOwnedBy(json, 'llama-swap') },
  lmstudio: {
    path: '/api/v1/models',
    isIt: (json) => asList(asObject(json)?.models).some((each) => asText(asObject(each)?.key) !== ''),
  },
}

const isOwnedBy = (json: unknown, owner: string) =>
  asList(asObject(json)?.data).some((each) => asObject(each)?.owned_by === owner)

interface LookOptions {
  /** URLs to check instead of the default ones. */
  at?: readonly string[]
  ms?: number
  bytes?: number
}

/** Takes at most a second. Never throws. */
export async function findLocalServers({
  at,
  ms = 1_000,
  bytes = 1_048_576,
}: LookOptions = {}): Promise<LocalServer[]> {
  const signal = AbortSignal.timeout(ms)
  const look = async (preset: string, { path, isIt }: Identity, origin: string): Promise<LocalServer[]> => {
    const { name = preset, base_url = '' } = findPreset(preset) ?? {}
    try {
      const asked = { headers: { 'user-agent': 'tollgate' }, mostBytes: bytes, signal }
      const { status, text } = await askDirectly(new URL(`${origin}${path}`), asked)
      if (status !== 200 || !isIt(parseJson(text))) return []
    } catch {
      return []
    }
    return [{ preset, name, baseUrl: origin + new URL(base_url).pathname.replace(/\/$/, '') }]
  }
  const looks = Object.entries(IDENTITIES).flatMap(([preset, identity]) => {
    const usual = new URL(findPreset(preset)?.base_url ?? '').origin
    return (at?.map(toOrigin) ?? [usual]).map((origin) => look(preset, identity, origin))
  })
  return (await Promise.all(looks)).flat()
}

const toOrigin = (address: string) => URL.parse(address)?.origin ?? address

/** Concurrent callers share a search of the default ports. */
export function createLocalLook(find: (options?: LookOptions) => Promise<LocalServer[]> = findLocalServers) {
  let searching: Promise<LocalServer[]> | null = null
  return (at?: readonly string[]): Promise<LocalServer[]> => {
    if (at) return find({ at })
    searching ??= find().finally(() => {
      searching = null
    })
    return searching
  }
}

/** Throws `list_failed`. */
export async function listModels(upstream: Upstream, send?: Send): Promise<ListedModel[]> {
  if (upstream.notReady !== null)
    throw new ServiceError(
      { kind: 'list_failed', why: 'credential' },
      `Upstream ${upstream.id} is unavailable: ${upstream.notReady}.`,
    )
  const { load } = dialectOf(upstream)
  if (load === null)
    throw new ServiceError({ kind: 'list_failed', why: 'none' }, 'The demo has a single model, which already exists.')
  if (isServiceAccount(upstream))
    throw new ServiceError(
      { kind: 'list_failed', why: 'none' },
      "Vertex can't list models for a service account. Name each model instead.",
    )
  return askModels(await load(), upstream, send ? { send } : {})
}

/** For upstreams that aren't saved. They use the server's variables. */
export const createListAt =
  (environment: Environment) =>
  (row: UpstreamRow, typed: readonly string[] | undefined): Promise<ListedModel[]> =>
    listModels(
      toUpstream(
        row,
        environment,
        'on the server',
        typed?.map((credential) => ({ credential })),
      ),
    )

const PROBE_MS = 15_000

export interface ProbeDeps {
  backend: Pick<Backend, 'probe'>
  /** Monotonic clock. */
  monotonicMs(): number
  onFound?: OnFound
}

export type OnFound = (readiness: Readiness, upstream: Upstream) => void

/** Null if no enabled upstream has this ID. */
export async function testById(
  id: string,
  { upstreams }: Pick<Snapshot, 'upstreams'>,
  { backends, ...deps }: Omit<ProbeDeps, 'backend'> & { backends: Readonly<Record<DialectName, Backend>> },
): Promise<UpstreamTest | null> {
  const upstream = upstreams.get(id)
  return upstream ? testUpstream(upstream, { ...deps, backend: backends[upstream.dialect] }) : null
}

/** One working credential is enough. Then the reason describes the others. Never throws. */
export async function testUpstream(upstream: Upstream, deps: ProbeDeps): Promise<UpstreamTest> {
  const { id, notReady } = upstream
  if (notReady !== null) return { id, state: 'not_ready', reason: notReady, ms: null }
  const startedMs = deps.monotonicMs()
  const signal = AbortSignal.timeout(PROBE_MS)
  const ask = async (one: Upstream) => {
    const readiness = await deps.backend.probe(one, signal)
    deps.onFound?.(readiness, one)
    return { one, readiness }
  }
  const found = await Promise.all((upstream.each ?? [upstream]).map(ask))
  const ms = Math.round(deps.monotonicMs() - startedMs)
  const toReason = (readiness: Readiness) => ('reason' in readiness ? readiness.reason : null)
  const bad = found.filter(({ readiness }) => 'reason' in readiness)
  const works = (wanted: Readiness['state']) => found.find(({ readiness: { state } }) => state === wanted)
  const state = (works('ready') ?? works('unknown') ?? found[0])?.readiness.state ?? 'not_made'
  if (upstream.credentials.length < 2) return { id, state, reason: bad[0] ? toReason(bad[0].readiness) : null, ms }
  const reasons = bad.map(({ one, readiness }) => `credential ${one.credentialNumber}: ${toReason(readiness)}`)
  const lacking = upstream.credentials.flatMap(({ number, problem }) =>
    problem === null ? [] : `credential ${number}: ${problem}`,
  )
  return { id, state, reason: [...reasons, ...lacking].join('; ') || null, ms }
}
