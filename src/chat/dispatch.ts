/**
 * Makes one call to one target, and is the only caller of `Backend.chat`: a call is on record before it is made, and
 * metered whatever becomes of its answer.
 */
import { fail, watch } from '../answer/meter.ts'
import type { Tally } from '../answer/tally.ts'
import type { Backend } from '../backends/backend.ts'
import type { Dispatch } from '../routing/attempt.ts'
import type { Target } from '../store/snapshot.ts'

export interface DispatchDeps {
  backendFor(target: Target): Backend
}

/** Prepares the dispatches of one request. */
export function createDispatch({ backendFor }: DispatchDeps, id: string, tally: Tally): Dispatch {
  return async (ask) => {
    const begun = tally.begin(ask)
    const { number, meter } = begun instanceof Promise ? await begun : begun
    const { body, target, signal } = ask
    try {
      const { deadlines } = target.upstream
      const answer = await backendFor(target).chat({ body, target, signal, deadlines, callId: `${id}-${number}` })
      return watch(meter, answer)
    } catch (error) {
      fail(meter, error)
      throw error
    }
  }
}
