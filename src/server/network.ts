/**
 * How a server takes its place on the network and gives it up, and how much it takes on meanwhile: requests, as far as its open files go, what they
 * hold in memory, bodies on their way, and calls whose clients have left. Called by `server.ts`, once each.
 */

import { DisconnectedCalls } from '../accounting/call.ts'
import type { ServeConfig } from '../config.ts'
import { codeOf } from '../domain/error.ts'
import { isAddress } from '../domain/ip.ts'
import { ServiceError } from '../domain/service-error.ts'
import { Load, OverloadState, stopping } from '../gateway/admission.ts'
import { Uploads } from '../gateway/read.ts'
import type { App } from '../http/app.ts'
import type { Log } from '../log.ts'
import { readMaxFiles, toFileLimit, toLowLimit } from './open-files.ts'

/** Begins to listen and returns the base URL, which ends in `/v1`. Throws a ServiceError that says why not. */
export async function listen(app: App, hostname: string, port: number): Promise<string> {
  // Of a name that does not resolve Bun says whatever failed last, if not that somebody else listens there.
  if (!isAddress(hostname) && !(await isKnown(hostname))) throw toNotListening(hostname, port)
  try {
    app.listen({ hostname, port })
  } catch (error) {
    throw toListenError(error, hostname, port)
  }
  const url = app.server?.url
  if (!url) throw toNotListening(hostname, port)
  return `${url.origin}/v1`
}

async function isKnown(hostname: string): Promise<boolean> {
  const { lookup } = await import('node:dns/promises')
  return lookup(hostname).then(
    () => true,
    () => false,
  )
}

const toNotListening = (host: string, port: number) =>
  new ServiceError({ kind: 'not_listening', host, port }, `Cannot listen on ${host}:${port}.`)

function toListenError(error: unknown, host: string, port: number): ServiceError {
  const code = codeOf(error)
  const place = `${host}:${port}`
  if (code === 'EADDRINUSE')
    return new ServiceError({ kind: 'port_in_use', host, port }, `Something else is listening on ${place}.`)
  if (code === 'EACCES' || code === 'EPERM')
    return new ServiceError({ kind: 'port_forbidden', host, port }, `This user may not listen on ${place}.`)
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return new ServiceError({ kind: 'no_such_address', host, port }, `This machine has no address ${host}.`)
  return toNotListening(host, port)
}

/** How long answers that a stop has cut may take to settle, the reading of what they used and its counting among it. */
const CUT_MS = 4_000
/** How long they may take once nothing is counted any more. */
const UNCOUNTED_MS = 1_000
/** How long their last words may take to leave: a client may not read them at all. */
const LAST_WORDS_MS = 1_000

/**
 * Waits for what is under way, and for its last bytes to leave; what does not end in time is cut, told so, and settled as such, which
 * takes six seconds more at most. Resolves true where nothing was cut.
 * @param closeThreads called once no more time is to be spent on counting tokens and checking schemas.
 */
export async function drain(
  app: App,
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
  await Promise.race([app.server?.stop(false), Bun.sleep(lastMs)])
  await app.server?.stop(true)
  return clean
}

/** @param nowMs a clock that never steps. */
export function createCapacity(config: ServeConfig, { nowMs, log }: { nowMs(): number; log: Log }) {
  const files = toFileLimit(readMaxFiles(), config.maxInFlight)
  const lowLimit = toLowLimit(files)
  if (lowLimit !== null) log.warn('file_descriptors_low', lowLimit)
  const overload = new OverloadState({
    onChange: (reason) =>
      reason === null
        ? log.info('server_recovered', 'there is room for every request again')
        : log.warn('server_overloaded', 'requests are refused for want of room', { reason }),
  })
  const load = new Load({ ...config, maxInFlight: files.max_in_flight, nowMs, overload })
  const uploads = new Uploads(config)
  const disconnectedCalls = new DisconnectedCalls(config)
  return {
    files,
    /** A sentence for whoever has started a server that may open too few; null where it may open enough. */
    lowLimit,
    overload,
    load,
    uploads,
    disconnectedCalls,
    /** Takes nothing new, and lets what is under way end. */
    drain(): void {
      load.drain()
      uploads.end(stopping)
      disconnectedCalls.drain()
    },
  }
}
