/**
 * One request, read forward: its steps in order, each returning a decision. The first error ends it. Requests rejected
 * before they are recorded are counted and logged; recorded ones are settled by their delivery.
 */

import type { DisconnectedCalls } from '../accounting/call.ts'
import { CallLog } from '../accounting/call-log.ts'
import { type Finished, Settlement } from '../accounting/settle.ts'
import { type Decision, GatewayError, orThrow } from '../domain/error.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import type { Snapshot } from '../domain/snapshot.ts'
import { addHop, HOPS_HEADER, isChat, type Task } from '../domain/task.ts'
import type { Trace } from '../domain/trace.ts'
import type { CountingFormat, Format } from '../formats/format.ts'
import { authenticate } from '../keys/token.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Refusals } from '../ledger/refusals.ts'
import type { EnteredRequest, RequestLimiter } from '../limits/limiter.ts'
import type { Log } from '../log.ts'
import { teamOf, visibleModel } from '../routing/access.ts'
import { modelNotFound } from '../routing/route.ts'
import type { OpenRow } from '../store/ledger-rows.ts'
import type { Load } from './admission.ts'
import { type CallDeps, call } from './calls.ts'
import { type Delivery, deliverWhole, QueueNote, toGatewayError } from './delivery.ts'
import { type ResolveDeps, resolve } from './eligibility.ts'
import type { Arrived, Authenticated, Entered, IncomingRequest, Recorded, Reserved, Unfinished } from './exchange.ts'
import { type ReadDeps, read } from './read.ts'
import type { RealtimeSession } from './realtime.ts'
import { type ReserveDeps, reserve } from './reserve.ts'
import { deliverStream } from './stream.ts'

export interface HandleDeps extends ResolveDeps, ReserveDeps, CallDeps, ReadDeps {
  live: { readonly snapshot: Snapshot }
  ledger: Ledger
  refusals: Pick<Refusals, 'note'>
  disconnectedCalls: DisconnectedCalls
  limiter: Pick<RequestLimiter, 'enter'> & ReserveDeps['limiter'] & CallDeps['limiter']
  load: Load
  log: Log
  onFinished(finished: Finished): void
  /** Null if tracing is off. */
  tracing: Tracing | null
  /** ID of this process, in the ledger and in the hops header. */
  instance: string
  /** Keep-alive interval of streams, ms; 0 = never. */
  heartbeatMs: number
  /** How long a client may leave a full buffer unread, ms. */
  slowReaderMs: number
}

export interface Tracing {
  /** Continues the client's trace, or begins one; null if it isn't sampled. */
  begin(headers: IncomingRequest['headers']): Trace | null
  rejected(trace: Trace, createdMs: number, route: string, error: GatewayError): void
}

/** Throws a GatewayError with the request's ID. */
export async function handle(deps: HandleDeps, format: Format, incoming: IncomingRequest): Promise<Response> {
  const arrived = arrive(deps, format, incoming)
  try {
    const caller = orThrow(identify(deps, arrived))
    const entering = enter(deps, caller)
    const entered = orThrow(entering instanceof Promise ? await entering : entering)
    const parsed = orThrow(await read(deps, entered))
    // A hook that may reject or mask a request: a step here.
    const resolved = orThrow(await resolve(deps, parsed))
    const reserved = orThrow(await reserve(deps, resolved))
    const recorded = await record(deps, reserved)
    return await deliver(deps, format, recorded)
  } catch (cause) {
    throw await toFailure(deps, arrived, cause)
  }
}

/**
 * Opens a session whose turns are separate requests. Throws as `handle` does.
 * @param query of the session's URL.
 */
export async function openRealtime(
  deps: HandleDeps,
  incoming: IncomingRequest,
  query: Readonly<Record<string, string>>,
): Promise<RealtimeSession> {
  const arrived = arrive(deps, { toTask: notRead }, incoming)
  try {
    const caller = orThrow(identify(deps, arrived))
    const { openSession } = await import('./realtime-open.ts')
    return await openSession(deps, caller, query)
  } catch (cause) {
    throw await toFailure(deps, arrived, cause)
  }
}

const notRead = () => {
  throw new Error('a session has no body')
}

/**
 * Counted with another vendor's vocabulary, or estimated from bytes if that takes too long. Counts in the key's request
 * rate; no upstream sees it, and it is not in the ledger. Throws a GatewayError with the request's ID.
 */
export async function countTokens(
  deps: HandleDeps,
  format: CountingFormat,
  incoming: IncomingRequest,
): Promise<Response> {
  const arrived = arrive(deps, format, incoming)
  try {
    const caller = orThrow(identify(deps, arrived))
    const { id, snapshot, key, task, entered, held } = orThrow(await read(deps, orThrow(await enter(deps, caller))))
    if (!visibleModel(snapshot, key, task.model)) throw modelNotFound(snapshot, key, task.model, 'model')
    const reservation = orThrow(await entered.admit(NOTHING, { monotonicMs: deps.monotonicMs(), wallMs: deps.now() }))
    held.defer(() => reservation.settle(NOTHING))
    const tokens = (await deps.counter.prompt(key.quotaId, task.body)) ?? task.promptTokens
    const headers = { ...format.ids(toRequestId(id)), ...reservation.headers }
    held.dispose()
    return Response.json(format.answer(tokens), { headers })
  } catch (cause) {
    throw await toFailure(deps, arrived, cause)
  }
}

const NOTHING = { tokens: 0, nanoUsd: 0 }

