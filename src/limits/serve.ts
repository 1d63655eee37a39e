/**
 * Limits of several processes, as the keeper has them: it decides for its workers, by its own clock. They send what
 * their snapshot says of a key, as a request of one process keeps the key that it arrived with.
 */
import { type Decision, GatewayError, UpstreamError } from '../domain/error.ts'
import type { Link } from '../domain/link.ts'
import type { Cost } from './budget.ts'
import type { Ask, LocalRequest, LocalReservation, Moment, NodeLimiter, Permit, Used } from './limiter.ts'
import {
  ADMIT,
  type Admitted,
  type Admitting,
  type Asked,
  COUNT,
  ENTER,
  type Entering,
  LEAVE,
  PERMIT,
  type Permitted,
  type Permitting,
  RAISE,
  RAISE_TOKENS,
  type Raised,
  REFUSE,
  RELEASE,
  SETTLE,
  type Settling,
  toRefused,
} from './remote-topics.ts'

export interface ServeLimitsDeps {
  limiter: Pick<NodeLimiter, 'enter' | 'permit' | 'isFull'>
  /** Monotonic clock, ms. */
  monotonicMs(): number
  /** Wall clock, ms. */
  now(): number
  sleep(ms: number): Promise<void>
}

/** What a worker has asked for. */
export interface ServedLimits {
  /** Requests that it has not settled. */
  requests(): string[]
  /**
   * Once the worker has ended, and its journal is read: settles each request at what the ledger has for it, or cancels
   * it if that is null, as for one never recorded. Frees all slots.
   */
  resolve(outcomeOf: (id: string) => Used | null): void
}

interface Running {
  id: string
  entered: LocalRequest
  reservation: LocalReservation | null
  admitting: Promise<unknown> | null
}

/** A worker that is stopped must not keep others from their budget. */
const COUNT_MS = 2_000

/** By then, what a worker has settled is in its journal. */
const RECORDED_MS = 1_000

