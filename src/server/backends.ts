/**
 * Everything that this executable can have answer: HTTP upstreams of every dialect, and the demo that is built in. The one
 * place that knows the dialects: a new wire format is one line here. And a probe of one of them, now, because somebody asked
 * for it: by the server, or by a command where no server runs.
 */
import { hasProxy, toFetchPlaces } from '../config.ts'
import { createDemoBackend } from '../demo/demo.ts'
import type { DialectName } from '../domain/dialects.ts'
import { once } from '../domain/once.ts'
import type { Environment, Snapshot, Upstream } from '../domain/snapshot.ts'
import type { Backend, Readiness } from '../upstreams/backend.ts'
import { openai } from '../upstreams/dialects/openai/openai.ts'
import { createFetchTransport } from '../upstreams/fetch.ts'
import { isServiceAccount } from '../upstreams/google/credential.ts'
import { createHttpBackend, type HttpOptions } from '../upstreams/http.ts'
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
  /** Of service accounts, by which Google serves its own models and others' alike. */
  const tokens = once(async () => (await import('../upstreams/google/tokens.ts')).createTokens({ now }))
  const plain = createHttpBackend(openai, transport, options)
  const ofAccounts = onFirstUse(async () =>
    createHttpBackend(openai, transport, { ...options, authority: await tokens.get() }),
  )
  const openaiFor = (upstream: Upstream) => (isServiceAccount(upstream) ? ofAccounts : plain)
  return {
    openai: {
      call: (call) => openaiFor(call.target.upstream).call(call),
      probe: (upstream, signal) => openaiFor(upstream).probe(upstream, signal),
    },
    anthropic: onFirstUse(async () => {
      const { anthropic } = await import('../upstreams/dialects/anthropic/anthropic.ts')
      return createHttpBackend(anthropic, transport, { ...options, authority: await tokens.get() })
    }),
    gemini: onFirstUse(async () => {
      const { gemini } = await import('../upstreams/dialects/gemini/gemini.ts')
      return createHttpBackend(gemini, transport, { ...options, authority: await tokens.get() })
    }),
    ollama: onFirstUse(async () => {
      const { ollama } = await import('../upstreams/dialects/ollama/ollama.ts')
      return createHttpBackend(ollama, transport, options)
    }),
    demo: createDemoBackend(),
  }
}

/** A backend whose code is read when it is first asked: most servers have upstreams of one format. */
function onFirstUse(create: () => Promise<Backend>): Backend {
  const made = once(create)
  return {
    call: async (call) => (await made.get()).call(call),
    probe: async (upstream, signal) => (await made.get()).probe(upstream, signal),
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
