/**
 * Commands of the data folder's owner to a running server, over `control.sock`. A server also works without the socket.
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
import type { BudgetRefusal, HeldRaise } from '../limits/budget.ts'
import { type Log, redact, traceOf } from '../log.ts'
import type { Fleet } from '../processes/fleet.ts'
import { onlyAt } from '../routing/access.ts'
import type { VaultState } from '../store/vault.ts'
import { END_MS } from './admin-view/live-requests.ts'
import {
  type FlushResult,
  type Restarted,
  type RestartOptions,
  type SetupLink,
  type Status,
  socketPath,
  toRestartOptions,
} from './protocol.ts'

export interface NeedsRestart {
  settings: string[]
  /** Environment variables that upstreams use and the process lacks. */
  variables: string[]
}

export interface ControlRoutesDeps {
  log: Log
  status(): Status | Promise<Status>
  servers: Pick<Fleet, 'start' | 'stop' | 'settled' | 'stopped'>
  /** Applies the catalog again. Throws a ServiceError if it is invalid; then nothing changes. */
  reload(): Promise<NeedsRestart>
  /** Resolves once a new process serves. Throws a ServiceError if the start fails; then nothing changes. */
  restart?(how: RestartOptions): Promise<Restarted>
  /** For a request that an earlier server finishes. */
  raiseHeld?(raise: HeldRaise): BudgetRefusal | null
  /** Writes the journal's records to the database, for at most 2 s. */
  flush(): Promise<FlushResult>
  /** Whether stored credentials can be decrypted here, and with which secret. */
  inspectVault(): Promise<VaultState>
  endTails(): Promise<boolean>
  /** Null if an owner exists. */
  setupCode(): Promise<SetupLink | null>
  drain(): void
  /** Serves the admin API and routes for commands only, without authentication. */
  admin(request: Request): Promise<Response>
  requests?(): HandleDeps & ModelsDeps
}

/** Longer than an upstream test or a reload. */
const IDLE_SECONDS = 60

/** Not served on any network port. Without route schemas: compiling them would double the start time. */
export function createControlRoutes({
  log,
  status,
  servers,
  reload,
  restart,
  raiseHeld,
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
    log.error('internal_error', 'control socket request failed', fields)
    return refuse(500, 'internal', 'Internal error. See the server log.')
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
    .post(
      '/restart',
      async ({ request }) => {
        routes.server?.timeout(request, 0)
        return (
          restart?.(toRestartOptions(await request.json())) ??
          refuse(409, 'restart_failed', "This server can't restart.")
        )
      },
      { parse: 'none' },
    )
    .post(
      '/budget/raise',
      async ({ request }) =>
        raiseHeld
          ? { refusal: raiseHeld((await request.json()) as HeldRaise) }
          : refuse(409, 'not_held_here', 'All nodes share the limits.'),
      { parse: 'none' },
    )
    .post('/ledger/flush', () => flush())
    .get('/secret', () => inspectVault())
    .post('/admin/code', async () => {
      const link = await setupCode()
      return link ?? refuse(409, 'already_set_up', 'An owner already exists.')
    })
    .post('/drain', ({ set }) => {
      drain()
      set.status = 202
      return { draining: true }
    })
  // The admin API reads bodies itself; a response may take as long as its command waits.
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
    // Built on first use, not at start.
    const system = once(async () => createSystemRoutes(requests(), routes, options))
    routes.all('/system/*', async ({ request }) => (await system.get()).handle(request))
  }
  return routes
}

/** The owner's requests are recorded under this ID, which no key has. No limits: the owner could create any key. */
const SYSTEM: Key = {
  ...{ id: 'system', name: 'system', scope: 'all', quotaId: 'system', limits: NO_LIMITS, budget: null },
  ...{ teamId: null, ownerId: null, expiresMs: null, revokedMs: null, models: [], allowedIps: [] },
}

/**
 * Serves `/system/v1/chat/completions` and `/system/v1/models`, and the same below `/system/upstreams/<id>` for one
 * upstream.
 * @param app the instance that listens.
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
  refuse(
    404,
    'unknown_server',
    `Tollgate runs no model server for upstream ${id}. Only upstreams with a process have one.`,
  )

/** Text from upstreams may contain secrets. */
const reply = (status: number, body: unknown) =>
  new Response(redact(JSON.stringify(body)), {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
  })

export interface ControlDeps extends ControlRoutesDeps {
  dataFolder: string
}

export interface Control {
  /** Null if the socket could not be created; the log has the reason. */
  path: string | null
  /** False once another server has taken its path. */
  isThere(): boolean
  /** Followers get an end event. Requests of the admin API get 5 s to end. Others are interrupted. */
  stop(): Promise<void>
}

/** Time for changes in progress at a stop. Without a response, the command can't report whether they were applied. */
const LAST_CHANGES_MS = 5_000
const AGAIN_MS = 5

/** The caller holds `serve.lock`, so an existing socket is stale. Never throws: a failure is logged as a warning. */
export function createControl({ dataFolder, admin, ...deps }: ControlDeps): Control {
  const path = socketPath(dataFolder)
  let running = 0
  const routes = createControlRoutes({
    ...deps,
    async admin(request) {
      running++
      try {
        return await admin(request)
      } finally {
        running--
      }
    },
  })
  let ino: number | null = null
  const isThere = () => ino !== null && lstatSync(path, { throwIfNoEntry: false })?.ino === ino
  const stop = async () => {
    if (!routes.server) return
    // Connected commands still get a response.
    if (isThere()) unlinkSync(path)
    await Bun.sleep(AGAIN_MS)
    const isFollowed = await deps.endTails()
    const isBusy = running > 0
    const endMs = performance.now() + LAST_CHANGES_MS
    while (running > 0 && performance.now() < endMs) await Bun.sleep(AGAIN_MS)
    if (isFollowed || isBusy) await Promise.race([routes.server.stop(false), Bun.sleep(END_MS)])
    await routes.server.stop(true)
  }
  try {
    removeStale(path)
    listen(routes, path)
    ino = lstatSync(path).ino
    return { path, isThere, stop }
  } catch (error) {
    void routes.server?.stop(true)
    const message = "control socket unavailable; CLI commands can't reach this server"
    deps.log.warn('control_unavailable', message, { path, error: String(error) })
    return { path: null, isThere, stop: async () => {} }
  }
}

function removeStale(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found) return
  if (!found.isSocket()) throw new Error('a file that is not a socket is in its place; move it')
  unlinkSync(path)
}

function listen(routes: ReturnType<typeof createControlRoutes>, path: string): void {
  // The socket exists once bound: the mask protects it from that moment.
  const mask = process.umask(0o077)
  try {
    routes.listen({ unix: path })
  } finally {
    process.umask(mask)
  }
  chmodSync(path, 0o600)
}
