/**
 * What the owner of the data folder may ask of a running server, and have it do: the routes of `control.sock`. An instance of its own,
 * which no network port serves; `control.ts` has it listen.
 */
import { Type } from '@sinclair/typebox'
import { ServiceError } from '../domain/service-error.ts'
import { createInstance, NoRoute } from '../http/instance.ts'
import { pathOf } from '../http/path.ts'
import { type Log, redact, traceOf } from '../log.ts'
import { ControlError, Flushed, Status, TestResult } from './protocol.ts'

export interface ControlRoutesDeps {
  log: Log
  status(): Status | Promise<Status>
  /** Probes an upstream now. Resolves to null where there is none of that id. */
  test(upstreamId: string): Promise<TestResult | null>
  /** Applies the catalogue again. Throws a ServiceError that says what is wrong with it; then nothing has changed. */
  reload(): Promise<void>
  /** Has the database take what the ledger's journal holds, for 2 s at most. */
  flush(): Promise<Flushed>
  /** Begins to drain, and returns at once. */
  drain(): void
}

/** Longer than a test of an upstream, or a reload, takes. */
const IDLE_SECONDS = 60
/** No request here has a body. */
const MAX_BODY_BYTES = 1024

export function createControlRoutes({ log, status, test, reload, flush, drain }: ControlRoutesDeps) {
  const toResponse = (error: unknown, request: Request): Response => {
    if (error instanceof NoRoute) {
      return error.allow === null
        ? refuse(404, 'unknown_path', error.message)
        : refuse(405, 'wrong_method', error.message)
    }
    if (error instanceof ServiceError) return refuse(409, error.failure.kind, error.message)
    log.error('internal_error', 'a request over the control socket failed', {
      path: pathOf(request),
      error: traceOf(error),
    })
    return refuse(500, 'internal', 'Internal error: the log of the server has the cause.')
  }

  return createInstance({ toResponse, idleSeconds: IDLE_SECONDS, maxBodyBytes: MAX_BODY_BYTES })
    .mapResponse(({ responseValue, set: { status: code } }) =>
      responseValue instanceof Response ? responseValue : reply(Number(code), responseValue),
    )
    .get('/status', () => status(), { response: { 200: Status } })
    .post(
      '/upstreams/:id/test',
      async ({ params: { id }, status: answer }) => {
        const result = await test(id)
        return result ?? answer(404, toError('unknown_upstream', `This server has no upstream ${id} that is enabled.`))
      },
      { params: Type.Object({ id: Type.String() }), response: { 200: TestResult, 404: ControlError } },
    )
    .post(
      '/reload',
      async () => {
        await reload()
        return { reloaded: true }
      },
      { response: { 200: Type.Object({ reloaded: Type.Boolean() }) } },
    )
    .post('/ledger/flush', () => flush(), { response: { 200: Flushed } })
    .post(
      '/drain',
      ({ status: answer }) => {
        drain()
        return answer(202, { draining: true })
      },
      { response: { 202: Type.Object({ draining: Type.Boolean() }) } },
    )
}

const toError = (kind: string, message: string): ControlError => ({ error: { kind, message } })
const refuse = (status: number, kind: string, message: string) => reply(status, toError(kind, message))

/** Whatever an upstream has said may hold something that looks like a secret. */
const reply = (status: number, body: unknown) =>
  new Response(redact(JSON.stringify(body)), {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
  })

export type ControlRoutes = ReturnType<typeof createControlRoutes>
