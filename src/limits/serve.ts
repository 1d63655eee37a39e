/**
 * Limits of several processes, keeper side. The keeper decides for its workers, by its own clock. Workers send the key
 * of their snapshot, because a request keeps the version of the key from its arrival.
 */
import { type Decision, GatewayError, UpstreamError } from '../domain/error.ts'
import type { Link } from '../domain/link.ts'
import type { Cost, Ended } from './budget.ts'
import type { Account } from './lending.ts'
import {
  type Ask,
  type LocalRequest,
  type LocalReservation,
  type Moment,
  type NodeLimiter,
  namesOf,
  type Permit,
  type Used,
} from './limiter.ts'
import { after, decide, gone } from './recall.ts'
import {
  ADMIT,
  type Admitted,
  type Admitting,
  type Asked,
  COUNT,
  ENTER,
  type Entering,
  LEASE,
  LEAVE,
  PERMIT,
  type Permitted,
  type Permitting,
  RAISE,
  RAISE_TOKENS,
  type Raised,
  type Raising,
  RECALL,
  REFUSE,
  RELEASE,
  SETTLE,
  type Settling,
  TOLD,
  toRefused,
} from './remote-topics.ts'
import type { ScopeName } from './shared/engine.ts'

export interface ServeLimitsDeps {
  limiter: Pick<NodeLimiter, 'enter' | 'permit' | 'isFull' | 'lend' | 'recall'>
  /** Monotonic clock, ms. */
  monotonicMs(): number
  /** Wall clock, ms. */
  now(): number
  sleep(ms: number): Promise<void>
}

/** The requests and permits of one worker. */
export interface ServedLimits {
  /** IDs of requests that the worker has not settled. */
  requests(): string[]
  /** For a request in the worker's journal. Call before `NodeLimiter.ended`. */
  ended(request: Ended): void
  /**
   * Call once the worker has ended and its journal is read. Settles each request at its outcome in the ledger. Cancels
   * requests without an outcome, which were never recorded. Frees all slots.
   */
  resolve(outcomeOf: (id: string) => Used | null): void
}

interface Running {
  id: string
  key: Entering['key']
  team: Entering['team']
  accounts: (Account | null)[]
  entered: LocalRequest
  reservation: LocalReservation | null
  admitting: Promise<unknown> | null
}

/** Timeout of a worker's count, because a stopped worker must not block the budgets of others. */
const COUNT_MS = 2_000

/** Time until a settled request is in the worker's journal. */
const RECORDED_MS = 1_000

