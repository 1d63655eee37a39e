/** The five chaos upstreams, in the test's process. A closed one keeps its port. */
import { type ScriptedUpstream, type Seen, startUpstream } from '../../support/upstream.ts'
import type { Behaviour } from '../../support/upstream-answers.ts'
import { type CallPlan, toCall } from './faults.ts'
import { drawFor, type RequestPlan, UPSTREAMS, type UpstreamName } from './plan.ts'

export interface SeenCall {
  upstream: UpstreamName
  request: number
  /** Ledger ID of the request, and the call's number. */
  id: string
  number: number
  plan: CallPlan
  seen: Seen
  /** Interrupted because its upstream closed, not by plan. */
  dropped: boolean
}

/** Times of `performance.now()`. */
export interface Closure {
  upstream: UpstreamName
  fromMs: number
  toMs: number
}

export interface ChaosUpstreams {
  readonly calls: SeenCall[]
  readonly closures: Closure[]
  /** Invalid requests that they received. */
  readonly complaints: string[]
  urlOf(upstream: UpstreamName): string
  stop(): Promise<void>
}

/** Every kind of key, including one that no pattern matches. */
export const CREDENTIALS: Readonly<Record<UpstreamName, string>> = {
  alpha: 'sk-alpha-0123456789abcdefghij',
  beta: 'gsk_beta0123456789abcdefghij',
  gamma: 'gammagammagamma0123456789',
  delta: 'xai-delta-0123456789abcdefgh',
  epsilon: 'odd.token.of.epsilon.0123456789',
}

/** Below the ephemeral range, so that no other process gets the port of a closed upstream. */
const FIRST_PORT = 20_000
const PORTS = 10_000

/** The first free port from a random one on. */
export async function onStablePort<T>(bind: (port: number) => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    const port = FIRST_PORT + Math.floor(Math.random() * PORTS)
    try {
      return await bind(port)
    } catch (error) {
      if (tries > 20) throw error
    }
  }
}

export async function startUpstreams(seed: number, planOf: (number: number) => RequestPlan): Promise<ChaosUpstreams> {
  const calls: SeenCall[] = []
  const closures: Closure[] = []
  const complaints: string[] = []
  const running = new Map<UpstreamName, ScriptedUpstream>()
  const reopening = new Set<Promise<void>>()
  let stopped = false

  const close = async (upstream: UpstreamName, forMs: number) => {
    const open = running.get(upstream)
    if (!open || stopped) return
    const closure = { upstream, fromMs: performance.now(), toMs: Number.POSITIVE_INFINITY }
    closures.push(closure)
    for (const call of calls) {
      const isOver = call.seen.answeredAtMs !== null || call.seen.abortedAtMs !== null
      if (call.upstream === upstream && !isOver) call.dropped = true
    }
    running.delete(upstream)
    await open.stop()
    await Bun.sleep(forMs)
    running.set(upstream, await startUpstream(scriptOf(upstream), open.port))
    closure.toMs = performance.now()
  }

  const scriptOf =
    (upstream: UpstreamName) =>
    (seen: Seen): Behaviour => {
      if (seen.method === 'GET') return { kind: 'whole', body: { object: 'list', data: [] } }
      const { json, headers } = seen
      const [, id = '', number = ''] = /^([0-9a-f]{32})-(\d+)$/.exec(headers['x-client-request-id'] ?? '') ?? []
      const request = Number(json?.user)
      const sent = headers.authorization ?? ''
      if (id === '' || !Number.isInteger(request) || sent !== `Bearer ${CREDENTIALS[upstream]}`) {
        complaints.push(`${upstream} was sent a call that it cannot place: ${JSON.stringify({ headers, json })}`)
        return { kind: 'reset' }
      }
      const asking = planOf(request)
      const isJson = asking.format === 'object' || asking.format === 'schema' || asking.format === 'strict'
      const plan = toCall(seed, asking, upstream, Number(number), {
        stream: json?.stream === true,
        n: Number(json?.n ?? 1),
        enforced: isJson && json?.response_format === undefined,
        credential: CREDENTIALS[upstream],
      })
      calls.push({ upstream, request, id, number: Number(number), plan, seen, dropped: false })
      if (plan.fault === 'refuse') {
        const forMs = 150 + Math.floor(drawFor(seed, 'closure', request, upstream)() * 350)
        const closing = close(upstream, forMs)
        reopening.add(closing)
        void closing.finally(() => reopening.delete(closing))
      }
      return plan.behaviour
    }

  for (const upstream of UPSTREAMS) {
    running.set(upstream, await onStablePort((port) => startUpstream(scriptOf(upstream), port)))
  }
  const urls = new Map([...running].map(([upstream, { url }]) => [upstream, url]))

  return {
    calls,
    closures,
    complaints,
    urlOf: (upstream) => urls.get(upstream) ?? '',
    async stop() {
      stopped = true
      await Promise.all(reopening)
      for (const upstream of running.values()) await upstream.stop()
    },
  }
}
