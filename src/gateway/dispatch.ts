/**
 * The only caller of a backend: each call is limited, recorded before it is sent, metered, and reported to the target's
 * breaker.
 */

import type { Call, PlannedCall } from '../accounting/call.ts'
import { tokensOf } from '../accounting/cost.ts'
import type { Meter } from '../accounting/meter.ts'
import type { DialectName } from '../domain/dialects.ts'
import { type EndSignal, mayReadOn, partOf } from '../domain/end-signal.ts'
import { EndpointRequest } from '../domain/endpoint-request.ts'
import { endedBy, endOf, GatewayError, UpstreamError } from '../domain/error.ts'
import type { Answer, AnswerStream, PassthroughSink, Take } from '../domain/events.ts'
import type { Upstream } from '../domain/snapshot.ts'
import { mintSpanId, toTraceHeaders } from '../domain/trace.ts'
import type { CallNews } from '../health/health.ts'
import type { Permit, RequestLimiter } from '../limits/limiter.ts'
import type { Pace } from '../threads/pace.ts'
import type { Backend, BackendCall } from '../upstreams/backend.ts'
import type { AdaptiveConcurrency, ConcurrencySlot } from './adaptive-concurrency.ts'
import type { Dispatch } from './calls.ts'
import type { Recorded } from './exchange.ts'

export interface DispatchDeps {
  backends: Readonly<Record<DialectName, Pick<Backend, 'call'>>>
  limiter: Pick<RequestLimiter, 'permit'>
  concurrency: Pick<AdaptiveConcurrency, 'enter'>
  /** Queue per key for slow parsing and translation. */
  pace: Pick<Pace, 'run'>
  monotonicMs(): number
}

export type CallsOf = Pick<Recorded, 'id' | 'calls' | 'isLong' | 'hops' | 'trace'> & {
  key: Pick<Recorded['key'], 'quotaId'>
  health: Pick<Recorded['health'], 'report'>
  slot: Pick<Recorded['slot'], 'take'>
  waiting: Pick<Recorded['waiting'], 'set'>
}

export const createDispatch =
  (deps: DispatchDeps, of: CallsOf): Dispatch =>
  (asked) =>
    makeCall(deps, of, asked)

async function makeCall(
  deps: DispatchDeps,
  { id, calls, health, slot, isLong, key: { quotaId }, waiting, hops, trace }: CallsOf,
  asked: PlannedCall,
): Promise<Answer> {
  const { pace } = deps
  const planned = toCapped(asked)
  const { passthrough, target, signal, used = null } = planned
  const { upstream } = target
  let permit: Permit | null = null
  let call: Call | null = null
  let room: ConcurrencySlot | null = null
  try {
    let reserve = calls.reserveOf(planned)
    // Hosted providers enforce their own concurrency.
    if (upstream.local) {
      const asking = { owner: quotaId, tokens: tokensOf(reserve, planned) }
      const entering = deps.concurrency.enter(upstream, asking, signal)
      room = entering instanceof Promise ? await entering : entering
      // Other calls of the request may have begun in between.
      if (entering instanceof Promise) reserve = calls.reserveOf(planned)
    }
    const permitting = permitFor(deps, upstream, tokensOf(reserve, planned))
    permit = permitting instanceof Promise ? await permitting : permitting
    if (permitting instanceof Promise) reserve = calls.reserveOf(planned)
    const beginning = calls.begin(planned, reserve)
    const begun = beginning instanceof Promise ? await beginning : beginning
    call = begun
    const { number, meter, body, hold } = begun
    if (trace) begun.spanId = mintSpanId()
    if (upstream.credentials.length > 1) meter.credential = (used ?? upstream).credentialNumber
    meter.onEnd = (meter) => {
      permit?.leave(toTokens(meter))
      room?.leave(toConcurrencyNews(meter))
      health.report(target, toNews(meter), used)
      begun.over()
    }
    // Ends the call if the budget runs out while it sends nothing.
    const ending = hold?.isTimed ? partOf(signal) : null
    if (ending) hold?.begin(ending)
    const asking: BackendCall = {
      body,
      passthrough,
      target: used === null ? target : { ...target, upstream: used },
      signal: ending?.signal ?? signal,
      deadlines: upstream.deadlines,
      observer: begun,
      callId: `${id}-${number}`,
      hops,
      traceHeaders: trace && begun.spanId ? toTraceHeaders(trace, begun.spanId) : null,
      take: slot.take,
      inTurn: (work, elsewhereMs) => pace.run(quotaId, work, elsewhereMs),
      queue: { owner: quotaId, onWaiting: waiting.set },
    }
    const backend = deps.backends[upstream.dialect]
    const answer = await (isLong ? pace.run(quotaId, () => inTurn(backend, asking, meter)) : backend.call(asking))
    meter.upstreamRequestId = answer.upstreamRequestId
    meter.take(answer.events)
    return answer.rest ? { ...answer, rest: new MeteredStream(answer.rest, begun, signal) } : answer
  } catch (error) {
    if (call === null) {
      // It was never sent.
      permit?.leave(0)
      room?.leave('other')
      health.report(target, 'aborted')
    } else {
      // If we have no memory for the response, it was still generated and will be charged.
      call.meter.fail(error instanceof GatewayError ? leftUnread() : error)
    }
    throw call?.hold?.refusal ?? error
  }
}

