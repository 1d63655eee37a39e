/**
 * Everything that this executable can have answer: HTTP upstreams of every dialect, and the demo that is built in. And a probe of one of them, now, because somebody asked
 * for it: by the server, or by a command where no server runs.
 */
import { hasProxy, toFetchPlaces } from '../config.ts'
import { createDemoBackend } from '../demo/demo.ts'
import type { DialectName } from '../domain/dialects.ts'
import { once } from '../domain/once.ts'
import type { Environment, Snapshot, Upstream } from '../domain/snapshot.ts'
import type { Authority, Backend, Readiness } from '../upstreams/backend.ts'
import { type AuthorityName, forEachDialect } from '../upstreams/dialects/dialects.ts'
import { createFetchTransport } from '../upstreams/fetch.ts'
import { createHttpBackend, type HttpOptions } from '../upstreams/http-call.ts'
import { createHttp1Transport } from '../upstreams/http1/transport.ts'
import type { Transport } from '../upstreams/transport.ts'
import type { TestResult } from './protocol.ts'

interface BackendOptions extends HttpOptions {
  /** Says whether there is a proxy. */
  environment?: Environment
  /** Wall clock, ms: by which tokens end. */
  now?(): number
}

/** Makes the backends of all dialects. All share their connections. */
export function createAllBackends({
  environment = process.env,
  now = Date.now,
  ...options
}: BackendOptions = {}): Record<DialectName, Backend> {
  const transport = createTransport(environment)
  const authorities: Readonly<Record<AuthorityName, Authority>> = {
    google: authorityOnFirstUse(async () => (await import('../upstreams/google-tokens.ts')).createTokens({ now })),
  }
  const demo = createDemoBackend()
  return forEachDialect(({ load, authority }) => {
    if (load === null) return demo
    const authorityOf = (upstream: Upstream) => {
      const name = authority(upstream)
      return name && authorities[name]
    }
    return backendOnFirstUse(async () => createHttpBackend(await load(), transport, { ...options, authorityOf }))
  })
}

/** A backend whose code is read when it is first asked: most servers have upstreams of one format. */
function backendOnFirstUse(create: () => Promise<Backend>): Backend {
  let made: Backend | null = null
  const making = once(async () => {
    made = await create()
    return made
  })
  return {
    call: (call) => (made ? made.call(call) : making.get().then((backend) => backend.call(call))),
    probe: async (upstream, signal) => (await making.get()).probe(upstream, signal),
  }
}

/** The same of who gives leave for single requests: nearly no server has such upstreams. */
function authorityOnFirstUse(create: () => Promise<Authority>): Authority {
  let made: Authority | null = null
  const making = once(async () => {
    made = await create()
    return made
  })
  return {
    headers: (upstream, request) =>
      made ? made.headers(upstream, request) : making.get().then((authority) => authority.headers(upstream, request)),
    refused: (upstream) => made?.refused(upstream),
  }
}

/** Behind a proxy, which `fetch` knows, all goes by `fetch`, but for what runs here and is no proxy's business. */
function createTransport(environment: Environment): Transport {
  const byFetch = createFetchTransport(toFetchPlaces(environment))
  const own = createHttp1Transport()
  const isBehind = hasProxy(environment)
  const toChosen = ({ options, process }: Upstream) =>
    process === null && (isBehind || options.transport === 'fetch') ? byFetch : own
  return { send: (outgoing) => toChosen(outgoing.upstream).send(outgoing), closeIdle: own.closeIdle }
}

/** Nobody waits for longer in front of a terminal. */
const PROBE_MS = 15_000

export interface ProbeDeps {
  backend: Pick<Backend, 'probe'>
  /** A clock that never steps. */
  monotonicMs(): number
  onFound?: OnFound
}

/** Hears what the upstream said, for whoever keeps account of its health. */
export type OnFound = (readiness: Readiness, upstream: Upstream) => void

/** Tests an upstream of a server, as `testUpstream` does; null where there is none of that id that is enabled. */
export async function testById(
  id: string,
  { upstreams }: Pick<Snapshot, 'upstreams'>,
  { backends, ...deps }: Omit<ProbeDeps, 'backend'> & { backends: Readonly<Record<DialectName, Backend>> },
): Promise<TestResult | null> {
  const upstream = upstreams.get(id)
  return upstream ? testUpstream(upstream, { ...deps, backend: backends[upstream.dialect] }) : null
}

/**
 * Finds out whether an upstream could answer, with each of its credentials, and how long that took. One that works is enough: what
 * is wrong with the others is the reason then. Never throws.
 */
export async function testUpstream(upstream: Upstream, deps: ProbeDeps): Promise<TestResult> {
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
