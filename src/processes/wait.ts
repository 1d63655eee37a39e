/** Waiting for a place at a model server: who may join its line, and when one that waits leaves it without a place. Called by `fleet.ts`. */
import type { EndSignal } from '../domain/end-signal.ts'
import { endOfUnsent, queuedTooLong, type UpstreamError } from '../domain/error.ts'
import type { Upstream } from '../domain/snapshot.ts'
import type { Arrangement } from './arrange.ts'
import type { Clock } from './clock.ts'
import type { Lease, ManagedModel, Ticket } from './model.ts'
import { toNote } from './note.ts'
import { toFailed, toFull, toGone, toStopping } from './refusals.ts'

export interface Ask {
  upstream: Upstream
  /** Whose turns it takes. */
  owner: string
  signal: EndSignal
  /** How long it may wait, ms. */
  patienceMs: number
  /** Given what says where it stands; null once it waits no more. */
  onWaiting?(note: (() => string) | null): void
}

export interface WaitDeps {
  arrangement: Arrangement
  clock: Clock
}

/** Resolves to a place at its server, once that is ready and it is the owner's turn. Rejects with an UpstreamError. */
export function waitForPlace(deps: WaitDeps, ask: Ask): Promise<Lease> {
  const { promise, resolve, reject } = Promise.withResolvers<Lease>()
  try {
    join(deps, ask, { resolve, reject }, promise)
  } catch (error) {
    reject(error)
  }
  return promise
}

function join(
  { arrangement, clock }: WaitDeps,
  { upstream, owner, signal, patienceMs, onWaiting }: Ask,
  answer: Pick<Ticket, 'resolve' | 'reject'>,
  lease: Promise<Lease>,
): void {
  if (signal.aborted) throw endOfUnsent(signal)
  const model = requireOpen(arrangement, upstream.id, clock.nowMs())
  const { line } = model
  const ticket: Ticket = { ...answer, owner, upstream, sinceMs: clock.nowMs() }
  const turnedAway = line.join(ticket)
  turnedAway?.reject(toFull(line.length, model.expectedMs(clock.nowMs())))
  const giveUp = (why: UpstreamError) => {
    if (!line.leave(ticket)) return
    ticket.reject(why)
    arrangement.changed()
  }
  const leave = () => giveUp(endOfUnsent(signal))
  signal.addEventListener('abort', leave, { once: true })
  const tooLong = () => queuedTooLong(patienceMs, model.expectedMs(clock.nowMs()))
  const takeBack = clock.after(patienceMs, () => giveUp(tooLong()))
  const settled = () => {
    takeBack()
    signal.removeEventListener('abort', leave)
    onWaiting?.(null)
  }
  lease.then(settled, settled)
  onWaiting?.(() => toNote(line.positionOf(ticket), line.length, toWhat(model)))
  arrangement.changed()
}

/** Throws where nobody can wait for it. */
function requireOpen({ models, isDraining }: Arrangement, id: string, nowMs: number): ManagedModel {
  const model = models.get(id)
  if (!model || model.isGone) throw toGone()
  const { phase, state, failure } = model.supervisor
  if (isDraining && phase !== 'ready') throw toStopping()
  const why = state === 'failed' && failure ? toFailed(failure, model, { nowMs, isDraining }) : null
  if (why) throw why
  return model
}

const toWhat = ({ supervisor: { phase } }: ManagedModel) =>
  phase === 'ready' ? '' : phase === 'stopped' ? 'for memory' : 'loading'
