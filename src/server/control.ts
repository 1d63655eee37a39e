/**
 * The server's end of `control.sock`: live state and a few orders for whoever owns the data folder, as HTTP and JSON over a
 * unix socket that only that user can open. `server.ts` starts it once it serves; a server without it serves all the same.
 */
import { chmodSync, lstatSync, unlinkSync } from 'node:fs'
import { ServiceError } from '../domain/service-error.ts'
import { type Log, redact, traceOf } from '../log.ts'
import { type ControlError, type Status, socketPath, type TestResult } from './protocol.ts'

export interface ControlDeps {
  dataFolder: string
  log: Log
  status(): Status | Promise<Status>
  /** Asks an upstream now. Resolves to null where there is none of that id. */
  test(upstreamId: string): Promise<TestResult | null>
  /** Applies the catalogue again. Throws a ServiceError that says what is wrong with it; then nothing has changed. */
  reload(): Promise<void>
  /** Begins to drain, and returns at once. */
  drain(): void
}

export interface Control {
  /** Null where there could be no socket; the log says why. */
  path: string | null
  /** Closes and removes the socket. Whoever is being answered is cut off. */
  stop(): Promise<void>
}

/** Seconds of silence that a connection may have: longer than a test of an upstream, or a reload, takes. */
const IDLE_SECONDS = 60
/** No order has a body. */
const MAX_BODY_BYTES = 1024

/**
 * Listens on the data folder's socket. The caller holds `serve.lock`, so that a socket found there is a dead server's.
 * Never throws: where there can be no socket, one warning says so.
 */
export function createControl(deps: ControlDeps): Control {
  const path = socketPath(deps.dataFolder)
  try {
    const server = listen(path, deps)
    return { path, stop: () => server.stop(true) }
  } catch (error) {
    deps.log.warn('there is no control socket: `tollgate upstreams` and `tollgate doctor` cannot ask this server', {
      path,
      error: String(error),
    })
    return { path: null, stop: async () => {} }
  }
}

function listen(path: string, deps: ControlDeps): Bun.Server<undefined> {
  removeStale(path)
  // The socket is there from the moment it is bound: with this mask nobody else can open it even then.
  const mask = process.umask(0o077)
  let server: Bun.Server<undefined>
  try {
    const options: Bun.Serve.Options<undefined> = {
      unix: path,
      maxRequestBodySize: MAX_BODY_BYTES,
      development: false,
      fetch: (request) => answer(request, deps),
    }
    // Bun's types know this one for ports only; sockets obey it just the same.
    server = Bun.serve(Object.assign(options, { idleTimeout: IDLE_SECONDS }))
  } finally {
    process.umask(mask)
  }
  try {
    chmodSync(path, 0o600)
  } catch (error) {
    void server.stop(true)
    throw error
  }
  return server
}

function removeStale(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found) return
  if (!found.isSocket()) throw new Error('something that is no socket has its place; move it away')
  unlinkSync(path)
}

/** The one method of each path. */
const METHODS: Readonly<Record<string, string>> = { status: 'GET', reload: 'POST', drain: 'POST', test: 'POST' }

async function answer(request: Request, deps: ControlDeps): Promise<Response> {
  const { pathname } = new URL(request.url)
  const [, upstreamId] = /^\/upstreams\/([^/]+)\/test$/.exec(pathname) ?? []
  const action = upstreamId === undefined ? pathname.slice(1) : 'test'
  const method = Object.hasOwn(METHODS, action) ? METHODS[action] : undefined
  if (method === undefined || (action === 'test' && upstreamId === undefined))
    return refuse(404, 'unknown_path', `There is no ${pathname} here.`)
  if (method !== request.method)
    return refuse(405, 'wrong_method', `Not allowed to ${request.method} on ${pathname}; use ${method} instead.`)
  try {
    return await act(action, upstreamId ?? '', deps)
  } catch (error) {
    if (error instanceof ServiceError) return refuse(409, error.failure.kind, error.message)
    deps.log.error('an order over the control socket failed for a reason of our own', {
      path: pathname,
      error: traceOf(error),
    })
    return refuse(500, 'internal', 'Tollgate made a mistake; its log has the cause.')
  }
}

async function act(action: string, upstreamId: string, deps: ControlDeps): Promise<Response> {
  switch (action) {
    case 'test': {
      const result = await deps.test(toText(upstreamId))
      if (result) return reply(200, result)
      return refuse(404, 'unknown_upstream', `This server has no upstream ${toText(upstreamId)} that is enabled.`)
    }
    case 'reload':
      await deps.reload()
      return reply(200, { reloaded: true })
    case 'drain':
      deps.drain()
      return reply(202, { draining: true })
    default:
      return reply(200, await deps.status())
  }
}

/** An id as the path has it; one that is badly encoded names nothing. */
function toText(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded
  }
}

const refuse = (status: number, kind: string, message: string) =>
  reply(status, { error: { kind, message } } satisfies ControlError)

/** Whatever an upstream has said may hold something that looks like a secret. */
const reply = (status: number, body: unknown) =>
  new Response(redact(JSON.stringify(body)), {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
  })
