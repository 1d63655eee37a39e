import { hasProxy, toFetchPlaces } from '../config.ts'
import { createDemoBackend } from '../demo/demo.ts'
import type { DialectName } from '../domain/dialects.ts'
import { once } from '../domain/once.ts'
import type { Environment, Upstream } from '../domain/snapshot.ts'
import type { Authority, Backend } from '../upstreams/backend.ts'
import { type AuthorityName, forEachDialect } from '../upstreams/dialects/dialects.ts'
import { createFetchTransport } from '../upstreams/fetch.ts'
import { createHttpBackend, type HttpOptions } from '../upstreams/http-call.ts'
import { createHttp1Transport } from '../upstreams/http1/transport.ts'
import type { Transport } from '../upstreams/transport.ts'

interface BackendOptions extends HttpOptions {
  environment?: Environment
  /** Wall clock, ms, for token expiry. */
  now?(): number
}

/** All dialects share their connections. */
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

/** Loads a backend on first use, since most servers have upstreams of one format. */
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

/** Behind a proxy, which only `fetch` supports, everything but managed servers uses `fetch`. */
function createTransport(environment: Environment): Transport {
  const byFetch = createFetchTransport(toFetchPlaces(environment))
  const own = createHttp1Transport()
  const isBehind = hasProxy(environment)
  const toChosen = ({ options, process }: Upstream) =>
    process === null && (isBehind || options.transport === 'fetch') ? byFetch : own
  return { send: (outgoing) => toChosen(outgoing.upstream).send(outgoing), closeIdle: own.closeIdle }
}
