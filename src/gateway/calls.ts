/**
 * Tries a request's targets until a response begins: the next one at once after a failure that another may not have;
 * later, after a pause, those that may recover.
 */
import type { PlannedCall } from '../accounting/call.ts'
import type { EndSignal } from '../domain/end-signal.ts'
import { EndpointRequest } from '../domain/endpoint-request.ts'
import { endOf, GatewayError, LOOP_STATUS, toRetryAfter, UpstreamError } from '../domain/error.ts'
import { type Answer, type AnswerEvent, type AnswerStream, isContent } from '../domain/events.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import type { PassthroughRequest } from '../domain/task.ts'
import type { RequestHealth } from '../health/health.ts'
import type { CallReason } from '../store/ledger-rows.ts'
import { OVERFLOW_CODE } from '../upstreams/dialects/errors.ts'
import { blamesTheRequest, toCredentialFailure } from '../upstreams/failure.ts'
import { isRefused } from '../upstreams/shortage.ts'
import type { TakeRoom } from '../upstreams/transport.ts'
import type { Begun } from './delivery.ts'
import { createDispatch, type DispatchDeps } from './dispatch.ts'
import type { Recorded } from './exchange.ts'
import { fanOut } from './fan-out.ts'
import { inBatches } from './input-batches.ts'
import type { Checker } from './structured-checker.ts'
import { enforce } from './structured-output.ts'

/** Makes one call to a target, or several if needed. */
export type Dispatch = (planned: PlannedCall) => Promise<Answer>

interface Wrapper {
  isFor(request: Recorded): boolean
  wrap(dispatch: Dispatch, request: Recorded, deps: CallDeps): Dispatch
}

/** From the innermost to the outermost, within `attempt`. */
const WRAPPERS: readonly Wrapper[] = [
  { isFor: ({ targets }) => targets.some(({ upstream }) => upstream.each !== null), wrap: withCredentials },
  {
    isFor: ({ body }) => Boolean(body.response_format),
    wrap: (dispatch, { key }, { checker }) => enforce(dispatch, checker, key.quotaId),
  },
  { isFor: ({ body }) => (body.n ?? 1) > 1, wrap: (dispatch, { chars }) => fanOut(dispatch, chars) },
  { isFor: ({ body }) => body instanceof EndpointRequest, wrap: inBatches },
  // A hook that may reject or mask a response, or a response cache: a line here.
]

/** Uses the next credential only if the conversation's is rejected or its quota is used up. */
function withCredentials(dispatch: Dispatch, { health, task }: Recorded): Dispatch {
  return async (planned) => {
    const { each } = planned.target.upstream
    if (each === null) return dispatch(planned)
    const tried = new Set<number>()
    const choose = () => health.withCredential(planned.target, each, task.affinity(), tried)
    for (let used = choose(); ; ) {
      try {
        return await dispatch({ ...planned, used, reason: tried.size === 0 ? planned.reason : 'fallback' })
      } catch (error) {
        if (!(error instanceof UpstreamError) || toCredentialFailure(error) === null || planned.signal.aborted)
          throw error
        if (used) tried.add(used.credentialNumber)
        used = choose()
        if (used === null) throw error
      }
    }
  }
}

export interface CallDeps extends DispatchDeps {
  checker: Checker
  retry: AttemptOptions
}

export function call(deps: CallDeps, request: Recorded): Promise<Begun> {
  const { health, targets, body, passthrough, slot, signal } = request
  let dispatch = createDispatch(deps, request)
  for (const { isFor, wrap } of WRAPPERS) if (isFor(request)) dispatch = wrap(dispatch, request, deps)
  return attempt(deps.retry, { health, dispatch, targets, body, passthrough: passthrough.of, take: slot.take, signal })
}

export interface AttemptOptions {
  retries: number
  /** Pause before the first retry round, ms; doubles each round. */
  backoffMs: number
}

