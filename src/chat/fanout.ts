/**
 * Several choices from an upstream that writes one at a time: `n` calls, eight of them at once, merged into one answer
 * or one interleaved stream. Each call is recorded and metered by `dispatch`, so their usage sums up by itself.
 */
import { toChoices, toIndex } from '../answer/choices.ts'
import { asWhole, eventsOf, type WholeAnswer } from '../answer/events.ts'
import type { UpstreamError } from '../error.ts'
import type { Ask, Dispatch } from '../routing/attempt.ts'
import type { Target } from '../store/snapshot.ts'
import type { AnswerEvent, BackendAnswer, Choice } from '../wire/chat.ts'
import type { ChatRequest } from '../wire/request.ts'
import { createFunnel } from './funnel.ts'
import { isEnforced } from './structured.ts'

const MAX_PARALLEL = 8

/** How many of them at once: no more than the upstream may be asked at a time. */
const toParallel = ({ upstream }: Target, count: number) =>
  Math.min(count, MAX_PARALLEL, upstream.limits.concurrency ?? MAX_PARALLEL)

/** Whether each choice of the request is a call of its own. A schema is enforced choice by choice. */
export function isSplit(body: ChatRequest, { upstream, features }: Target): boolean {
  return (body.n ?? 1) > 1 && (!upstream.options.n || isEnforced(body.response_format, features))
}

/** The request of one such call. */
export function toSingle({ n: _, ...single }: ChatRequest): ChatRequest {
  return single
}

/** Wraps a dispatch. The first call that fails fails them all; the others are given up, and paid for as far as they came. */
export const fanOut =
  (dispatch: Dispatch): Dispatch =>
  (ask) => {
    if (!isSplit(ask.body, ask.target)) return dispatch(ask)
    const controller = new AbortController()
    const signal = AbortSignal.any([ask.signal, controller.signal])
    const body = toSingle(ask.body)
    const call = (index: number) =>
      dispatch({ ...ask, body, signal, reason: index === 0 ? ask.reason : 'fan_out' }).catch((error) => {
        controller.abort()
        throw error
      })
    return ask.body.stream ? inOneStream(ask, call, () => controller.abort()) : inOneAnswer(ask, call)
  }

type Single = (index: number) => Promise<BackendAnswer>

async function inOneAnswer({ body, target }: Ask, call: Single): Promise<BackendAnswer> {
  const answers: WholeAnswer[] = []
  const count = body.n ?? 1
  await inParallel(count, toParallel(target, count), async (index) => {
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

async function inOneStream({ body, target }: Ask, call: Single, giveUp: () => void): Promise<BackendAnswer> {
  const count = body.n ?? 1
  const parallel = toParallel(target, count)
  const heads = Array.from({ length: parallel }, (_, index) => call(index))
  const funnel = createFunnel<AnswerEvent[]>(giveUp)
  const drain = async (index: number) => {
    try {
      for await (const events of eventsOf(await (heads[index] ?? call(index)))) {
        const [kept, failure] = toShare(events, index)
        if (kept.length > 0 && !(await funnel.put(kept))) return
        if (failure) throw failure
      }
    } catch (error) {
      giveUp()
      throw error
    }
  }
  const drained = inParallel(count, parallel, drain)
  drained.then(() => funnel.end([{ done: true }]), funnel.fail)
  // One is enough to begin with: an upstream may answer them one after the other.
  const first = await Promise.race(heads).catch((error) => {
    funnel.leave()
    return drained.then(() => {
      throw error
    })
  })
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

/** Runs `count` tasks, `parallel` of them at once. Rejects with the first failure once those under way have ended. */
async function inParallel(count: number, parallel: number, task: (index: number) => Promise<void>): Promise<void> {
  let next = 0
  let failed = false
  const worker = async () => {
    while (next < count && !failed) {
      await task(next++).catch((error) => {
        failed = true
        throw error
      })
    }
  }
  await settleAll(Array.from({ length: parallel }, worker))
}

/** Waits for all of them, then gives their values or throws what the first to fail has thrown. */
async function settleAll<T>(tasks: readonly Promise<T>[]): Promise<T[]> {
  let first: { error: unknown } | null = null
  for (const task of tasks) {
    task.catch((error) => {
      first ??= { error }
    })
  }
  const results = await Promise.allSettled(tasks)
  if (first !== null) throw (first as { error: unknown }).error
  return results.map((result) => (result as PromiseFulfilledResult<T>).value)
}
