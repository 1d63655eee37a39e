/** Takes the server's place on the network, and says in words why it cannot have it. Called once, by `server.ts`. */

import { CommandError, codeOf } from '../domain/error.ts'
import type { App } from '../http/app.ts'

/** Begins to listen and returns the base URL, which ends in `/v1`. Throws a CommandError that says what to do instead. */
export function listen(app: App, hostname: string, port: number): string {
  try {
    app.listen({ hostname, port })
  } catch (error) {
    throw toListenError(error, hostname, port)
  }
  const url = app.server?.url
  if (!url) throw new CommandError('not_listening', `Cannot listen on ${hostname}:${port}.`)
  return `${url.origin}/v1`
}

function toListenError(error: unknown, hostname: string, port: number): unknown {
  const code = codeOf(error)
  const place = `${hostname}:${port}`
  if (code === 'EADDRINUSE') {
    return new CommandError('port_in_use', `Something else is listening on ${place}. Choose another port with --port.`)
  }
  if (code === 'EACCES' || code === 'EPERM') {
    return new CommandError(
      'port_forbidden',
      `This user may not listen on ${place}. Choose a port above 1023 with --port.`,
    )
  }
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return new CommandError(
      'no_such_address',
      `This machine has no address ${hostname}. Choose another one with --host.`,
    )
  }
  return error
}
