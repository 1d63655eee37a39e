/**
 * Makes one call to one target, and is the only caller of `Backend.chat`. A call is on record before it is made: the
 * first one stands inline in the row that the walk has opened; further ones get a row of `calls` here.
 */
import type { Backend } from '../backends/backend.ts'
import type { Dispatch } from '../routing/attempt.ts'
import type { Target } from '../store/snapshot.ts'

export interface DispatchDeps {
  backendFor(target: Target): Backend
}

/** Prepares the dispatches of one request. */
export function createDispatch(
  { backendFor }: DispatchDeps,
  id: string,
): Dispatch {
  let calls = 0
  return ({ target, body, signal }) =>
    backendFor(target).chat({
      body,
      target,
      signal,
      deadlines: target.upstream.deadlines,
      callId: `${id}-${++calls}`,
    })
}
