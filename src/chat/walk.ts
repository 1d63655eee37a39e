/**
 * One chat request, from the raw request to the response, read forward (design 4). Every deciding step is a function
 * that returns a Decision; the first refusal ends the walk. What is refused before dispatch leaves a log line and no
 * ledger row; what is dispatched is settled by the relay.
 */

import type { Counter } from '../answer/count.ts'
import { toGatewayError } from '../answer/failure.ts'
import { relay } from '../answer/relay.ts'
import { createSettlement } from '../answer/settlement.ts'
import { createTally, toReserve } from '../answer/tally.ts'
import { allow, type Decision, GatewayError, refuse } from '../error.ts'
import { type Estimate, estimate } from '../limits/estimate.ts'
import type { Log } from '../log.ts'
import { attempt } from '../routing/attempt.ts'
import { resolve } from '../routing/resolve.ts'
import type { Key, Snapshot, Target } from '../store/snapshot.ts'
import type { Ledger } from '../usage/ledger.ts'
import type { OpenRow } from '../usage/rows.ts'
import { mintId, toRequestId } from '../wire/id.ts'
import type { ChatRequest } from '../wire/request.ts'
import { authenticate } from './authenticate.ts'
import { type RequestHeaders, readJson } from './body.ts'
import type { Checker } from './checker.ts'
import { checkContext, mayOverflow } from './context.ts'
import { createDispatch, type DispatchDeps } from './dispatch.ts'
import { enforce } from './enforce.ts'
import { fanOut, isSplit, toSingle } from './fanout.ts'
import { checkFit } from './fit.ts'
import type { Flights } from './flights.ts'
import { validate } from './validate.ts'

export interface WalkDeps extends DispatchDeps {
  snapshot(): Snapshot
  ledger: Ledger
  counter: Counter
  checker: Checker
  flights: Flights
  log: Log
  /** Wall clock, ms. */
  now(): number
  /** Id of this process in the ledger. */
  instance: string
  /** After how much silence a stream says that it lives, ms; 0 = never. */
  heartbeatMs: number
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
  let end = () => {}
  let handedOver = false
  try {
    const admitted = await admit(deps, arrival, createdMs)
    if (!admitted.ok) throw refused(deps.log, id, admitted.error)
    const land = deps.flights.begin()
    end = () => {
      land()
      arrival.restore()
    }
    const { body, target, slug } = admitted.value
    const row = toOpenRow(deps.instance, id, createdMs, admitted.value)
    await open(deps, row)
    const { signal } = arrival.request
    const { ledger, counter, log } = deps
    const tally = createTally({ ledger, row, now: deps.now })
    const dispatch = fanOut(enforce(createDispatch(deps, id, tally), deps.checker))
    handedOver = true
    return await relay({
      shape: {
        identity: { id: `chatcmpl-${id}`, created: Math.floor(createdMs / 1000), model: slug },
        includeUsage: body.stream_options?.include_usage === true,
        choices: body.n ?? 1,
        logprobs: body.logprobs === true,
      },
      stream: body.stream === true,
      requestId: toRequestId(id),
      attempt: attempt([target], dispatch, body, signal),
      settlement: createSettlement({ ledger, counter, log, row, tally }),
      signal,
      heartbeatMs: deps.heartbeatMs,
      onEnd: end,
    })
  } catch (cause) {
    const error = toGatewayError(cause)
    error.requestId = toRequestId(id)
    throw error
  } finally {
    if (!handedOver) end()
  }
}

async function open({ ledger, log }: WalkDeps, row: OpenRow): Promise<void> {
  try {
    await ledger.open(row)
  } catch (error) {
    throw refused(log, row.id, error)
  }
}

interface Admitted {
  key: Key
  body: ChatRequest
  target: Target
  /** What its first call may use. */
  ask: Estimate
  slug: string
}

/** The refusals, in the order that the contract gives them. */
async function admit(
  deps: WalkDeps,
  { request, headers, token, lift }: Arrival,
  nowMs: number,
): Promise<Decision<Admitted>> {
  const snapshot = deps.snapshot()
  // 1. Who asks?
  const key = authenticate(snapshot, token, nowMs)
  if (!key.ok) return key
  // 2. What do they ask? Read and parsed once.
  const json = await readJson(request, headers)
  if (!json.ok) return json
  lift()
  const body = validate(json.value)
  if (!body.ok) return body
  // 3. Where could it be answered?
  const resolved = resolve(snapshot, key.value, body.value.model)
  if (!resolved.ok) return resolved
  const { model, targets } = resolved.value
  const [target] = targets
  const ask = estimate(isSplit(body.value, target) ? toSingle(body.value) : body.value, target.maxOutputLength)
  const misfit =
    checkFit(body.value, model.facts) ??
    (mayOverflow(ask, model.facts) ? await checkContext(deps.counter, body.value, model.facts) : null)
  if (misfit) return refuse(misfit)
  // 4. Is there room? Rates, concurrency and budgets are admitted here, as one Hold.
  if (deps.flights.draining()) return refuse(stopping())
  return allow({ key: key.value, body: body.value, target, ask, slug: model.facts.id })
}

/** 5. The row that is durable before any backend sees the request, with what its first call reserves. */
function toOpenRow(
  instance: string,
  id: string,
  createdMs: number,
  { key, body, target, ask, slug }: Admitted,
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
    ...toReserve(target, ask),
    priceId: target.priceId,
    user: body.user?.slice(0, MAX_USER_CHARS) ?? null,
  }
}

const MAX_USER_CHARS = 256

const stopping = () => new GatewayError('overloaded', 'This Tollgate is stopping and takes no new requests. Try again.')

/** A refusal leaves one log line, and no ledger row. */
function refused(log: Log, id: string, error: unknown): unknown {
  if (error instanceof GatewayError) {
    log.info('refused', { id, http: error.status, code: error.code ?? error.kind, param: fieldOf(error.param) })
  }
  return error
}

/** The field that a path begins with: what follows may be a name of the client's own. */
const fieldOf = (param: string | null) => param?.split(/[.[]/, 1)[0] ?? null
