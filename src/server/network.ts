/** How a server takes its place on the network, and how it gives it up. Called by `server.ts`, once each. */
import { isAddress } from '../domain/address.ts'
import { codeOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Load } from '../gateway/intake.ts'
import type { App } from '../http/app.ts'

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

/** How long the rows of answers that a stop has cut may take to settle. */
const CUT_MS = 5_000

/**
 * Waits for what is under way, and for its last bytes to leave; what does not end in time is cut, and settled as such.
 * Resolves true where nothing was cut.
 * @param closeThreads called once no more time is to be spent on counting tokens and checking schemas.
 */
export async function drain(
  app: App,
  load: Pick<Load, 'ended'>,
  drainMs: number,
  closeThreads: () => void,
): Promise<boolean> {
  const endMs = performance.now() + drainMs
  const clean = await load.ended(drainMs)
  closeThreads()
  if (clean) await Promise.race([app.server?.stop(false), Bun.sleep(Math.max(0, endMs - performance.now()))])
  await app.server?.stop(true)
  if (!clean) await load.ended(CUT_MS)
  return clean
}
