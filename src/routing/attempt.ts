/**
 * Tries the targets of a request in order until one answers. For now there is one try: the first target. Retry,
 * fallback and the breaker go here; the walk and the relay stay as they are.
 */
import type { Target } from '../store/snapshot.ts'
import type { BackendAnswer } from '../wire/chat.ts'
import type { ChatRequest } from '../wire/request.ts'

/** Why a call of a request is made. The first one stands in the request's own row, the others in `calls`. */
export type CallReason = 'first' | 'retry' | 'fallback' | 'fan_out' | 'schema'

export interface Ask {
  target: Target
  /** The canonical request. `fanOut` and `enforce` change copies of it. */
  body: ChatRequest
  reason: CallReason
  /** Aborts when the answer is no longer wanted. */
  signal: AbortSignal
}

/** Makes one call to one target, or as many as it takes: `fanOut` and `enforce` wrap one and have its type. */
export type Dispatch = (ask: Ask) => Promise<BackendAnswer>

export interface Attempt {
  answer: BackendAnswer
  target: Target
}

/** Resolves to the first answer. Throws the UpstreamError of the last call that failed. */
export async function attempt(
  [target]: readonly [Target, ...Target[]],
  dispatch: Dispatch,
  body: ChatRequest,
  signal: AbortSignal,
): Promise<Attempt> {
  return { answer: await dispatch({ target, body, reason: 'first', signal }), target }
}