export function serveLimits(link: Link, { limiter, monotonicMs, now, sleep }: ServeLimitsDeps): ServedLimits {
  const running = new Map<number, Running>()
  /** Requests that enter once workers have returned their leases, unless they end first. */
  const waiting = new Set<number>()
  /** Reservations settled since `sinceMs`, and in the interval before, by ID. */
  let settled = new Map<string, LocalReservation>()
  let settledBefore = new Map<string, LocalReservation>()
  let sinceMs = monotonicMs()
  const permits = new Map<number, Permit & { asked: Permitting }>()
  /** Permits that are neither decided nor released. */
  const asking = new Set<number>()
  let isResolved = false
  const moment = (): Moment => ({ monotonicMs: monotonicMs(), wallMs: now() })
  const recalls = new Map<ScopeName, Promise<unknown>>()
  const late = <T>(asked: Promise<T>) => Promise.race([asked.catch(() => null), sleep(COUNT_MS).then(() => null)])
  const recall = (name: ScopeName) => {
    const recalling = recalls.get(name) ?? late(link.ask(RECALL, name)).finally(() => recalls.delete(name))
    recalls.set(name, recalling)
    return recalling
  }
  const lender = limiter.lend?.({ monotonicMs, now, recall })
  void link.ended.then(() => lender?.mayHaveEnded())

  const accountsOf = (key: Entering['key'], team: Entering['team']): (Account | null)[] => [
    (key.budget && lender?.accountOf('key', key.id)) ?? null,
    (team?.budget && lender?.accountOf('team', team.id)) ?? null,
  ]

  const enter = ({ request, id, key, team }: Entering): GatewayError | null | Promise<GatewayError | null> => {
    waiting.add(request)
    const entering = decide<GatewayError | null>(limiter, namesOf(key, team), () => {
      if (isResolved || !waiting.has(request)) return gone()
      const entered = limiter.enter(id, key, team, monotonicMs())
      if (entered instanceof GatewayError) return entered
      running.set(request, { id, key, team, accounts: [], entered, reservation: null, admitting: null })
      return null
    })
    if (entering instanceof Promise) return entering.finally(() => waiting.delete(request))
    waiting.delete(request)
    return entering
  }
  const count = async (request: number, number: number): Promise<Cost | null> => {
    return late(link.ask(COUNT, { request, number }))
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
    const entering = asked.entering ? enter(asked.entering) : null
    return after(entering, (refused) => admitEntered(asked, refused))
  }
  const admitEntered = (asked: Asked, refused: GatewayError | null): Admitted | Promise<Admitted> => {
    if (refused) return { refused: toRefused(refused), headers: {}, room: null, figures: [] }
    const request = running.get(asked.request)
    if (!request) throw new Error('the request has not entered')
    const { key, team, entered } = request
    const names = namesOf(key, team)
    const done = (decided: Decision<LocalReservation>): Admitted => {
      request.admitting = null
      const figures = lender ? names.map((name) => lender.figures(name)) : []
      if (decided instanceof GatewayError)
        return { refused: toRefused(decided), headers: {}, room: entered.room(moment()), figures }
      request.reservation = decided
      request.accounts = accountsOf(key, team)
      return { refused: null, headers: decided.headers, room: decided.room(), figures }
    }
    const deciding = decide<Decision<LocalReservation>>(limiter, names, () =>
      // The worker may have given up the request.
      running.get(asked.request) === request ? entered.admit(toAsk(asked), moment()) : gone(),
    )
    if (!(deciding instanceof Promise)) return done(deciding)
    const admitting = deciding.then(done)
    request.admitting = admitting
    return admitting
  }
  const pay = ({ accounts }: Running, nanoUsd: number) => {
    for (const account of accounts) if (account) account.untoldNanoUsd -= nanoUsd
  }
  /** Takes over a request that needs more dollars than its lease has. Its current dollars always pass. */
  const takeOver = ({ request, heldNanoUsd = 0 }: Raising, { id, key, team }: Entering) => {
    const entered = limiter.enter(id, key, team, monotonicMs())
    if (entered instanceof GatewayError) throw entered
    const hold = (nanoUsd: number) => entered.admit({ tokens: 0, nanoUsd }, moment())
    const held = hold(heldNanoUsd)
    const reservation = held instanceof GatewayError ? hold(0) : held
    if (reservation instanceof GatewayError || reservation instanceof Promise) throw new Error('a lease is not held')
    running.set(request, { id, key, team, accounts: accountsOf(key, team), entered, reservation, admitting: null })
  }
  /** Removes the request, so that nothing is done twice. */
  const end = (number: number): Running | undefined => {
    const request = running.get(number)
    running.delete(number)
    waiting.delete(number)
    return request
  }
  const settle = (settling: Settling) => {
    const request = end(settling.request)
    const { id = '', reservation = null } = request ?? {}
    reservation?.settle(settling)
    if (request && reservation) pay(request, settling.nanoUsd)
    if (lender || !reservation?.hasBudget) return
    const atMs = monotonicMs()
    if (atMs - sinceMs >= RECORDED_MS) [settledBefore, settled, sinceMs] = [settled, new Map(), atMs]
    settled.set(id, reservation)
  }

  link.on(ENTER, (asked) => {
    const done = (refusal: GatewayError | null) => refusal && toRefused(refusal)
    const entering = enter(asked)
    return after(entering, done)
  })
  link.on(ADMIT, admit)
  link.on(LEASE, (asked) => {
    const nowMs = monotonicMs()
    return lender && !isResolved ? { reply: lender.lease(asked, nowMs), nowMs, bornMs: 0 } : null
  })
  link.on(TOLD, (told) => lender?.told(told))
  link.on(RAISE, async (asked) => {
    if (asked.entering) takeOver(asked, asked.entering)
    const { reservation, key, team } = running.get(asked.request) ?? {}
    if (!reservation || !key) return { refused: null, room: null }
    const done = (refusal: GatewayError | null): Raised => ({
      refused: refusal && toRefused(refusal),
      room: reservation.room(),
    })
    const names = namesOf(key, team ?? null)
    return done(await decide<GatewayError | null>(limiter, names, () => reservation.raise(toAsk(asked))))
  })
  link.on(RAISE_TOKENS, ({ request, tokens }) => {
    void running.get(request)?.reservation?.raise({ tokens, nanoUsd: 0 })
  })
  link.on(REFUSE, ({ request, kind, entering }) => {
    const error = new GatewayError(kind, '')
    const own = Object.keys(error.headers)
    const toHeaders = () => {
      for (const name of own) delete error.headers[name]
      return error.headers
    }
    const refuse = () => {
      const refusing = end(request)?.entered.refuse(error, monotonicMs())
      return after(refusing, toHeaders)
    }
    const counting = entering && enter(entering)
    return after(counting, refuse)
  })
  link.on(RELEASE, (request) => running.get(request)?.reservation?.releaseSlot())
  link.on(SETTLE, settle)
  link.on(PERMIT, (asked) => {
    const names = [`upstream:${asked.id}`]
    asking.add(asked.number)
    const done = (permit: Permit | UpstreamError): Permitted => {
      const figures = lender?.figures(`upstream:${asked.id}`) ?? null
      const isFull = limiter.isFull(asked, asked.tokens, monotonicMs())
      if (permit instanceof UpstreamError) {
        asking.delete(asked.number)
        const { message, retryable, retryAfterMs } = permit
        return { refused: { message, retryable, retryAfterMs }, isFull, figures }
      }
      if (isResolved || !asking.delete(asked.number)) permit.leave(null)
      else permits.set(asked.number, { leave: (tokens) => permit.leave(tokens), asked })
      return { refused: null, isFull, figures }
    }
    const permitting = decide<Permit | UpstreamError>(limiter, names, () =>
      limiter.permit(asked, asked.tokens, monotonicMs()),
    )
    return after(permitting, done)
  })
  link.on(LEAVE, ({ number, tokens }) => {
    const permit = permits.get(number)
    permits.delete(number)
    asking.delete(number)
    permit?.leave(tokens)
    return permit !== undefined && limiter.isFull(permit.asked, permit.asked.tokens, monotonicMs())
  })

  return {
    requests: () => [...running.values()].map(({ id }) => id),
    ended: (request) => lender?.ended(request),
    resolve(outcomeOf) {
      isResolved = true
      for (const permit of permits.values()) permit.leave(null)
      permits.clear()
      for (const request of running.values()) {
        const outcome = outcomeOf(request.id)
        const finish = () => {
          if (!outcome || !request.reservation) return request.entered.cancel()
          request.reservation.settle(outcome)
          pay(request, outcome.nanoUsd)
        }
        if (request.admitting) void request.admitting.then(finish)
        else finish()
      }
      running.clear()
      // The ledger may lack the record of the settlement.
      for (const [id, reservation] of [...settledBefore, ...settled]) {
        const outcome = outcomeOf(id)
        if (outcome) reservation.correct(outcome.nanoUsd)
      }
      settledBefore.clear()
      settled.clear()
      lender?.end()
    },
  }
}
