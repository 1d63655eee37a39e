/**
 * Probes an HTTP upstream by the request of its dialect that costs nothing: whether it could answer now. Called by the
 * prober and by whoever tests an upstream by hand. Its words never hold a credential: they are made of statuses and codes only.
 */
import type { Upstream } from '../domain/snapshot.ts'
import type { Question, Readiness } from './backend.ts'
import { isOurShortage, toNetworkWords, wasConnected } from './network-messages.ts'

/**
 * Never throws. A signal that aborts counts as no answer in time. Down is only what cannot be reached: one that is late, or
 * breaks off, may chat all the same. Behind a proxy the proxy is asked, as it is for calls.
 */
export async function askReadiness(question: Question, upstream: Upstream, signal: AbortSignal): Promise<Readiness> {
  const { path, headers } = question.request(upstream)
  const url = URL.parse(`${upstream.baseUrl}${path}`)
  if (url === null) return { state: 'down', reason: 'its base_url is no address' }
  try {
    const response = await fetch(url, {
      headers: { accept: 'application/json', ...headers },
      redirect: 'manual',
      // Whether a new connection comes about is part of what it asks.
      keepalive: false,
      signal,
    })
    response.body?.cancel().catch(() => {})
    return question.readiness(response.status)
  } catch (error) {
    if (signal.aborted) return { state: 'timeout', reason: `its ${path} did not answer in time` }
    if (isOurShortage(error)) return { state: 'not_made', reason: 'this process has no files or ports left to ask it' }
    return { state: wasConnected(error) ? 'degraded' : 'down', reason: toNetworkWords(error) }
  }
}
