/**
 * The calls of a request: what wraps each of them, declared here, and its targets, tried until an answer begins: the next one at once after
 * a failure that another may not have, and when none is left those that may recover once more, after a pause. Once an answer has begun,
 * nothing is tried again. Asks the breakers before each call; `dispatch` tells them how it ended.
 */
import type { PlannedCall } from '../accounting/call.ts'
import type { EndSignal } from '../domain/end-signal.ts'
import { endOf, GatewayError, LOOP_STATUS, toRetryAfter, UpstreamError } from '../domain/error.ts'
import { type Answer, type AnswerEvent, type AnswerStream, isContent } from '../domain/events.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import type { PassthroughRequest } from '../domain/task.ts'
import { EmbeddingsRequest } from '../domain/task.ts'
import type { RequestHealth } from '../health/health.ts'
import type { CallReason } from '../store/ledger-rows.ts'
import { OVERFLOW_CODE } from '../upstreams/dialects/errors.ts'
import { blamesTheRequest, toCredentialFailure } from '../upstreams/failure.ts'
import type { TakeRoom } from '../upstreams/transport.ts'
import type { Begun } from './delivery.ts'
import { createDispatch, type DispatchDeps } from './dispatch.ts'
import { inBatches } from './embedding-batches.ts'
import type { Recorded } from './exchange.ts'
import { fanOut } from './fan-out.ts'
import type { Checker } from './structured-checker.ts'
import { enforce } from './structured-output.ts'

/** Makes one call to one target, or as many as it takes. */
export type Dispatch = (planned: PlannedCall) => Promise<Answer>

/** What stands around each call of a request, and has the type of one. */
interface Wrapper {
  /** Whether it has anything to do: most requests have nothing around a call. */
  isFor(request: Recorded): boolean
  wrap(dispatch: Dispatch, request: Recorded, deps: CallDeps): Dispatch
}

/** From the innermost to the outermost. Around all of them, `attempt` tries one target after the other. */
const WRAPPERS: readonly Wrapper[] = [
  { isFor: ({ targets }) => targets.some(({ upstream }) => upstream.each !== null), wrap: withCredentials },
  {
    isFor: ({ body }) => Boolean(body.response_format),
    wrap: (dispatch, { key }, { checker }) => enforce(dispatch, checker, key.quotaId),
  },
  { isFor: ({ body }) => (body.n ?? 1) > 1, wrap: (dispatch, { chars }) => fanOut(dispatch, chars) },
  { isFor: ({ body }) => body instanceof EmbeddingsRequest, wrap: inBatches },
  // A hook that may refuse or mask an answer, and an answer from a cache: a line here.
]

/** With the credential of the conversation, and with the next one only where that is refused or its quota used up. */
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

/** Has a request answered. See `attempt`. */
export function call(deps: CallDeps, request: Recorded): Promise<Begun> {
  const { health, targets, body, passthrough, slot, signal } = request
  let dispatch = createDispatch(deps, request)
  for (const { isFor, wrap } of WRAPPERS) if (isFor(request)) dispatch = wrap(dispatch, request, deps)
  return attempt(deps.retry, { health, dispatch, targets, body, passthrough: passthrough.of, take: slot.take, signal })
}

export interface AttemptOptions {
  /** How often the list is tried again. */
  retries: number
  /** The pause before it is tried again for the first time, ms; each next one is twice as long. */
  backoffMs: number
}

export interface Attempted {
  health: Pick<RequestHealth, 'enter' | 'report' | 'whyUnavailable'>
  dispatch: Dispatch
  targets: readonly Target[]
  body: AnyRequest
  /** What a target is sent as it came; null where that is written anew. */
  passthrough(target: Target): PassthroughRequest | null
  /** Takes memory for what is kept of an answer that has not begun. */
  take: TakeRoom
  signal: EndSignal
}

/** Longer than this a request does not wait for an upstream, whatever that asks for: its client can do it better. */
const MAX_PAUSE_MS = 10_000

/**
 * Resolves to the first answer that begins. Throws the UpstreamError that tells most of why no target answered, with the
 * name of its upstream; or whatever else ends the request.
 */