export function serveLimits(link: Link, { limiter, monotonicMs, now, sleep }: ServeLimitsDeps): ServedLimits {
  const running = new Map<number, Running>()
  /** By ID: those settled since `sinceMs`, and in the period before. */
  let settled = new Map<string, LocalReservation>()
  let settledBefore = new Map<string, LocalReservation>()
  let sinceMs = monotonicMs()
  const permits = new Map<number, Permit & { asked: Permitting }>()
  let isResolved = false
  const moment = (): Moment => ({ monotonicMs: monotonicMs(), wallMs: now() })

  const enter = ({ request, id, key, team }: Entering): GatewayError | null => {
    const entered = limiter.enter(id, key, team, monotonicMs())
    if (entered instanceof GatewayError) return entered
    running.set(request, { id, entered, reservation: null, admitting: null })
    return null
  }
  const count = async (request: number, number: number): Promise<Cost | null> => {
    const late = sleep(COUNT_MS).then(() => null)
    return Promise.race([link.ask(COUNT, { request, number }).catch(() => null), late])
  }
  const toAsk = ({ request, tokens, nanoUsd, isMore = false, counting }: Asked): Ask => {
    if (!counting) return { tokens, nanoUsd, isMore }
    const { number, leastNanoUsd } = counting
    return {
      tokens,
      nanoUsd,
      isMore,
      counting: { leastNanoUsd: () => leastNanoUsd, count: () => count(request, number) },
    }
  }
  const admit = (asked: Admitting): Admitted | Promise<Admitted> => {
    if (asked.entering) enter(asked.entering)
    const request = running.get(asked.request)
    if (!request) throw new Error('the request has not entered')
    const done = (decided: Decision<LocalReservation>): Admitted => {
      request.admitting = null
      if (decided instanceof GatewayError)
        return { refused: toRefused(decided), headers: {}, room: request.entered.room(moment()) }
      request.reservation = decided
      return { refused: null, headers: decided.headers, room: decided.room() }
    }
    const deciding = request.entered.admit(toAsk(asked), moment())
    if (!(deciding instanceof Promise)) return done(deciding)
    const admitting = deciding.then(done)
    request.admitting = admitting
    return admitting
  }
  /** Takes it out, so that nothing is done twice. */
  const end = (number: number): Running | undefined => {
    const request = running.get(number)
    running.delete(number)
    return request
  }
  const settle = (settling: Settling) => {
    const { id = '', reservation = null } = end(settling.request) ?? {}
    reservation?.settle(settling)
    if (!reservation?.hasBudget) return
    const atMs = monotonicMs()
    if (atMs - sinceMs >= RECORDED_MS) [settledBefore, settled, sinceMs] = [settled, new Map(), atMs]
    settled.set(id, reservation)
  }

  link.on(ENTER, (asked) => {
    const refusal = enter(asked)
    return refusal && toRefused(refusal)
  })
  link.on(ADMIT, admit)
  link.on(RAISE, (asked) => {
    const reservation = running.get(asked.request)?.reservation
    if (!reservation) return { refused: null, room: null }
    const done = (refusal: GatewayError | null): Raised => ({
      refused: refusal && toRefused(refusal),
      room: reservation.room(),
    })
    const raising = reservation.raise(toAsk(asked))
    return raising instanceof Promise ? raising.then(done) : done(raising)
  })
  link.on(RAISE_TOKENS, ({ request, tokens }) => {
    void running.get(request)?.reservation?.raise({ tokens, nanoUsd: 0 })
  })
  link.on(REFUSE, ({ request, kind }) => {
    const error = new GatewayError(kind, '')
    const own = Object.keys(error.headers)
    const toHeaders = () => {
      for (const name of own) delete error.headers[name]
      return error.headers
    }
    const refusing = end(request)?.entered.refuse(error, monotonicMs())
    return refusing instanceof Promise ? refusing.then(toHeaders) : toHeaders()
  })
  link.on(RELEASE, (request) => running.get(request)?.reservation?.releaseSlot())
  link.on(SETTLE, settle)
  link.on(PERMIT, (asked) => {
    const done = (permit: Permit | UpstreamError): Permitted => {
      const isFull = limiter.isFull(asked, asked.tokens, monotonicMs())
      if (permit instanceof UpstreamError) {
        const { message, retryable, retryAfterMs } = permit
        return { refused: { message, retryable, retryAfterMs }, isFull }
      }
      if (isResolved) permit.leave(null)
      else permits.set(asked.number, { leave: (tokens) => permit.leave(tokens), asked })
      return { refused: null, isFull }
    }
    const permitting = limiter.permit(asked, asked.tokens, monotonicMs())
    return permitting instanceof Promise ? permitting.then(done) : done(permitting)
  })
  link.on(LEAVE, ({ number, tokens }) => {
    const permit = permits.get(number)
    permits.delete(number)
    permit?.leave(tokens)
    return permit !== undefined && limiter.isFull(permit.asked, permit.asked.tokens, monotonicMs())
  })

  return {
    requests: () => [...running.values()].map(({ id }) => id),
    resolve(outcomeOf) {
      isResolved = true
      for (const permit of permits.values()) permit.leave(null)
      permits.clear()
      for (const request of running.values()) {
        const outcome = outcomeOf(request.id)
        const finish = () => {
          if (outcome && request.reservation) request.reservation.settle(outcome)
          else request.entered.cancel()
        }
        if (request.admitting) void request.admitting.then(finish)
        else finish()
      }
      running.clear()
      // The ledger may lack the record that it was settled by.
      for (const [id, reservation] of [...settledBefore, ...settled]) {
        const outcome = outcomeOf(id)
        if (outcome) reservation.correct(outcome.nanoUsd)
      }
      settledBefore.clear()
      settled.clear()
    },
  }
}
