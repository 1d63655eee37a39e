/**
 * Everything that this executable can have answer: HTTP upstreams of every dialect, and the demo that is built in. The one
 * place that knows the dialects: a new wire format is one line here. And a probe of one of them, now, because somebody asked
 * for it: by the server, or by a command where no server runs.
 */
import { createDemoBackend } from '../demo/demo.ts'
import type { DialectName } from '../domain/settings.ts'
import type { Target, Upstream } from '../domain/snapshot.ts'
import type { Backend, Readiness } from '../upstreams/backend.ts'
import { openai } from '../upstreams/dialects/openai/openai.ts'
import { createHttpBackend, type HttpOptions } from '../upstreams/http.ts'
import type { TestResult } from './protocol.ts'

/** Makes what gives the backend of a target, by the dialect of its upstream. */
export function createAllBackends(options: HttpOptions = {}): (target: Pick<Target, 'upstream'>) => Backend {
  const byDialect: Record<DialectName, Backend> = {
    openai: createHttpBackend(openai, options),
    demo: createDemoBackend(),
  }
  const backends = new Map<string, Backend>(Object.entries(byDialect))
  return ({ upstream }) => {
    const backend = backends.get(upstream.dialect)
    if (!backend) throw new Error(`no backend speaks the dialect ${upstream.dialect} of upstream ${upstream.id}`)
    return backend
  }
}

/** Nobody waits for longer in front of a terminal. */
const PROBE_MS = 15_000

export interface ProbeDeps {
  backend: Backend
  /** A clock that never steps. */
  monotonicMs(): number
  /** Hears what the upstream said, for whoever keeps account of its health. */
  onFound?(readiness: Readiness): void
}

/** Finds out whether an upstream could answer, and how long that took. Never throws. */
export async function testUpstream(upstream: Upstream, deps: ProbeDeps): Promise<TestResult> {
  const { id, notReady } = upstream
  if (notReady !== null) return { id, state: 'not_ready', reason: notReady, ms: null }
  const startedMs = deps.monotonicMs()
  const readiness = await deps.backend.probe(upstream, AbortSignal.timeout(PROBE_MS))
  const ms = Math.round(deps.monotonicMs() - startedMs)
  deps.onFound?.(readiness)
  return { id, state: readiness.state, reason: 'reason' in readiness ? readiness.reason : null, ms }
}
