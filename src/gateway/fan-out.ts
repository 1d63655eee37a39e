/**
 * Multiple choices from an upstream that returns one at a time: parallel calls, merged into one response or stream.
 * `dispatch` records and meters each.
 */
import type { PlannedCall } from '../accounting/call.ts'
import { type EndSignal, partOf } from '../domain/end-signal.ts'
import { EndpointRequest } from '../domain/endpoint-request.ts'
import { endOf, UpstreamError } from '../domain/error.ts'
import type { Answer, AnswerEvent, AnswerStream, Take } from '../domain/events.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Dispatch } from './calls.ts'
import { MAX_BODY_BYTES } from './read.ts'
import { isEnforced } from './structured-plan.ts'

const MAX_PARALLEL = 8
/** Each call has its own copy of the body; together they hold no more than the largest request. */
const MAX_PARALLEL_CHARS = MAX_BODY_BYTES

const toParallel = ({ upstream }: Target, count: number, chars: number) =>
  Math.min(
    count,
    MAX_PARALLEL,
    upstream.limits.concurrency ?? MAX_PARALLEL,
    Math.max(1, Math.floor(MAX_PARALLEL_CHARS / chars)),
  )

/** A schema is enforced per choice. */
export function isSplit(body: AnyRequest, target: Target): boolean {
  return (body.n ?? 1) > 1 && (!target.upstream.options.n || isEnforced(body, target))
}

/**
 * The first failed call fails all; the others are aborted, and charged as far as they came. A call rejected by a limit
 * of ours waits for the others.
 * @param chars length of the request's body.
 */
export const fanOut =
  (dispatch: Dispatch, chars: number): Dispatch =>
  (planned) => {
    const { body: asked } = planned
    if (asked instanceof EndpointRequest || !isSplit(asked, planned.target)) return dispatch(planned)
    const { n, ...body } = asked
    const bodies = Array.from({ length: n ?? 1 }, () => body)
    const fan = toFan(dispatch, planned, bodies, chars)
    return asked.stream ? inOneStream(fan) : inOneAnswer(fan)
  }

export interface Fan {
  call(index: number): Promise<Answer>
  /** Runs the task for each call. Rejects with the first failure once running calls have ended. */
  all(task: (index: number) => Promise<void>): Promise<void>
  answers(): Promise<Answer[]>
  signal: EndSignal
  abort(): void
}

export function toFan(dispatch: Dispatch, planned: PlannedCall, bodies: readonly AnyRequest[], chars: number): Fan {
  const { signal, end } = partOf(planned.signal)
  const abort = () => end('superseded')
  const call = (index: number) => {
    const body = bodies[index] ?? planned.body
    return dispatch({ ...planned, body, signal, reason: index === 0 ? planned.reason : 'fan_out' })
  }
  const all = (task: (index: number) => Promise<void>) =>
    inParallel(bodies.length, toParallel(planned.target, bodies.length, chars), task, abort)
  const answers = async () => {
    const made: Answer[] = []
    await all(async (index) => {
      made[index] = await call(index)
    })
    return made
  }
  return { call, all, answers, signal, abort }
}

async function inOneAnswer(fan: Fan): Promise<Answer> {
  const answers = await fan.answers()
  const events = answers.flatMap((answer, index) => toShare(answer.events, index))
  return {
    events: [...events, { kind: 'done' }],
    rest: null,
    upstreamRequestId: answers[0]?.upstreamRequestId ?? null,
  }
}

