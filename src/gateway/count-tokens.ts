/**
 * Tells how many tokens a request has, as far as that is known here: counted with another vendor's vocabulary, and guessed from
 * bytes where that takes too long. It is let in as any request is, counts as one of its key's, and costs nothing: no upstream
 * sees it, and the ledger has no row of it.
 */
import { toGatewayError } from '../delivery/failure.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import type { Key } from '../domain/snapshot.ts'
import type { CountingFormat } from '../formats/format.ts'
import { authenticate } from '../keys/token.ts'
import type { EnteredRequest } from '../limits/limiter.ts'
import { teamOf, visibleModel } from '../routing/access.ts'
import { modelNotFound } from '../routing/route.ts'
import { type HandleDeps, type IncomingRequest, logRefusal, orThrow } from './handle.ts'
import { readTask } from './read-task.ts'

const NOTHING = { tokens: 0, nanoUsd: 0 }

/** Answers in the words of the format. Throws a GatewayError that carries the request's id. */
export async function countTokens(
  deps: HandleDeps,
  format: CountingFormat,
  incoming: IncomingRequest,
): Promise<Response> {
  const arrivedMs = deps.now()
  const id = mintId(arrivedMs)
  const requestId = toRequestId(id)
  const { snapshot } = deps.live
  using held = new DisposableStack()
  let key: Key | null = null
  let entered: EnteredRequest | null = null
  try {
    key = incoming.owner ?? orThrow(authenticate(snapshot, incoming, arrivedMs))
    const place = held.use(orThrow(deps.load.enter(key)))
    held.defer(incoming.restoreIdleLimit)
    entered = orThrow(await deps.limiter.enter(key, teamOf(snapshot, key), deps.monotonicMs()))
    const { task } = orThrow(await readTask(deps, format, incoming, { key, entered, place }))
    if (!visibleModel(snapshot, key, task.model)) throw modelNotFound(snapshot, key, task.model, 'model')
    const reservation = orThrow(await entered.admit(NOTHING, { monotonicMs: deps.monotonicMs(), wallMs: deps.now() }))
    held.defer(() => reservation.settle(NOTHING))
    const tokens = (await deps.counter.prompt(key.shareId, task.body)) ?? task.promptTokens
    return Response.json(format.answer(tokens), { headers: { ...format.ids(requestId), ...reservation.headers } })
  } catch (cause) {
    const error = toGatewayError(cause)
    error.requestId = requestId
    entered?.refuse(error, deps.monotonicMs())
    if (cause === error) logRefusal(deps.log, { id, key: key?.id }, error)
    throw error
  }
}