export interface Attempted {
  health: Pick<RequestHealth, 'enter' | 'report' | 'whyUnavailable'>
  dispatch: Dispatch
  targets: readonly Target[]
  body: AnyRequest
  /** What a target is sent unchanged; null if translated. */
  passthrough(target: Target): PassthroughRequest | null
  take: TakeRoom
  signal: EndSignal
}

/** A request waits no longer than this, whatever pause the upstream asks for; its client can wait better. */
const MAX_PAUSE_MS = 10_000

/** Throws the most informative UpstreamError, or whatever else ends the request. */
export async function attempt(
  { retries, backoffMs }: AttemptOptions,
  { health, dispatch, targets, body, passthrough, take, signal }: Attempted,
): Promise<Begun> {
  const failures: UpstreamError[] = []
  let left = targets
  // A prompt too long for one target can't fit a smaller one, which might truncate it silently.
  let tooSmall = 0
  for (let round = 0; ; round++) {
    const recovering: Target[] = []
    let pauseMs = backoffMs * 2 ** round * (0.75 + Math.random() / 4)
    for (const target of left) {
      if (signal.aborted) throw endOf(signal)
      if (target.contextLength < tooSmall) continue
      if (!health.enter(target)) {
        // It may be unavailable only briefly, and back after the next pause.
        if (round > 0) recovering.push(target)
        continue
      }
      const reason = toReason(failures.at(-1), round)
      try {
        const answer = await dispatch({ target, body, passthrough: passthrough(target), reason, signal })
        const events =
          answer.rest && !answer.events.some(isContent)
            ? await readOn(answer, answer.rest, take, signal)
            : answer.events
        const last = events.at(-1)
        if (last?.kind === 'failure' && !events.some(isContent)) throw last.error
        health.report(target, 'begun')
        return { target, answer, events }
      } catch (error) {
        if (!(error instanceof UpstreamError) || isFinal(error) || mayBeCharged(body, error)) {
          // If no call was made, this releases the breaker's half-open probe.
          health.report(target, 'aborted')
          throw error
        }
        error.upstream ??= target.upstream.id
        failures.push(error)
        if (error.code === OVERFLOW_CODE) tooSmall = Math.max(tooSmall, target.contextLength)
        // A failure that may have cost upstream work is retried at most once.
        if (failures.filter(({ isSpoiled }) => isSpoiled).length > 1) throw error
        if (!mayRecover(error)) continue
        recovering.push(target)
        pauseMs = Math.max(pauseMs, error.retryAfterMs ?? 0)
      }
    }
    if (signal.aborted) throw endOf(signal)
    if (recovering.length === 0 || round >= retries) throw mostInformative(failures) ?? noneReady(health, targets)
    await pause(pauseMs, signal)
    left = recovering
  }
}

/**
 * Throws a failure before the response begins, so that another target can be tried. Buffered events count towards the
 * request's memory.
 */
async function readOn(
  { events }: Answer,
  rest: AnswerStream,
  take: TakeRoom,
  signal: EndSignal,
): Promise<readonly AnswerEvent[]> {
  let kept = [...events]
  try {
    await rest.pump((batch) => {
      if (signal.aborted) kept = []
      let bytes = 0
      for (const event of batch) bytes += keep(kept, event)
      const refusal = bytes > 0 ? take(bytes) : null
      if (refusal) throw refusal
      return !batch.some(isContent)
    })
  } catch (error) {
    rest.close()
    throw error
  }
  return kept
}

const EVENT_BYTES = 256

/** Drops events that add nothing, such as repeated pings. Returns the bytes taken. */
function keep(kept: AnswerEvent[], event: AnswerEvent): number {
  switch (event.kind) {
    case 'working':
      return 0
    case 'usage':
    case 'mode':
    case 'charged': {
      const before = kept.findLastIndex(({ kind }) => kind === event.kind)
      if (before !== -1) kept.splice(before, 1)
      kept.push(event)
      return before === -1 ? EVENT_BYTES : 0
    }
    case 'raw': {
      const last = kept.findLast(({ kind }) => kind === 'raw')
      if (last?.kind === 'raw' && last.data === event.data && last.name === event.name && !event.picture) return 0
      kept.push(event)
      return EVENT_BYTES + event.data.length + (event.picture?.base64.length ?? 0)
    }
    default:
      kept.push(event)
      return EVENT_BYTES
  }
}

