/**
 * Everything that this executable can have answer: HTTP upstreams of every dialect, and the demo that is built in. The one
 * place that knows the dialects: a new wire format is one line here. And a probe of one of them, now, because somebody asked
 * for it: by the server, or by a command where no server runs.
 */
import { createDemoBackend } from '../demo/demo.ts'
import type { DialectName } from '../domain/settings.ts'
import type { Upstream } from '../domain/snapshot.ts'
import type { Backend, Readiness } from '../upstreams/backend.ts'
import { openai } from '../upstreams/dialects/openai/openai.ts'
import { createHttpBackend, type HttpOptions } from '../upstreams/http.ts'
import type { TestResult } from './protocol.ts'

/** Makes the backends of all dialects. */
export const createAllBackends = (options: HttpOptions = {}): Record<DialectName, Backend> => ({
  openai: createHttpBackend(openai, options),
  demo: createDemoBackend(),
})

/** Nobody waits for longer in front of a terminal. */
const PROBE_MS = 15_000

export interface ProbeDeps {
  backend: Pick<Backend, 'probe'>
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
