/**
 * A request as its steps find out about it (`handle.ts` has their order): each step reads what those before it have found, adds its own to
 * the same object, and returns that under the type that says so. No step can read what a later one writes.
 */
import type { CallLog } from '../accounting/call-log.ts'
import type { EndSignal } from '../domain/end-signal.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { CatalogModel, Key, Snapshot, Target, Team } from '../domain/snapshot.ts'
import type { Task } from '../domain/task.ts'
import type { Format } from '../formats/format.ts'
import type { RequestHealth } from '../health/health.ts'
import type { Caller } from '../keys/token.ts'
import type { EnteredRequest, Reservation } from '../limits/limiter.ts'
import type { Reserve } from '../store/ledger-rows.ts'
import type { AdmissionSlot } from './admission.ts'
import type { QueueNote } from './delivery.ts'
import type { Passthrough } from './eligibility.ts'
import type { RequestHeaders } from './read.ts'

export interface IncomingRequest extends Caller {
  request: Request
  /** Its headers as Elysia has read them already: reading them again would cost as much. */
  headers: RequestHeaders
  /** Who asks, where that needs no proof; the token does not count then. */
  owner: Key | null
  /** Lifts the connection's idle limit: a client that has proved its key may wait for its answer. */
  liftIdleLimit(): void
  /** Puts it back, before the last bytes leave: after them Bun takes no more settings for the connection. */
  restoreIdleLimit(): void
}

export interface Arrived {
  readonly id: string
  readonly createdMs: number
  /** What is configured: a change holds for the next request. */
  readonly snapshot: Snapshot
  readonly incoming: IncomingRequest
  readonly format: Pick<Format, 'toTask'>
  /** Released where nothing is delivered, else by the delivery. */
  readonly held: DisposableStack
}

export interface Authenticated extends Arrived {
  readonly key: Key
  readonly team: Team | null
  /** Tollgate servers that it has passed, this one last: `domain/task.ts`. */
  readonly hops: string
}

export interface Entered extends Authenticated {
  readonly slot: AdmissionSlot
  /** The request as the limiter knows it: a refusal ends it. */
  readonly entered: EnteredRequest
}

export interface Parsed extends Entered {
  readonly task: Task
  /** Of the body, in UTF-16 units. */
  readonly chars: number
  /** Whether it took long to read: what it is made into waits for its turns, too. */
  readonly isLong: boolean
}

export interface Resolved extends Parsed {
  readonly model: CatalogModel
  /** The task as the model can take it. */
  readonly able: Task
  readonly passthrough: Passthrough
  /** The targets that can take it, in no order; never empty. */
  readonly eligible: readonly Target[]
  readonly health: RequestHealth
}

export interface Reserved extends Resolved {
  readonly targets: readonly Target[]
  readonly first: Target
  /** The canonical request as it is sent. */
  readonly body: AnyRequest
  /** The cap of ours that it has, because a budget has no room for all that the model writes; null for none. */
  readonly outputCap: number | null
  /** What its first call reserves. */
  readonly reserve: Reserve
  readonly reservation: Reservation
}

export interface Recorded extends Reserved {
  readonly calls: CallLog
  /** Says why the request ends before its answer: its client leaves, or the server stops. */
  readonly signal: EndSignal
  /** What it waits for in a queue. */
  readonly waiting: QueueNote
}

/** As far as a request has come that has failed. */
export type Unfinished = Arrived & Partial<Recorded>
