/**
 * What the owner of the data folder may ask of a running server, and have it do, over `control.sock`, which nobody else can
 * open. `server.ts` starts it once it serves; a server without it serves all the same.
 */
import { chmodSync, lstatSync, unlinkSync } from 'node:fs'
import { GatewayError } from '../domain/error.ts'
import { once } from '../domain/once.ts'
import { ServiceError } from '../domain/service-error.ts'
import { LARGEST_BODY_BYTES } from '../http/app.ts'
import { toErrorResponse } from '../http/error-response.ts'
import { type Controller, createInstance, type Listener, NoRoute, pathOf } from '../http/instance.ts'
import { type Log, redact, traceOf } from '../log.ts'
import type { Fleet } from '../processes/fleet.ts'
import type { RequestFilter } from '../store/report-store.ts'
import type { Rotated, VaultState } from '../store/vault.ts'
import { type ControlError, type Flushed, type Status, socketPath, TailFilter, type TestResult } from './protocol.ts'
import { END_MS, type Tails } from './tails.ts'

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
  /** Probes an upstream now. Resolves to null where there is none of that id. */
  test(upstreamId: string): Promise<TestResult | null>
  /** The model servers that run here. */
  servers: Pick<Fleet, 'start' | 'stop' | 'settled' | 'stopped'>
  /** Applies the catalogue again. Throws a ServiceError that says what is wrong with it; then nothing has changed. */
  reload(): Promise<NeedsRestart>
  /** Has the database take what the ledger's journal holds, for 2 s at most. */
  flush(): Promise<Flushed>
  /** Whether what was typed in opens here, and by what it is sealed. */
  inspectVault(): Promise<VaultState>
  /** Has what was typed in sealed by a new secret. Throws a ServiceError that says why not. */
  rotateSecret(): Promise<Rotated>
  /** Who follows the requests that finish here. */
  tails: Pick<Tails, 'follow' | 'end'>
  /** Makes the code by which the first owner signs in; null where there is one. */
  setupCode(): Promise<string | null>
  /** Begins to drain, and returns at once. */
  drain(): void
  /** Further routes, for an instance that listens here: what the owner may have answered (`http/system.ts`). */
  answers?(app: Listener): Controller
}

/** Longer than a test of an upstream, or a reload, takes. */
const IDLE_SECONDS = 60

/**
 * An instance of its own, which no network port serves. Its answers are checked where they are read, by `cli/live.ts`: schemas
 * on the routes would have every start compile them, for as long as all else that makes the server.
 */
export function createControlRoutes({
  log,
  status,
  test,
  servers,
  reload,
  flush,
  inspectVault,
  rotateSecret,
  tails,
  setupCode,
  drain,
  answers,
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
    .post('/upstreams/:id/test', async ({ params: { id } }) => {
      const result = await test(id)
      return result ?? refuse(404, 'unknown_upstream', `This server has no upstream ${id} that is enabled.`)
    })
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
    .post('/secret/rotate', () => rotateSecret())
    .get('/requests/tail', async ({ request, query: { filter: text = '' } }) => {
      const filter = await toFilter(text)
      if (filter === null) return refuse(400, 'bad_filter', 'That is no filter of requests.')
      // It may have nothing to say for hours, and its reader may take as long.
      routes.server?.timeout(request, 0)
      const following = tails.follow(filter, request.signal)
      return following ?? refuse(429, 'too_many_tails', 'As many follow already as this server tells: end one of them.')
    })
    .post('/admin/code', async () => {
      const code = await setupCode()
      return code === null ? refuse(409, 'already_set_up', 'There is an owner already.') : { code }
    })
    .post('/drain', ({ set }) => {
      drain()
      set.status = 202
      return { draining: true }
    })
  if (answers) {
    // A start does not wait for it.
    const more = once(async () => createInstance(options).use(answers(routes)))
    routes.all('/system/*', async ({ request }) => (await more.get()).handle(request))
  }
  return routes
}

/** Null where the text is not the JSON of one. */
async function toFilter(text: string): Promise<RequestFilter | null> {
  const { Value } = await import('@sinclair/typebox/value')
  try {
    const filter: unknown = JSON.parse(text)
    return Value.Check(TailFilter, filter) ? filter : null
  } catch {
    return null
  }
}

const toError = (kind: string, message: string): ControlError => ({ error: { kind, message } })
const refuse = (status: number, kind: string, message: string) => reply(status, toError(kind, message))

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
    if (await deps.tails.end()) await Promise.race([routes.server?.stop(false), Bun.sleep(END_MS)])
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
