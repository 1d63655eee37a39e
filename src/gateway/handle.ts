/**
 * One chat request, from the raw request to the response, read forward (design 4). What decides about it is in
 * `admit.ts`; the first refusal ends the walk. What is refused before dispatch leaves a log line and no ledger row; what
 * is dispatched is settled by the relay.
 */

import { createTally } from '../accounting/calls.ts'
import { createSettlement } from '../accounting/settle.ts'
import { toGatewayError } from '../delivery/failure.ts'
import { relay } from '../delivery/whole.ts'
import { type Decision, type GatewayError, orThrow } from '../domain/error.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Snapshot } from '../domain/snapshot.ts'
import { validate } from '../formats/chat/validate.ts'
import type { Health } from '../health/health.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { OpenRow } from '../ledger/rows.ts'
import type { Limiter, Reservation } from '../limits/limiter.ts'
import type { Fields, Log } from '../log.ts'
import { visibleModel } from '../routing/resolve.ts'
import type { Checker } from '../structured/checker.ts'
import { type AdmitDeps, type Admitted, admit } from './admit.ts'
import { type AttemptOptions, attempt } from './attempt.ts'
import { authenticate } from './authenticate.ts'
import { type RequestHeaders, readJson } from './body.ts'
import { createDispatch, type DispatchDeps } from './dispatch.ts'
import { enforce } from './enforce.ts'
import { fanOut } from './fanout.ts'
import type { InFlightTracker } from './in-flight.ts'
import type { LoadShedder, MemoryReservation } from './load.ts'

export interface WalkDeps extends AdmitDeps, DispatchDeps {
  snapshot(): Snapshot
  ledger: Ledger
  checker: Checker
  limiter: Limiter
  health: Health
  inFlight: InFlightTracker
  load: LoadShedder
  log: Log
  /** Wall clock, ms. */
  now(): number
  /** Id of this process in the ledger. */
  instance: string
  /** After how much silence a stream says that it lives, ms; 0 = never. */
  heartbeatMs: number
  /** How long a client may leave a full buffer standing, ms. */
  slowReaderMs: number
  retry: Pick<AttemptOptions, 'retries' | 'backoffMs'>
}

export interface Arrival {
  request: Request
  /** Its headers as Elysia has read them already: reading them again would cost as much. */
  headers: RequestHeaders
  token: string | null
  /** Lifts the connection's idle limit: a client that has proved its key may wait for its answer. */
  lift(): void
  /** Puts it back, before the last bytes leave: after them Bun takes no more settings for the connection. */
  restore(): void
}

/** Answers a chat request. Throws a GatewayError that carries the request's id. */
export async function walk(deps: WalkDeps, arrival: Arrival): Promise<Response> {
  const createdMs = deps.now()
  const id = mintId(createdMs)
  let rates: Reservation['headers'] = {}
  /** What the log says about a refusal, beside its code. Only a refused request has it worked out. */
  let about = (): Fields => ({})
  let end = () => {}
  let handedOver = false
  try {
    // 1. Who asks, and is there room for one more?
    const snapshot = deps.snapshot()
    const key = orThrow(authenticate(snapshot, arrival.token, createdMs))
    about = () => ({ key: key.id })
    const memory = orThrow(deps.load.enter())
    // 2. What is asked? Read and parsed once.
    end = () => {
      memory.release()
      arrival.restore()
    }
    const body = orThrow(await readRequest(arrival, memory))
    about = () => ({ key: key.id, model: visibleModel(snapshot, key, body.model)?.model.facts.id })
    // 3. Where, and may they? From here on it is reserved for.
    const admitted = orThrow(await admit(deps, snapshot, key, body))
    const { hold } = admitted
    rates = hold.headers
    const done = deps.inFlight.begin()
    end = () => {
      hold.cancel()
      memory.release()
      done()
      arrival.restore()
    }
    // 4. On record, durably, before any backend sees it.
    const row = toOpenRow(deps.instance, id, createdMs, admitted)
    await deps.ledger.open(row)
    // 5. Asked, answered, settled.
    handedOver = true
    return await answer(deps, arrival.request.signal, admitted, row, memory, end)
  } catch (cause) {
    const error = toGatewayError(cause)
    error.requestId = toRequestId(id)
    Object.assign(error.headers, rates)
    if (!handedOver && cause === error) logRefusal(deps.log, { id, ...about() }, error)
    throw error
  } finally {
    if (!handedOver) end()
  }
}

async function readRequest(
  { request, headers, lift }: Arrival,
  memory: MemoryReservation,
): Promise<Decision<CanonicalRequest>> {
  const json = await readJson(request, headers, memory)
  if (!json.ok) return json
  lift()
  return validate(json.value)
}

/** Has the targets tried and their answer carried to the client, which settles the request. */
function answer(
  deps: WalkDeps,
  signal: AbortSignal,
  { body, targets, slug, hold, health }: Admitted,
  row: OpenRow,
  memory: MemoryReservation,
  onEnd: () => void,
): Promise<Response> {
  const { ledger, counter, log, now } = deps
  const { id, createdMs } = row
  const tally = createTally({ ledger, row, first: targets[0], hold, now })
  const dispatch = fanOut(enforce(createDispatch(deps, id, tally, memory, health), deps.checker))
  return relay({
    shape: {
      identity: { id: `chatcmpl-${id}`, created: Math.floor(createdMs / 1000), model: slug },
      includeUsage: body.stream_options?.include_usage === true,
      choices: body.n ?? 1,
      logprobs: body.logprobs === true,
    },
    stream: body.stream === true,
    requestId: toRequestId(id),
    attempt: (open) => attempt({ health, ...deps.retry }, { targets, body, signal }, dispatch, open),
    settlement: createSettlement({ ledger, counter, log, row, tally, hold }),
    headers: hold.headers,
    signal,
    heartbeatMs: deps.heartbeatMs,
    slowReaderMs: deps.slowReaderMs,
    onEnd,
  })
}

/** The row as it stands before the first call, with what that call reserves. */
function toOpenRow(
  instance: string,
  id: string,
  createdMs: number,
  { key, body, targets: [target], reserve, slug }: Admitted,
): OpenRow {
  return {
    id,
    instance,
    keyId: key.id,
    model: slug,
    upstream: target.upstream.id,
    upstreamModel: target.upstreamModel,
    stream: body.stream ? 1 : 0,
    createdMs,
    ...reserve,
    priceId: target.priceId,
    user: body.user?.slice(0, MAX_USER_CHARS) ?? null,
  }
}

const MAX_USER_CHARS = 256

/** A refusal leaves one log line, and no ledger row. */
function logRefusal(log: Log, about: Fields, { status, code, kind, param }: GatewayError): void {
  log.info('refused', { ...about, http: status, code: code ?? kind, kind, param: fieldOf(param) })
}

/** The field that a path begins with: what follows may be a name of the client's own. */
const fieldOf = (param: string | null) => param?.split(/[.[]/, 1)[0] ?? null