/** Its turn may come late: don't send it if the client has disconnected. */
function inTurn(backend: Pick<Backend, 'call'>, asking: BackendCall, meter: Meter): Promise<Answer> {
  if (!asking.signal.aborted) return backend.call(asking)
  const error = endOf(asking.signal)
  meter.end('failed', error)
  throw error
}

/** Also meters what arrives after the client has disconnected or the server stops. */
class MeteredStream implements AnswerStream, PassthroughSink {
  readonly #meter: Meter
  #sink = NOWHERE
  #isClosed = false

  constructor(
    readonly inner: AnswerStream,
    readonly call: Call,
    readonly signal: EndSignal,
  ) {
    this.#meter = call.meter
  }

  pump(take: Take, sink?: PassthroughSink): Promise<void> {
    const metered: Take = (events) => {
      this.#meter.take(events)
      if (this.#meter.written < this.#meter.lookAt) return take(events)
      if (this.call.hold?.refusal) throw this.call.hold.refusal
      return this.#grow(take(events))
    }
    this.#sink = sink ?? NOWHERE
    return this.inner.pump(metered, sink && this)
  }

  pass(frames: string, text: string): boolean | Promise<boolean> {
    this.#meter.takeText(text)
    const went = this.#sink.pass(frames, text)
    return this.#meter.written < this.#meter.lookAt ? went : this.#grow(went)
  }

  /** Waits until the budget covers what it writes next. Throws if it can't. */
  #grow(went: boolean | Promise<boolean>): boolean | Promise<boolean> {
    const decided = this.call.hold?.look() ?? null
    if (decided === null) return went
    return this.#whenDecided(went, decided)
  }

  async #whenDecided(went: boolean | Promise<boolean>, decided: GatewayError | Promise<GatewayError | null>) {
    const goesOn = await went
    const error = await decided
    if (error) throw error
    return goesOn
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    const isEnded = this.#meter.outcome !== null || this.call.hold?.refusal
    if (!isEnded && this.call.readOnMs > 0 && mayReadOn(this.signal)) void this.#readOn()
    else this.#end()
  }

  async #readOn(): Promise<void> {
    try {
      await this.inner.pump((events) => {
        this.#meter.take(events)
        return this.#meter.written < this.#meter.lookAt || this.#grow(true)
      })
    } catch (error) {
      // A budget that runs out ends it as the client did.
      this.#meter.end('cut', error instanceof GatewayError ? null : error)
    }
    this.#end()
  }

  #end(): void {
    this.#meter.end('cut')
    this.inner.close()
  }
}

const NOWHERE: PassthroughSink = {
  pass() {
    throw new Error('not a passthrough response')
  },
}

/** Our own cap may exceed a fallback target's output limit; targets that can't meet a client's cap are not tried. */
function toCapped(planned: PlannedCall): PlannedCall {
  const { body, target } = planned
  const most = target.maxOutputLength
  if (body instanceof EndpointRequest) return planned
  if ((body.max_tokens ?? 0) > most) return { ...planned, body: { ...body, max_tokens: most } }
  if ((body.max_completion_tokens ?? 0) > most) return { ...planned, body: { ...body, max_completion_tokens: most } }
  return planned
}

const leftUnread = () => endedBy('superseded', 'there was not enough memory for the response')

/** Throws the same error as a provider with these limits would. */
function permitFor(
  { limiter, monotonicMs }: DispatchDeps,
  upstream: Upstream,
  tokens: number,
): Permit | Promise<Permit> {
  const permit = limiter.permit(upstream, tokens, monotonicMs())
  return permit instanceof Promise ? permit.then(orThrow) : orThrow(permit)
}

function orThrow(permit: Permit | UpstreamError): Permit {
  if (permit instanceof UpstreamError) throw permit
  return permit
}

/** Providers don't count failed calls either; an interrupted call without usage keeps its estimate. */
const toTokens = ({ isUnpaid, usage }: Meter) => (isUnpaid ? 0 : usage ? usage.prompt + usage.completion : null)

const toConcurrencyNews = ({ outcome, error }: Meter) => {
  if (outcome === 'ok') return 'ok'
  return error instanceof UpstreamError && error.isBusy ? 'busy' : 'other'
}

function toNews({ outcome, error }: Meter): CallNews {
  if (outcome === 'ok') return 'ok'
  return error instanceof UpstreamError && !error.isTooLong && !error.isOwnLimit ? error : 'aborted'
}