export async function attempt(
  { retries, backoffMs }: AttemptOptions,
  { health, dispatch, targets, body, passthrough, take, signal }: Attempted,
): Promise<Begun> {
  const failures: UpstreamError[] = []
  let left = targets
  // What a target has found too long, a smaller one cannot hold, though it may cut it short without a word and answer.
  let tooSmall = 0
  for (let round = 0; ; round++) {
    const recovering: Target[] = []
    let pauseMs = backoffMs * 2 ** round * (0.75 + Math.random() / 4)
    for (const target of left) {
      if (signal.aborted) throw endOf(signal)
      if (target.contextLength < tooSmall) continue
      if (!health.enter(target)) {
        // It may be down for a moment only, and found again during the next pause.
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
        if (!(error instanceof UpstreamError) || isFinal(error)) {
          // Perhaps no call was made at all, and nobody else would give back a breaker's half-open probe.
          health.report(target, 'aborted')
          throw error
        }
        error.upstream ??= target.upstream.id
        failures.push(error)
        if (error.code === OVERFLOW_CODE) tooSmall = Math.max(tooSmall, target.contextLength)
        // What was worked for, and for nothing, is tried once more at most, wherever.
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
 * Reads an answer until it has begun, or has ended. What it fails with before that is thrown: another target may do better.
 * What it keeps until then takes the request's memory, and nothing is kept once nobody waits for the answer.
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

/** Of one that is kept, beside its text. */
const EVENT_BYTES = 256

/** Adds an event, but for what says nothing new, such as another ping. Returns how many bytes it takes. */
function keep(kept: AnswerEvent[], event: AnswerEvent): number {
  switch (event.kind) {
    case 'working':
      return 0
    case 'usage':
    case 'mode':
    case 'charged': {
      // The last one counts.
      const before = kept.findLastIndex(({ kind }) => kind === event.kind)
      if (before !== -1) kept.splice(before, 1)
      kept.push(event)
      return before === -1 ? EVENT_BYTES : 0
    }
    case 'raw': {
      const last = kept.findLast(({ kind }) => kind === 'raw')
      if (last?.kind === 'raw' && last.data === event.data && last.name === event.name) return 0
      kept.push(event)
      return EVENT_BYTES + event.data.length
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

/** What an upstream says about the request, but for what it lacks itself, and another one may have. */
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

const isAboutTheRequest = ({ kind, status }: UpstreamError) => kind === 'status' && blamesTheRequest(status)

const isAboutTheTarget = (error: UpstreamError) =>
  isAboutTheRequest(error) && (error.status === 413 || ABOUT_THE_TARGET.has(error.code ?? ''))

/** A passed deadline has used up the client's patience; other 4xx would come again, and so would a loop. */
const mayRecover = ({ kind, status, retryable, retryAfterMs }: UpstreamError) =>
  retryable && kind !== 'deadline' && status !== LOOP_STATUS && (retryAfterMs ?? 0) <= MAX_PAUSE_MS

/**
 * The last failure that may pass, else the last one; but that one provider limits its rate, or that one target lacks
 * something, does not tell why the others failed.
 */
const mostInformative = (failures: readonly UpstreamError[]) =>
  failures.findLast((failure) => failure.status !== 429 && failure.retryable) ??
  failures.findLast((failure) => failure.status !== 429 && !isAboutTheTarget(failure)) ??
  failures.findLast(({ status }) => status === 429) ??
  failures.at(-1)

/** The refusal of a request none of whose targets may be called now. */
export function noneReady(health: Pick<RequestHealth, 'whyUnavailable'>, targets: readonly Target[]): GatewayError {
  const whys = targets.flatMap((target) => health.whyUnavailable(target) ?? [])
  const reasons = [...new Set(whys.map(({ reason }) => reason))].join('; ')
  const soonestMs = whys.length === 0 ? 1_000 : Math.min(...whys.map(({ retryAfterMs }) => retryAfterMs))
  return new GatewayError(
    'model_not_ready',
    `The model \`${targets[0]?.model}\` is not ready: ${reasons || 'it was a moment ago, and may be again'}.`,
    { headers: { 'retry-after': toRetryAfter(soonestMs) } },
  )
}

/** Waits, and throws as soon as the client leaves. */
async function pause(ms: number, signal: EndSignal): Promise<void> {
  // A signal that has aborted already tells nobody any more.
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
