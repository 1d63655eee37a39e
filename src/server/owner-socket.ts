/**
 * What the owner of the data folder may ask of a running server, and have it do, over `control.sock`, which nobody else can
 * open. `server.ts` starts it once it serves; a server without it serves all the same.
 */
import { chmodSync, lstatSync, unlinkSync } from 'node:fs'
import { GatewayError } from '../domain/error.ts'
import { NO_LIMITS } from '../domain/limits.ts'
import { once } from '../domain/once.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Key } from '../domain/snapshot.ts'
import type { HandleDeps } from '../gateway/handle.ts'
import { LARGEST_BODY_BYTES } from '../http/app.ts'
import { endpointController, handleOwned } from '../http/endpoints.ts'
import { toErrorResponse } from '../http/error-response.ts'
import { createInstance, type InstanceOptions, type Listener, NoRoute, pathOf } from '../http/instance.ts'
import { listModels, type ModelsDeps, modelsController } from '../http/models.ts'
import { type Log, redact, traceOf } from '../log.ts'
import type { Fleet } from '../processes/fleet.ts'
import { onlyAt } from '../routing/access.ts'
import type { VaultState } from '../store/vault.ts'
import { END_MS } from './admin-view/live-requests.ts'
import { type Flushed, type Status, socketPath } from './protocol.ts'

/** What a reload cannot bring, because a process has it from its start. */
export interface NeedsRestart {
  /** Settings whose rows have changed. */
  settings: string[]
  /** Variables that upstreams name and the process does not have. */
  variables: string[]
}

export interface ControlRoutesDeps {
  log: Log
  status(): Status | Promise<Status>
  /** The model servers that run here. */
  servers: Pick<Fleet, 'start' | 'stop' | 'settled' | 'stopped'>
  /** Applies the catalogue again. Throws a ServiceError that says what is wrong with it; then nothing has changed. */
  reload(): Promise<NeedsRestart>
  /** Has the database take what the ledger's journal holds, for 2 s at most. */
  flush(): Promise<Flushed>
  /** Whether what was typed in opens here, and by what it is sealed. */
  inspectVault(): Promise<VaultState>
  /** Tells commands that follow requests that the server stops. Resolves to whether there was any. */
  endTails(): Promise<boolean>
  /** Makes the code by which the first owner signs in; null where there is one. */
  setupCode(): Promise<string | null>
  /** Begins to drain, and returns at once. */
  drain(): void
  /** Answers a request of the admin API, or for what only commands may do: here nobody needs a proof. */
  admin(request: Request): Promise<Response>
  /** For chats and lists of models that the owner asks for. */
  requests?(): HandleDeps & ModelsDeps
}

/** Longer than a test of an upstream, or a reload, takes. */
const IDLE_SECONDS = 60

/**
 * An instance of its own, which no network port serves. Schemas on the routes would have every start compile them, for as long as
 * all else that makes the server.
 */
export function createControlRoutes({
  log,
  status,
  servers,
  reload,
  flush,
  inspectVault,
  setupCode,
  drain,
  admin,
  requests,
}: ControlRoutesDeps) {
  const toResponse = (error: unknown, request: Request): Response => {
    if (error instanceof NoRoute && error.allow === null) return refuse(404, 'unknown_path', error.message)
    if (error instanceof NoRoute) return refuse(405, 'wrong_method', error.message)
    if (error instanceof GatewayError) return toErrorResponse(error)
    if (error instanceof ServiceError) return refuse(409, error.failure.kind, error.message)
    const fields = { path: pathOf(request), error: traceOf(error) }
    log.error('internal_error', 'a request over the control socket failed', fields)
    return refuse(500, 'internal', 'Internal error: the log of the server has the cause.')
  }

  const options = { toResponse, idleSeconds: IDLE_SECONDS, maxBodyBytes: LARGEST_BODY_BYTES }
  const routes = createInstance(options)
    .mapResponse(({ responseValue, set: { status: code } }) =>
      responseValue instanceof Response ? responseValue : reply(Number(code), responseValue),
    )
    .get('/status', () => status())
    .post('/upstreams/:id/start', ({ request, params: { id } }) => {
      // A large model takes minutes.
      routes.server?.timeout(request, 0)
      return servers.start(id) ? servers.settled(id) : refuseServer(id)
    })
    .post('/upstreams/:id/stop', ({ request, params: { id }, query: { now } }) => {
      routes.server?.timeout(request, 0)
      return servers.stop(id, { now: now === 'true' }) ? servers.stopped(id) : refuseServer(id)
    })
    .post('/reload', async () => {
      return { reloaded: true, needs_restart: await reload() }
    })
    .post('/ledger/flush', () => flush())
    .get('/secret', () => inspectVault())
    .post('/admin/code', async () => {
      const code = await setupCode()
      return code === null ? refuse(409, 'already_set_up', 'There is an owner already.') : { code }
    })
    .post('/drain', ({ set }) => {
      drain()
      set.status = 202
      return { draining: true }
    })
  // The admin API reads bodies itself; what it answers may take as long as its command waits.
  for (const path of ['/admin/api/*', '/operator/*'])
    routes.all(
      path,
      ({ request }) => {
        routes.server?.timeout(request, 0)
        return admin(request)
      },
      { parse: 'none' },
    )
  if (requests) {
    // A start does not wait for it.
    const system = once(async () => createSystemRoutes(requests(), routes, options))
    routes.all('/system/*', async ({ request }) => (await system.get()).handle(request))
  }
  return routes
}

