/** Starts and stops listening. */
import { codeOf } from '../domain/error.ts'
import { isAddress, isLoopback } from '../domain/ip.ts'
import { ServiceError, toBadConfig } from '../domain/service-error.ts'
import type { ListenAddress } from '../domain/setting-text.ts'
import type { Load } from '../gateway/admission.ts'
import { pathOf } from '../http/instance.ts'
import { createGate, type Gate, type GateDeps } from './handover.ts'
import {
  CAN_SHARE,
  createListener,
  type Listener,
  type ListenPlace,
  reserve,
  type ServedCertificates,
} from './listener.ts'

/** @param open listens at the place. Throws a ServiceError with the reason. */
export async function listenAt<T>(place: ListenPlace, open: (place: ListenPlace) => T): Promise<T> {
  const { hostname, port } = place
  // For a name that doesn't resolve, Bun reports some other error, possibly that the port is in use.
  if (!isAddress(hostname) && !(await isKnown(hostname))) throw toNotListening(hostname, port)
  try {
    return open(place)
  } catch (error) {
    throw toListenError(error, hostname, port)
  }
}

const FREE_MS = 2_000

/** Waits for workers of a killed server, which stop listening once they notice. */
export async function untilFree(place: ListenPlace): Promise<void> {
  for (const endMs = performance.now() + FREE_MS; performance.now() < endMs; await Bun.sleep(10)) {
    try {
      reserve(place)
      return
    } catch {
      // Listening reports the reason.
    }
  }
}

interface MetricsPages {
  api(request: Request): Promise<Response>
  own(request: Request): Promise<Response> | Response
}

/** Returns a function that stops listening. Throws a ServiceError with the reason. */
export async function listenForMetrics({ host, port }: ListenAddress, isShared: boolean, pages: MetricsPages) {
  const hostname = host ?? '127.0.0.1'
  const serve = isLoopback(isAddress(hostname) && hostname.includes(':') ? `[${hostname}]` : hostname)
    ? pages.own
    : pages.api
  const server = await listenAt({ hostname, port, isShared }, (place) =>
    Bun.serve({
      ...{
        hostname,
        port: reserve(place),
        reusePort: CAN_SHARE,
        development: false,
        idleTimeout: 60,
        maxRequestBodySize: 1,
      },
      fetch: (request) =>
        request.method === 'GET' && pathOf(request) === '/metrics'
          ? serve(request)
          : new Response(null, { status: 404 }),
    }),
  )
  return () => server.stop(true)
}

async function isKnown(hostname: string): Promise<boolean> {
  const { lookup } = await import('node:dns/promises')
  return lookup(hostname).then(
    () => true,
    () => false,
  )
}

const toNotListening = (host: string, port: number) =>
  new ServiceError({ kind: 'not_listening', host, port }, `Can't listen on ${host}:${port}.`)

function toListenError(error: unknown, host: string, port: number): ServiceError {
  const code = codeOf(error)
  const place = `${host}:${port}`
  if (code === 'EADDRINUSE') return new ServiceError({ kind: 'port_in_use', host, port }, `${place} is already in use.`)
  if (code === 'EACCES' || code === 'EPERM')
    return new ServiceError({ kind: 'port_forbidden', host, port }, `This user isn't allowed to listen on ${place}.`)
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return new ServiceError({ kind: 'no_such_address', host, port }, `This machine has no address ${host}.`)
  return toNotListening(host, port)
}

/** Time for interrupted responses to settle, including reading and counting usage. */
const CUT_MS = 4_000
/** Time for them to settle once counting has ended. */
const UNCOUNTED_MS = 1_000
/** Time for last bytes to be sent, since a client may not read them. */
const LAST_WORDS_MS = 1_000

/**
 * Waits for running requests and their last bytes. Interrupts requests that exceed the time, which takes at most six
 * more seconds. Resolves true if none was interrupted.
 * @param closeThreads called when token counting and schema validation must end.
 */
export async function drain(
  listener: Pick<Listener, 'stop'>,
  load: Pick<Load, 'ended' | 'stop'>,
  drainMs: number,
  closeThreads: () => void,
): Promise<boolean> {
  const endMs = performance.now() + drainMs
  const clean = await load.ended(drainMs)
  if (!clean) {
    load.stop()
    await load.ended(CUT_MS)
  }
  closeThreads()
  if (!clean) await load.ended(UNCOUNTED_MS)
  const lastMs = clean ? Math.max(0, endMs - performance.now()) : LAST_WORDS_MS
  await Promise.race([listener.stop(false), Bun.sleep(lastMs)])
  await listener.stop(true)
  return clean
}

/** A listener on the public port, in this process or in workers. */
export type PublicPort = Pick<Listener, 'port' | 'origin' | 'count' | 'replace' | 'prefer' | 'grace' | 'stop'>

/** The public port, and the processes that answer on it. */
export interface Front {
  port: PublicPort
  gate: Gate
  /** Call once connections of an earlier server have ended. */
  endSuccession(): Promise<void>
  /** Resolves true if no request was interrupted. @param isSucceeded whether another server has the folder, and may need the port. */
  drain(isSucceeded: boolean): Promise<boolean>
}

interface OwnFrontDeps extends Omit<GateDeps, 'listener'> {
  place: ListenPlace
  certificates: ServedCertificates | null
  load: Load
  drainMs: number
  closeThreads(): void
}

/** Answers in this process. Throws a ServiceError with the reason. */
export async function openOwnFront(deps: OwnFrontDeps): Promise<Front> {
  const { app, load, drainMs, closeThreads } = deps
  const listener = await listenAt(deps.place, (place) => createListener(app, place, deps.certificates))
  return {
    port: listener,
    gate: createGate({ ...deps, listener }),
    endSuccession: async () => {},
    drain(isSucceeded) {
      if (isSucceeded) void listener.stop(false)
      return drain(listener, load, drainMs, closeThreads)
    },
  }
}

/** Throws a ServiceError if processes can't share a port. */
export function toProcessCount(wanted: number | 'auto'): number {
  if (wanted === 1 || (wanted === 'auto' && !CAN_SHARE)) return 1
  if (!CAN_SHARE) throw toBadConfig([`--processes ${wanted} needs Linux: elsewhere, processes can't share a port.`])
  return wanted === 'auto' ? navigator.hardwareConcurrency : wanted
}
