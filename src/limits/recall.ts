/** Workers return their leases before a request is rejected, including requests of the keeper. */
import { type Decision, GatewayError } from '../domain/error.ts'
import {
  type EnteredRequest,
  type Limited,
  type LimitedUpstream,
  type NodeLimiter,
  namesOf,
  type RequestLimiter,
  type Reservation,
} from './limiter.ts'
import type { ScopeName } from './shared/engine.ts'

/** The request ended while workers returned their leases. */
export const gone = () => new GatewayError('overloaded', 'The request has ended.')

/** Retries a rejected attempt if workers had parts of these limits. */
export function decide<T>(
  { recall }: Pick<NodeLimiter, 'recall'>,
  names: readonly ScopeName[],
  attempt: () => T | Promise<T>,
): T | Promise<T> {
  const again = (decided: T): T | Promise<T> => {
    const recalling = decided instanceof Error ? recall?.(names) : null
    return recalling ? recalling.then(attempt) : decided
  }
  return after(attempt(), again)
}

/** Runs `then` at once, unless `decided` is pending. */
export const after = <T, U>(decided: T | Promise<T>, then: (decided: T) => U | Promise<U>): U | Promise<U> =>
  decided instanceof Promise ? decided.then(then) : then(decided)

const ifTaken = <T, U>(decided: Decision<T>, then: (taken: T) => U): Decision<U> =>
  decided instanceof Error ? decided : then(decided)

/** For requests of the keeper itself. */
export function createRecallingLimiter(limiter: NodeLimiter): RequestLimiter {
  const toReservation = (taken: Reservation, names: readonly ScopeName[]): Reservation => ({
    headers: taken.headers,
    hasBudget: taken.hasBudget,
    raise: (ask) => decide(limiter, names, () => taken.raise(ask)),
    room: () => taken.room(),
    releaseSlot: () => taken.releaseSlot(),
    settle: (actual) => taken.settle(actual),
    cancel: () => taken.cancel(),
  })
  const toRequest = (entered: EnteredRequest, names: readonly ScopeName[]): EnteredRequest => {
    let isOver = false
    return {
      admit: (ask, now) =>
        after(
          decide(limiter, names, () => (isOver ? gone() : entered.admit(ask, now))),
          (decided) => ifTaken(decided, (taken) => toReservation(taken, names)),
        ),
      room: (now) => entered.room(now),
      cancel() {
        isOver = true
        entered.cancel()
      },
      refuse(error, monotonicMs) {
        isOver = true
        return entered.refuse(error, monotonicMs)
      },
    }
  }
  return {
    enter(id: string, key: Limited, team: Limited | null, monotonicMs: number) {
      const names = namesOf(key, team)
      const entering = decide(limiter, names, () => limiter.enter(id, key, team, monotonicMs))
      return after(entering, (decided) => ifTaken(decided, (entered) => toRequest(entered, names)))
    },
    permit: (upstream: LimitedUpstream, tokens: number, monotonicMs: number) =>
      decide(limiter, [`upstream:${upstream.id}`], () => limiter.permit(upstream, tokens, monotonicMs)),
    isFull: (upstream, tokens, monotonicMs) => limiter.isFull(upstream, tokens, monotonicMs),
  }
}
