/**
 * One request, from the raw request to the response, read forward. What decides about it is in `admit.ts`; the first
 * refusal ends it. What is refused before dispatch leaves a log line and no ledger row; what is dispatched is settled by
 * its delivery. What it holds is released by one scope, whichever way it ends.
 */

import type { LeftCalls } from '../accounting/call.ts'
import { CallLog } from '../accounting/call-log.ts'
import { type Finished, Settlement } from '../accounting/settle.ts'
import type { Delivery } from '../delivery/delivery.ts'
import { toGatewayError } from '../delivery/failure.ts'
import { deliverStream } from '../delivery/stream.ts'
import { Waiting } from '../delivery/waiting.ts'
import { deliverWhole } from '../delivery/whole.ts'
import { EMBEDDING } from '../domain/embedding.ts'
import { type Decision, GatewayError } from '../domain/error.ts'
import { addHop, HOPS_HEADER } from '../domain/hops.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import type { Key, Snapshot } from '../domain/snapshot.ts'
import type { Task } from '../domain/task.ts'
import type { Format } from '../formats/format.ts'
import type { Health } from '../health/health.ts'
import { authenticate, type Caller } from '../keys/token.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { EnteredRequest, Limiter, Reservation } from '../limits/limiter.ts'
import type { Log, LogFields } from '../log.ts'
import { teamOf, visibleModel } from '../routing/access.ts'
import type { OpenRow } from '../store/ledger-rows.ts'
import type { Checker } from '../structured/checker.ts'
import { type AdmitDeps, type Admitted, admit } from './admit.ts'
import { type AttemptOptions, attempt } from './attempt.ts'
import { createDispatch, type DispatchDeps } from './dispatch.ts'
import { enforce } from './enforce.ts'
import { fanOut } from './fanout.ts'
import type { Load } from './intake.ts'
import { inParts } from './parts.ts'
import { type ReadDeps, readTask, type UnreadRequest } from './read-task.ts'

export interface HandleDeps extends AdmitDeps, DispatchDeps, ReadDeps {
  /** What is in force: another snapshot after each change of the configuration. */
  live: { readonly snapshot: Snapshot }
  ledger: Ledger
  leftCalls: LeftCalls
  checker: Checker
  limiter: Pick<Limiter, 'enter'> & AdmitDeps['limiter'] & DispatchDeps['limiter']
  health: Pick<Health, 'forRequest'>
  load: Load
  log: Log
  /** Told of every request that was dispatched, once it has come to its end. */
  onFinished(finished: Finished): void
  /** Id of this process, in the ledger and for upstreams that lead back here. */
  instance: string
  /** After how much silence a stream says that it lives, ms; 0 = never. */
  heartbeatMs: number
  /** How long a client may leave a full buffer standing, ms. */
  slowReaderMs: number
  retry: AttemptOptions
}

export interface IncomingRequest extends Caller, UnreadRequest {
  /** Who asks, where that needs no proof; the token does not count then. */
  owner: Key | null
  /** Puts it back, before the last bytes leave: after them Bun takes no more settings for the connection. */
  restoreIdleLimit(): void
}

