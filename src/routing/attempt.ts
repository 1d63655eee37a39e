/**
 * Tries the targets of a request in order until one answers. For now there is one try: the first target. Retry,
 * fallback and the breaker go here; the walk and the relay stay as they are.
 */
import type { Target } from '../store/snapshot.ts'
import type { BackendAnswer } from '../wire/chat.ts'

/** Makes one call to one target; call numbers count from 1. */
export type Dispatch = (target: Target, number: number) => Promise<BackendAnswer>

export interface Attempt {
  answer: BackendAnswer
  target: Target
  /** How many calls were made. */
  attempts: number
}

/** Resolves to the first answer. Throws the UpstreamError of the last call that failed. */
export async function attempt([target]: readonly [Target, ...Target[]], dispatch: Dispatch): Promise<Attempt> {
  return { answer: await dispatch(target, 1), target, attempts: 1 }
}
