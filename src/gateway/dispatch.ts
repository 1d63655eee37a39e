/**
 * Makes one call to one target, and is the only caller of `Backend.chat`: a call stays under its upstream's limits, is on
 * record before it is made, metered whatever becomes of its answer, and its failure told to the target's breaker.
 */

import { type Call, type Tally, toAmount } from '../accounting/calls.ts'
import { fail, type Meter, watch } from '../accounting/meter.ts'
import { GatewayError, UpstreamError } from '../domain/error.ts'
import type { Target } from '../domain/snapshot.ts'
import type { CallNews } from '../health/health.ts'
import type { RequestHealth } from '../health/request.ts'
import type { Limiter, Moment, Permit } from '../limits/limiter.ts'
import type { Backend } from '../upstreams/backend.ts'
import type { Ask, Dispatch } from './attempt.ts'
import type { MemoryReservation } from './load.ts'

export interface DispatchDeps {
  backendFor(target: Target): Backend
  limiter: Pick<Limiter, 'enter'>
  /** Both clocks. */
  moment(): Moment
}

/** Prepares the dispatches of one request. `memory` counts the bytes that it holds. */
export function createDispatch(
  deps: DispatchDeps,
  id: string,
  tally: Tally,
  memory: MemoryReservation,
  health: Pick<RequestHealth, 'report'>,
): Dispatch {
  const { backendFor } = deps
  return async (asked) => {
    const ask = toWithin(asked)
    const { body, target, signal } = ask
    const { number, meter } = await begin(deps, tally, health, ask)
    try {
      const { deadlines } = target.upstream
      const callId = `${id}-${number}`
      return watch(meter, await backendFor(target).chat({ body, target, signal, deadlines, callId, take: memory.take }))
    } catch (error) {
      // For want of memory we leave an answer unread that was written, and that will be charged for.
      fail(meter, error instanceof GatewayError ? leftUnread() : error)
      throw error
    }
  }
}

/** A cap of ours may be more than this target writes; a client's own is not, or the target would not be tried. */
function toWithin(ask: Ask): Ask {
  const { body, target } = ask
  const most = target.maxOutputLength
  if ((body.max_tokens ?? 0) > most) return { ...ask, body: { ...body, max_tokens: most } }
  if ((body.max_completion_tokens ?? 0) > most) return { ...ask, body: { ...body, max_completion_tokens: most } }
  return ask
}

const leftUnread = () => new UpstreamError('aborted', 'there was no room for the answer', { retryable: false })

/** Puts the call where it counts. Throws what keeps it from being made. */
async function begin(deps: DispatchDeps, tally: Tally, health: Pick<RequestHealth, 'report'>, ask: Ask): Promise<Call> {
  const { target } = ask
  let pass: Permit | null = null
  try {
    const reserve = tally.reserveOf(ask)
    pass = enter(deps, target, toAmount(reserve).tokens)
    const begun = tally.begin(ask, reserve)
    const call = begun instanceof Promise ? await begun : begun
    call.meter.onEnd = (meter) => {
      pass?.leave(toTokens(meter))
      health.report(target, toNews(meter))
    }
    return call
  } catch (error) {
    pass?.leave(0)
    health.report(target, 'aborted')
    throw error
  }
}

/** A place at its upstream. Throws what a provider would answer who has the same limits. */
function enter({ limiter, moment }: DispatchDeps, { upstream }: Target, tokens: number): Permit {
  const entered = limiter.enter(upstream, tokens, moment().monotonicMs)
  if (entered instanceof UpstreamError) throw entered
  return entered
}

/** What fails is not counted by a provider either; what broke off and says nothing stays at its estimate. */
const toTokens = ({ end, usage }: Meter) => (end === 'failed' ? 0 : usage ? usage.prompt + usage.completion : null)

function toNews({ end, error }: Meter): CallNews {
  if (end === 'ok') return 'ok'
  return error instanceof UpstreamError ? error : 'aborted'
}