/** What the owner asks for is on record like any request, under this id, which no key has. Who could make a key of any kind is held to no limit. */
const SYSTEM: Key = {
  ...{ id: 'system', name: 'system', scope: 'all', quotaId: 'system', limits: NO_LIMITS, budget: null },
  ...{ teamId: null, ownerId: null, expiresMs: null, revokedMs: null, models: [], allowedIps: [] },
}

/**
 * Serves `/system/v1/chat/completions` and `/system/v1/models`, and the same below `/system/upstreams/<id>`, where that upstream alone is
 * asked. @param app the instance that listens.
 */
function createSystemRoutes(deps: HandleDeps & ModelsDeps, app: Listener, options: InstanceOptions) {
  const at = (id: string) => ({ ...deps, live: { snapshot: onlyAt(deps.live.snapshot, id) } })
  const nowhere = () => null
  return createInstance(options).group('/system', (system) =>
    system
      .use(endpointController(deps, app, nowhere, 'chat', SYSTEM))
      .use(modelsController(deps, nowhere, SYSTEM))
      .get('/upstreams/:id/v1/models', ({ params: { id } }) => ({ object: 'list', data: listModels(at(id), SYSTEM) }))
      .post(
        '/upstreams/:id/v1/chat/completions',
        ({ request, headers, params: { id } }) => handleOwned(at(id), app, request, headers, SYSTEM),
        { parse: 'none' },
      ),
  )
}

const refuse = (status: number, kind: string, message: string) => reply(status, { error: { kind, message } })

const refuseServer = (id: string) =>
  refuse(404, 'unknown_server', `This server starts no model server for an upstream ${id}.`)

/** Whatever an upstream has said may hold something that looks like a secret. */
const reply = (status: number, body: unknown) =>
  new Response(redact(JSON.stringify(body)), {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
  })

export interface ControlDeps extends ControlRoutesDeps {
  dataFolder: string
}

export interface Control {
  /** Null where there could be no socket; the log says why. */
  path: string | null
  /** Closes and removes the socket. Whoever follows is told; whoever else is being answered is cut off. */
  stop(): Promise<void>
}

/**
 * Listens on the data folder's socket. The caller holds `serve.lock`, so that a socket found there is a dead server's.
 * Never throws: where there can be no socket, one warning says so.
 */
export function createControl({ dataFolder, ...deps }: ControlDeps): Control {
  const path = socketPath(dataFolder)
  const routes = createControlRoutes(deps)
  const stop = async () => {
    // What was written last has yet to leave.
    if (await deps.endTails()) await Promise.race([routes.server?.stop(false), Bun.sleep(END_MS)])
    await routes.server?.stop(true)
  }
  try {
    removeStale(path)
    listen(routes, path)
    return { path, stop }
  } catch (error) {
    void routes.server?.stop(true)
    const message = 'there is no control socket: `tollgate upstreams` and `tollgate doctor` cannot ask this server'
    deps.log.warn('control_unavailable', message, { path, error: String(error) })
    return { path: null, stop: async () => {} }
  }
}

function removeStale(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found) return
  if (!found.isSocket()) throw new Error('there is a file in its place that is not a socket; move it away')
  unlinkSync(path)
}

function listen(routes: ReturnType<typeof createControlRoutes>, path: string): void {
  // The socket is there from the moment it is bound: with this mask nobody else can open it even then.
  const mask = process.umask(0o077)
  try {
    routes.listen({ unix: path })
  } finally {
    process.umask(mask)
  }
  chmodSync(path, 0o600)
}