function arrive({ now, live }: HandleDeps, format: Arrived['format'], incoming: IncomingRequest): Unfinished {
  const createdMs = now()
  const id = incoming.id ?? mintId(createdMs)
  return { id, createdMs, snapshot: live.snapshot, incoming, format, held: new DisposableStack() }
}

function identify({ instance, tracing }: HandleDeps, arrived: Arrived): Decision<Authenticated> {
  const { incoming, snapshot, createdMs } = arrived
  const key = incoming.owner ?? authenticate(snapshot, incoming, createdMs)
  if (key instanceof GatewayError) return key
  const hops = addHop(incoming.headers[HOPS_HEADER], instance)
  if (hops instanceof GatewayError) return hops
  // Only for known keys: others must not fill the queue of spans.
  const trace = tracing?.begin(incoming.headers) ?? null
  return Object.assign(arrived, { key, team: teamOf(snapshot, key), hops, trace })
}

function enter(deps: HandleDeps, caller: Authenticated): Decision<Entered> | Promise<Decision<Entered>> {
  const { id, key, team, held, incoming } = caller
  const slot = deps.load.enter(key)
  if (slot instanceof GatewayError) return slot
  held.use(slot)
  held.defer(incoming.restoreIdleLimit)
  const toEntered = (entered: Decision<EnteredRequest>) =>
    entered instanceof GatewayError ? entered : Object.assign(caller, { slot, entered })
  const entering = deps.limiter.enter(id, key, team, deps.monotonicMs())
  return entering instanceof Promise ? entering.then(toEntered) : toEntered(entering)
}

/** Durable before any upstream sees it. Throws `ledger_unavailable`. */
async function record(deps: HandleDeps, reserved: Reserved): Promise<Recorded> {
  const { slot, incoming, task, key, first, reservation, outputCap } = reserved
  const signal = slot.admit(incoming.request.signal)
  const row = toOpenRow(deps.instance, reserved)
  await deps.ledger.open(row)
  const { ledger, counter, disconnectedCalls, now, monotonicMs } = deps
  const calls = new CallLog({
    ...{ ledger, row, first, reservation, counter, key, signal, disconnectedCalls, now, monotonicMs, outputCap },
    isUncapped: task.cap === null,
  })
  return Object.assign(reserved, { calls, signal, waiting: new QueueNote() })
}

function deliver(deps: HandleDeps, format: Format, recorded: Recorded): Promise<Response> {
  const { id, createdMs, readAtMs, trace, task, model, calls, reservation, signal, incoming, waiting, held } = recorded
  const { ledger, counter, monotonicMs, onFinished } = deps
  const delivery: Delivery = {
    requestId: toRequestId(id),
    format,
    // Drops the original text, which is as large as everything else and no longer needed.
    task: withoutPassthrough(task),
    identity: { id, created: Math.floor(createdMs / 1000), model: model.facts.id },
    settlement: new Settlement({ ledger, counter, calls, reservation, readAtMs, monotonicMs, trace, onFinished }),
    signal,
    client: incoming.request.signal,
    headers: reservation.headers,
    waiting,
    held,
  }
  // After the settlement, which measures the duration.
  const opening = call(deps, recorded)
  return task.stream ? deliverStream(delivery, opening, deps) : deliverWhole(delivery, opening)
}

function withoutPassthrough(task: Task): Task {
  if (!isChat(task) || !task.passthrough) return task
  const { passthrough: _, ...rest } = task
  return rest
}

const toOpenRow = (
  instance: string,
  { id, createdMs, key, task, model, first: target, passthrough, reserve }: Reserved,
): OpenRow => ({
  id,
  instance,
  keyId: key.id,
  teamId: key.teamId,
  model: model.facts.id,
  endpoint: task.endpoint,
  lane: passthrough.of(target) ? 'native' : 'translated',
  upstream: target.upstream.id,
  upstreamModel: target.upstreamModel,
  stream: task.stream ? 1 : 0,
  createdMs,
  reservedPromptTokens: reserve.reservedPromptTokens,
  reservedCompletionTokens: reserve.reservedCompletionTokens,
  reservedNanoUsd: reserve.reservedNanoUsd,
  priceId: target.priceId,
  user: task.user,
})

const routeOf = (request: Request) => URL.parse(request.url)?.pathname ?? ''

/** Counts and logs an error of a request without a row. Returns the error for the client. */
async function toFailure(
  deps: HandleDeps,
  { id, held, calls, ...at }: Unfinished,
  cause: unknown,
): Promise<GatewayError> {
  held.dispose()
  const error = toGatewayError(cause)
  error.requestId = toRequestId(id)
  if (calls) {
    Object.assign(error.headers, at.reservation?.headers)
    return error
  }
  await at.entered?.refuse(error, deps.monotonicMs())
  if (at.trace) deps.tracing?.rejected(at.trace, at.createdMs, routeOf(at.incoming.request), error)
  const { task, snapshot } = at
  const key = at.key ?? error.key
  deps.refusals.note(error.kind, key, deps.now())
  if (cause !== error) return error
  const model = at.key && task ? visibleModel(snapshot, at.key, task.model)?.model.facts.id : undefined
  const { status, code, kind, param, logged } = error
  deps.log.info('request_refused', 'request rejected', {
    ...{ id, key: key?.id, model, http: status, code: code ?? kind, kind },
    // Only the first field of a path: the rest may be a name that the client chose.
    param: param?.split(/[.[]/, 1)[0] ?? null,
    ...logged,
  })
  return error
}