async function inOneStream({ call, all, signal, abort }: Fan): Promise<Answer> {
  const queue = new MergeQueue(abort)
  // One is enough to begin: an upstream may respond to them one after another.
  const begun = Promise.withResolvers<Answer>()
  const drain = async (index: number) => {
    const answer = await call(index)
    if (!signal.aborted) begun.resolve(answer)
    let failure: UpstreamError | null = null
    const pass = (events: readonly AnswerEvent[]): boolean | Promise<boolean> => {
      const last = events.at(-1)
      if (last?.kind === 'failure') failure = last.error
      const share = toShare(events, index)
      // After an abort, there may be no reader.
      if (signal.aborted || share.length === 0) return !signal.aborted
      return queue.put(share)
    }
    try {
      if (await pass(answer.events)) await answer.rest?.pump(pass)
    } finally {
      // It may have ended early, even by an internal error.
      answer.rest?.close()
    }
    if (failure) throw failure
    if (signal.aborted) throw endOf(signal)
  }
  all(drain).then(
    () => queue.end(),
    (error) => {
      begun.reject(error)
      queue.fail(error)
    },
  )
  const { upstreamRequestId } = await begun.promise
  return { events: [], rest: queue, upstreamRequestId }
}

function toShare(events: readonly AnswerEvent[], index: number): AnswerEvent[] {
  return events.flatMap((event) => {
    if ('choice' in event) return event.choice === 0 ? { ...event, choice: index } : []
    return event.kind === 'origin' ? event : []
  })
}

/**
 * Lowest first. Rejects with the first failure once running tasks have ended. A task rejected by a limit of ours is
 * retried after the others, and fails only if no other was running.
 */
async function inParallel(
  count: number,
  parallel: number,
  task: (index: number) => Promise<void>,
  onFailure: () => void,
): Promise<void> {
  const left = Array.from({ length: count }, (_, index) => index)
  const failures: unknown[] = []
  let inFlight = 0
  let ended = 0
  const worker = async () => {
    for (let index = left.shift(); index !== undefined && failures.length === 0; index = left.shift()) {
      const endedBefore = ended
      inFlight++
      try {
        await task(index)
        ended++
      } catch (error) {
        const isAlone = inFlight === 1 && ended === endedBefore
        if (isAlone || !isOwnLimit(error)) {
          failures.push(error)
          onFailure()
          return
        }
        left.push(index)
        left.sort((a, b) => a - b)
        if (inFlight > 1) return
      } finally {
        inFlight--
      }
    }
  }
  await Promise.all(Array.from({ length: parallel }, worker))
  if (failures.length > 0) throw failures[0]
}

const isOwnLimit = (error: unknown) => error instanceof UpstreamError && error.isOwnLimit

interface PendingBatch {
  events: readonly AnswerEvent[]
  taken(yes: boolean): void
}

/** `put` resolves once its batch is read, so no producer is more than one batch ahead. */
export class MergeQueue implements AnswerStream {
  readonly #waiting: PendingBatch[] = []
  #last: readonly AnswerEvent[] | null = null
  #error: unknown = null
  #wake = () => {}
  #isOver = false

  constructor(readonly onLeave: () => void) {}

  /** Resolves true once the batch was read; false if no one reads anymore. */
  put(events: readonly AnswerEvent[]): Promise<boolean> {
    if (this.#isOver) return Promise.resolve(false)
    return new Promise((taken) => {
      this.#waiting.push({ events, taken })
      this.#wake()
    })
  }

  end(): void {
    this.#last = [{ kind: 'done' }]
    this.#wake()
  }

  /** The reader gets the error after what was put before. */
  fail(error: unknown): void {
    this.#error = error
    this.end()
  }

  async pump(take: Take): Promise<void> {
    while (!this.#isOver) {
      const batch = this.#next()
      if (batch === null) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
        continue
      }
      const went = take(batch)
      if (went !== true && (went === false || !(await went))) return
    }
  }

  close(): void {
    if (!this.#isOver) this.onLeave()
    this.#isOver = true
    for (const { taken } of this.#waiting.splice(0)) taken(false)
    this.#wake()
  }

  #next(): readonly AnswerEvent[] | null {
    const first = this.#waiting.shift()
    if (first) {
      first.taken(true)
      return first.events
    }
    if (this.#last === null) return null
    this.#isOver = true
    if (this.#error !== null) throw this.#error
    return this.#last
  }
}
