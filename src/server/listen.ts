/** Takes the server's place on the network, and says in words why it cannot have it. Called once, by `server.ts`. */

import { codeOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { App } from '../http/app.ts'

/** Begins to listen and returns the base URL, which ends in `/v1`. Throws a ServiceError that says why not. */
export function listen(app: App, hostname: string, port: number): string {
  try {
    app.listen({ hostname, port })
  } catch (error) {
    throw toListenError(error, hostname, port)
  }
  const url = app.server?.url
  if (!url)
    throw new ServiceError({ kind: 'not_listening', host: hostname, port }, `Cannot listen on ${hostname}:${port}.`)
  return `${url.origin}/v1`
}

function toListenError(error: unknown, host: string, port: number): unknown {
  const code = codeOf(error)
  const place = `${host}:${port}`
  if (code === 'EADDRINUSE')
    return new ServiceError({ kind: 'port_in_use', host, port }, `Something else is listening on ${place}.`)
  if (code === 'EACCES' || code === 'EPERM')
    return new ServiceError({ kind: 'port_forbidden', host, port }, `This user may not listen on ${place}.`)
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return new ServiceError({ kind: 'no_such_address', host, port }, `This machine has no address ${host}.`)
  return error
}
