/**
 * Has the control routes listen on `control.sock`, which only the user whose data folder it is in can open. `server.ts`
 * starts it once it serves; a server without it serves all the same.
 */
import { chmodSync, lstatSync, unlinkSync } from 'node:fs'
import { type ControlRoutes, type ControlRoutesDeps, createControlRoutes } from './control-routes.ts'
import { socketPath } from './protocol.ts'

export interface ControlDeps extends ControlRoutesDeps {
  dataFolder: string
}

export interface Control {
  /** Null where there could be no socket; the log says why. */
  path: string | null
  /** Closes and removes the socket. Whoever is being answered is cut off. */
  stop(): Promise<void>
}

/**
 * Listens on the data folder's socket. The caller holds `serve.lock`, so that a socket found there is a dead server's.
 * Never throws: where there can be no socket, one warning says so.
 */
export function createControl({ dataFolder, ...deps }: ControlDeps): Control {
  const path = socketPath(dataFolder)
  const routes = createControlRoutes(deps)
  try {
    removeStale(path)
    listen(routes, path)
    return { path, stop: async () => routes.server?.stop(true) }
  } catch (error) {
    void routes.server?.stop(true)
    deps.log.warn(
      'control_unavailable',
      'there is no control socket: `tollgate upstreams` and `tollgate doctor` cannot ask this server',
      {
        path,
        error: String(error),
      },
    )
    return { path: null, stop: async () => {} }
  }
}

function removeStale(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found) return
  if (!found.isSocket()) throw new Error('there is a file in its place that is not a socket; move it away')
  unlinkSync(path)
}

function listen(routes: ControlRoutes, path: string): void {
  // The socket is there from the moment it is bound: with this mask nobody else can open it even then.
  const mask = process.umask(0o077)
  try {
    routes.listen({ unix: path })
  } finally {
    process.umask(mask)
  }
  chmodSync(path, 0o600)
}
