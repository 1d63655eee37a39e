/**
 * Several choices from an upstream that writes one at a time: `n` calls, eight of them at once, merged into one answer
 * or one interleaved stream. Each call is recorded and metered by `dispatch`, so their usage sums up by itself.
 */

import { asWhole, eventsOf, type WholeAnswer } from '../delivery/events.ts'
import type { AnswerEvent, BackendAnswer, Choice } from '../domain/answer.ts'
import { clientLeft, UpstreamError } from '../domain/error.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import { isEnforced } from '../structured/plan.ts'
import { toChoices, toIndex } from '../upstreams/dialects/openai/choices.ts'
import type { Dispatch } from './attempt.ts'
import { createFunnel } from './merge-queue.ts'

const MAX_PARALLEL = 8

/** How many of them at once: no more than the upstream may be asked at a time. */
const toParallel = ({ upstream }: Target, count: number) =>
  Math.min(count, MAX_PARALLEL, upstream.limits.concurrency ?? MAX_PARALLEL)

/** Whether each choice of the request is a call of its own. A schema is enforced choice by choice. */
export function isSplit(body: CanonicalRequest, { upstream, features }: Target): boolean {
  return (body.n ?? 1) > 1 && (!upstream.options.n || isEnforced(body.response_format, features))
}

/**
 * Wraps a dispatch. The first call that fails fails them all; the others are given up, and paid for as far as they came.
 * A call for which a limit of ours leaves no place beside the others is none of those: it waits for them.
 */
export const fanOut =
  (dispatch: Dispatch): Dispatch =>
  (ask) => {
    if (!isSplit(ask.body, ask.target)) return dispatch(ask)
    const controller = new AbortController()
    const signal = AbortSignal.any([ask.signal, controller.signal])
    const { n, ...body } = ask.body
    const count = n ?? 1
    const giveUp = () => controller.abort()
    const fan: Fan = {
      call: (index) => dispatch({ ...ask, body, signal, reason: index === 0 ? ask.reason : 'fan_out' }),
      all: (task) => inParallel(count, toParallel(ask.target, count), task, giveUp),
      signal,
      giveUp,
    }
    return ask.body.stream ? inOneStream(fan) : inOneAnswer(fan)
  }

/** The calls of one request. */
interface Fan {
  call(index: number): Promise<BackendAnswer>
  /** Does it for each of them, in turn. Rejects with the first failure once those under way have ended. */
  all(task: (index: number) => Promise<void>): Promise<void>
  /** Aborts with the first failure, or where the answer is no longer wanted. */
  signal: AbortSignal
  /** Aborts it. */
  giveUp(): void
}

async function inOneAnswer({ call, all }: Fan): Promise<BackendAnswer> {
  const answers: WholeAnswer[] = []
  await all(async (index) => {
    answers[index] = asWhole(await call(index))
  })
  const choices = answers.map(({ completion }, index) => ({ ...toChoices(completion.choices)[0], index }) as Choice)
  const [first] = answers
  return {
    kind: 'whole',
    completion: { ...first?.completion, choices },
    ...(answers.some(({ schema }) => schema === 'unmet') ? { schema: 'unmet' } : {}),
    ...(first?.upstreamRequestId === undefined ? {} : { upstreamRequestId: first.upstreamRequestId }),
  }
}

async function inOneStream({ call, all, signal, giveUp }: Fan): Promise<BackendAnswer> {
  const funnel = createFunnel<AnswerEvent[]>(giveUp)
  // One is enough to begin with: an upstream may answer them one after the other.
  const begun = Promise.withResolvers<BackendAnswer>()
  const drain = async (index: number) => {
    const answer = await call(index)
    if (!signal.aborted) begun.resolve(answer)
    for await (const events of eventsOf(answer)) {
      const [kept, failure] = toShare(events, index)
      // Once it is aborted perhaps nobody reads: another one may have failed before any had begun.
      if (signal.aborted || (kept.length > 0 && !(await funnel.put(kept)))) break
      if (failure) throw failure
    }
    if (signal.aborted) throw clientLeft()
  }
  all(drain).then(
    () => funnel.end([{ done: true }]),
    (error) => {
      begun.reject(error)
      funnel.fail(error)
    },
  )
  const first = await begun.promise
  return {
    kind: 'stream',
    events: funnel,
    ...(first.upstreamRequestId === undefined ? {} : { upstreamRequestId: first.upstreamRequestId }),
  }
}

/** What one call's events are in the merged stream: its choice under its own index; the end is told once, by all. */
function toShare(events: readonly AnswerEvent[], index: number): [AnswerEvent[], UpstreamError | null] {
  const kept: AnswerEvent[] = []
  for (const event of events) {
    if ('failure' in event) return [kept, event.failure]
    if (!('chunk' in event)) continue
    const choices = event.chunk.choices.filter((choice, place) => toIndex(choice?.index, place) === 0)
    if (choices.length > 0)
      kept.push({ chunk: { ...event.chunk, choices: choices.map((choice) => ({ ...choice, index })) } })
  }
  return [kept, null]
}

/**
 * Runs `count` tasks, `parallel` of them at once, lowest first. Rejects with the first failure once those under way have
 * ended. One that finds no place beside the others is put back for them, and fails only where it is alone.
 */
async function inParallel(
  count: number,
  parallel: number,
  task: (index: number) => Promise<void>,
  onFailure: () => void,
): Promise<void> {
  const left = Array.from({ length: count }, (_, index) => index)
  const failures: unknown[] = []
  let underWay = 0
  let ended = 0
  const worker = async () => {
    for (let index = left.shift(); index !== undefined && failures.length === 0; index = left.shift()) {
      const endedBefore = ended
      underWay++
      try {
        await task(index)
        ended++
      } catch (error) {
        const isAlone = underWay === 1 && ended === endedBefore
        if (isAlone || !isOwnLimit(error)) {
          failures.push(error)
          onFailure()
          return
        }
        left.push(index)
        left.sort((a, b) => a - b)
        if (underWay > 1) return
      } finally {
        underWay--
      }
    }
  }
  await Promise.all(Array.from({ length: parallel }, worker))
  if (failures.length > 0) throw failures[0]
}

const isOwnLimit = (error: unknown) => error instanceof UpstreamError && error.isOwnLimit
