/**
 * Counts from the start. The first scrape loads the page. On the API's port, the page needs an admin token, even from this
 * machine, because behind a reverse proxy every request is from this machine. On a separate loopback address, it needs none.
 */

import type { ErrorKind } from '../domain/error.ts'
import { isLoopback } from '../domain/ip.ts'
import { once } from '../domain/once.ts'
import { bearerOf } from '../keys/token.ts'
import type { OnTimed } from '../ledger/ledger.ts'
import type { IdentityStore } from '../store/identity-store.ts'
import type { Readings } from '../telemetry/exposition.ts'
import { createRegistry } from '../telemetry/registry.ts'
import { countFinished, countRejected } from '../telemetry/requests.ts'
import type { ReadingsDeps } from './admin-view/readings.ts'

interface PageDeps extends ReadingsDeps {
  identity: IdentityStore
}

const LAG_MS = 500
const DENIED = {
  'content-type': 'text/plain; charset=utf-8',
  'cache-control': 'no-store',
  'www-authenticate': 'Bearer',
} as const
const NO_TOKEN = `Metrics need an admin API token: tollgate admin token create NAME --scope read
Or serve them without a token on an address of this machine: tollgate serve --metrics 9464
`
const NO_HOST = 'Metrics are available at the host names of this machine only.\n'

export function createMetrics() {
  const registry = createRegistry()
  let timer: Timer | null = null
  const onTimed: OnTimed = (what, ms) => registry[what].observe(ms / 1_000)

  const measureLag = () => {
    let dueMs = performance.now() + LAG_MS
    timer ??= setInterval(() => {
      const nowMs = performance.now()
      registry.lag.observe(Math.max(0, nowMs - dueMs) / 1_000)
      dueMs = nowMs + LAG_MS
    }, LAG_MS).unref()
  }

  return {
    registry,
    finished: countFinished.bind(null, registry),
    rejected: (kind: ErrorKind) => countRejected(registry, kind),
    onTimed,
    measureLag,
    stop(): void {
      if (timer) clearInterval(timer)
    },
    /** @returns `api` for the API's port, and `own` for a separate loopback address. */
    createPages(deps: PageDeps) {
      const writing = new Map<string, Promise<Buffer>>()
      const loaded = once(async () => {
        const [{ createReadings }, exposition, { findByToken }] = await Promise.all([
          import('./admin-view/readings.ts'),
          import('../telemetry/exposition.ts'),
          import('../identity/principal.ts'),
        ])
        measureLag()
        return { createReadings, ...exposition, findByToken }
      })
      /** Scrapes at the same time share a response. */
      const write = async (request: Request): Promise<Response> => {
        const { createReadings, toDialect, writeMetrics, CONTENT_TYPES } = await loaded.get()
        const dialect = toDialect(request.headers.get('accept'))
        const shared = writing.getOrInsertComputed(dialect, () =>
          createReadings(deps)
            .then((readings) => writeMetrics(registry, readings, dialect))
            .finally(() => writing.delete(dialect)),
        )
        return new Response(await shared, {
          headers: { 'content-type': CONTENT_TYPES[dialect], 'cache-control': 'no-store' },
        })
      }
      return {
        async readings(): Promise<Readings> {
          return (await loaded.get()).createReadings(deps)
        },
        async api(request: Request): Promise<Response> {
          const token = bearerOf(request.headers.get('authorization'))
          if (token === null) return new Response(NO_TOKEN, { status: 401, headers: DENIED })
          const { findByToken } = await loaded.get()
          const principal = await findByToken(deps.identity, token, deps.now())
          return principal === null ? new Response(NO_TOKEN, { status: 401, headers: DENIED }) : write(request)
        },
        own: (request: Request): Promise<Response> | Response =>
          // A web page could point its own host name to this machine (DNS rebinding).
          isLoopback(URL.parse(request.url)?.hostname ?? '')
            ? write(request)
            : new Response(NO_HOST, { status: 403, headers: DENIED }),
      }
    },
  }
}