/** Answers a request of this format. Throws a GatewayError that carries the request's id. */
export async function handle(deps: HandleDeps, format: Format, incoming: IncomingRequest): Promise<Response> {
  const createdMs = deps.now()
  const id = mintId(createdMs)
  const requestId = toRequestId(id)
  const { snapshot } = deps.live
  // Released here where nothing is delivered, else by the delivery.
  const held = new DisposableStack()
  let key: Key | null = null
  let task: Task | null = null
  let entered: EnteredRequest | null = null
  let rates: Reservation['headers'] = {}
  let isDispatched = false
  try {
    // 1. Who asks, is there room for one more, and may they ask now?
    key = incoming.owner ?? orThrow(authenticate(snapshot, incoming, createdMs))
    const hops = orThrow(addHop(incoming.headers[HOPS_HEADER], deps.instance))
    const place = held.use(orThrow(deps.load.enter(key)))
    held.defer(incoming.restoreIdleLimit)
    const team = teamOf(snapshot, key)
    const entering = deps.limiter.enter(key, team, deps.monotonicMs())
    entered = orThrow(entering instanceof Promise ? await entering : entering)
    // 2. What is asked? Read and parsed once.
    const read = orThrow(await readTask(deps, format, incoming, { key, entered, place }))
    task = read.task
    // 3. Where, and may they? From here on it is reserved for.
    const health = deps.health.forRequest(key)
    const admitted = orThrow(await admit(deps, { snapshot, key, team, entered, task, health }))
    const { reservation, body, outputCap, lanes, targets, first, slug } = admitted
    rates = reservation.headers
    held.defer(() => reservation.cancel())
    const { signal: client } = incoming.request
    const signal = place.admit(client)
    // 4. On record, durably, before any upstream sees it.
    const row = toOpenRow(deps.instance, id, createdMs, key, task, admitted)
    await deps.ledger.open(row)
    // 5. Asked, answered, settled.
    isDispatched = true
    const { ledger, counter, leftCalls, now, monotonicMs, onFinished } = deps
    const calls = new CallLog({
      ...{ ledger, row, first, reservation, counter, key, signal, leftCalls, now, monotonicMs, outputCap },
      isUncapped: task.cap === null,
    })
    const waiting = new Waiting()
    const delivery: Delivery = {
      requestId,
      format,
      // The text that it came as is as long as all the rest, and nobody needs it any more.
      task: task.native ? withoutNative(task) : task,
      identity: { id, created: Math.floor(createdMs / 1000), model: slug },
      settlement: new Settlement({ ledger, counter, calls, reservation, onFinished }),
      signal,
      client,
      headers: rates,
      waiting,
      held,
    }
    const one = createDispatch(deps, {
      id,
      calls,
      health,
      affinity: task.affinity,
      place,
      pace: deps.pace,
      isLong: read.isLong,
      shareId: key.shareId,
      waiting,
      hops,
    })
    // Most requests ask for one choice in words: they need nothing around a call.
    const isPlain = (body.n ?? 1) === 1 && !body.response_format
    const dispatch = body[EMBEDDING]
      ? inParts(one)
      : isPlain
        ? one
        : fanOut(enforce(one, deps.checker, key.shareId), read.chars)
    const opening = attempt(deps.retry, {
      ...{ health, dispatch, targets, body, native: lanes.native, take: place.take, signal },
    })
    return await (task.stream ? deliverStream(delivery, opening, deps) : deliverWhole(delivery, opening))
  } catch (cause) {
    held.dispose()
    const error = toGatewayError(cause)
    error.requestId = requestId
    if (isDispatched) Object.assign(error.headers, rates)
    else entered?.refuse(error, deps.monotonicMs())
    if (!isDispatched && cause === error) {
      const model = key && task ? visibleModel(snapshot, key, task.model)?.model.facts.id : undefined
      logRefusal(deps.log, { id, key: key?.id, model }, error)
    }
    throw error
  }
}

/** The value of a decision. Throws its refusal. */
export function orThrow<T>(decision: Decision<T>): T {
  if (decision instanceof GatewayError) throw decision
  return decision
}

function withoutNative({ native: _, ...task }: Task): Task {
  return task
}

/** The row as it stands before the first call, with what that call reserves. */
const toOpenRow = (
  instance: string,
  id: string,
  createdMs: number,
  key: Key,
  task: Task,
  { first: target, lanes, reserve, slug }: Admitted,
): OpenRow => ({
  id,
  instance,
  keyId: key.id,
  teamId: key.teamId,
  model: slug,
  endpoint: task.endpoint,
  lane: lanes.native(target) ? 'native' : 'translated',
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

/** A refusal leaves one log line, and no ledger row. */
export function logRefusal(log: Log, about: LogFields, { status, code, kind, param, logged }: GatewayError): void {
  const what = { http: status, code: code ?? kind, kind, param: fieldOf(param) }
  log.info('request_refused', 'refused', { ...about, ...what, ...logged })
}

/** The field that a path begins with: what follows may be a name of the client's own. */
const fieldOf = (param: string | null) => param?.split(/[.[]/, 1)[0] ?? null