function toReason(last: UpstreamError | undefined, round: number): CallReason {
  if (last === undefined) return 'first'
  if (last.isOwnLimit) return 'limit'
  return round > 0 ? 'retry' : 'fallback'
}

/** Errors about the request that another target may not have. */
const ABOUT_THE_TARGET = new Set([
  OVERFLOW_CODE,
  'unsupported_parameter',
  'unsupported_value',
  'unknown_parameter',
  'invalid_parameter_combination',
])

function isFinal(error: UpstreamError): boolean {
  return error.kind === 'aborted' || error.isTooLong || (isAboutTheRequest(error) && !isAboutTheTarget(error))
}

/** True if an upstream that charges per attempt may have begun; see `EndpointRequest.isCharged`. */
const mayBeCharged = (body: AnyRequest, error: UpstreamError): boolean =>
  body instanceof EndpointRequest && body.isCharged && !error.isOwnLimit && !isUnbegun(error)

/** A proxy's timeout, behind which the upstream may still be working: Gateway Timeout, and Cloudflare's. */
const OF_A_PROXY: ReadonlySet<number> = new Set([504, 524])

/** Connection refused, request never sent, or error status received. */
const isUnbegun = ({ kind, deadline, cause, status }: UpstreamError): boolean =>
  (kind === 'connection' && isRefused(cause)) ||
  (kind === 'deadline' && deadline === 'token') ||
  (status !== null && !OF_A_PROXY.has(status))

const isAboutTheRequest = ({ kind, status }: UpstreamError) => kind === 'status' && blamesTheRequest(status)

const isAboutTheTarget = (error: UpstreamError) =>
  isAboutTheRequest(error) && (error.status === 413 || ABOUT_THE_TARGET.has(error.code ?? ''))

/** A passed deadline has used up the client's patience; other 4xx and loops would repeat. */
const mayRecover = ({ kind, status, retryable, retryAfterMs }: UpstreamError) =>
  retryable && kind !== 'deadline' && status !== LOOP_STATUS && (retryAfterMs ?? 0) <= MAX_PAUSE_MS

/**
 * Prefers retryable failures. One provider's rate limit, or one target's missing capability, doesn't explain why the
 * others failed.
 */
const mostInformative = (failures: readonly UpstreamError[]) =>
  failures.findLast((failure) => failure.status !== 429 && failure.retryable) ??
  failures.findLast((failure) => failure.status !== 429 && !isAboutTheTarget(failure)) ??
  failures.findLast(({ status }) => status === 429) ??
  failures.at(-1)

export function noneReady(health: Pick<RequestHealth, 'whyUnavailable'>, targets: readonly Target[]): GatewayError {
  const whys = targets.flatMap((target) => health.whyUnavailable(target) ?? [])
  const reasons = [...new Set(whys.map(({ reason }) => reason))].join('; ')
  const soonestMs = whys.length === 0 ? 1_000 : Math.min(...whys.map(({ retryAfterMs }) => retryAfterMs))
  return new GatewayError(
    'model_not_ready',
    `The model \`${targets[0]?.model}\` is not ready: ${reasons || 'temporarily unavailable'}.`,
    { headers: { 'retry-after': toRetryAfter(soonestMs) } },
  )
}

/** Throws as soon as the client disconnects. */
async function pause(ms: number, signal: EndSignal): Promise<void> {
  // An aborted signal fires no event.
  if (signal.aborted) throw endOf(signal)
  const over = Promise.withResolvers<void>()
  const timer = setTimeout(over.resolve, ms)
  const leave = () => over.resolve()
  signal.addEventListener('abort', leave, { once: true })
  await over.promise
  clearTimeout(timer)
  signal.removeEventListener('abort', leave)
  if (signal.aborted) throw endOf(signal)
}
