/**
 * A request as its steps extend it: each step adds its results to the same object and returns it under the next type,
 * so that none can read what a later one writes.
 */
import type { CallLog } from '../accounting/call-log.ts'
import type { EndSignal } from '../domain/end-signal.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { CatalogModel, Key, Snapshot, Target, Team } from '../domain/snapshot.ts'
import type { Task } from '../domain/task.ts'
import type { Trace } from '../domain/trace.ts'
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
  /** As already read by Elysia: reading them again would cost as much. */
  headers: RequestHeaders
  /** The key if it needs no token, as for the playground. */
  owner: Key | null
  /** ID of the row, if one was recorded before. */
  id?: string
  /** Lifts the connection's idle limit once the key is valid. */
  liftIdleLimit(): void
  /** Must happen before the last bytes are sent: after them Bun ignores connection settings. */
  restoreIdleLimit(): void
}

export interface Arrived {
  readonly id: string
  readonly createdMs: number
  readonly snapshot: Snapshot
  readonly incoming: IncomingRequest
  readonly format: Pick<Format, 'toTask' | 'form'>
  /** Released by the delivery, or by `handle` if there is none. */
  readonly held: DisposableStack
}

export interface Authenticated extends Arrived {
  readonly key: Key
  readonly team: Team | null
  /** Tollgate servers that the request has passed, this one last; see `domain/task.ts`. */
  readonly hops: string
  /** Null if tracing is off, or this request isn't sampled. */
  readonly trace: Trace | null
}

export interface Entered extends Authenticated {
  readonly slot: AdmissionSlot
  readonly entered: EnteredRequest
}

export interface Parsed extends Entered {
  /** When the body was complete, by the monotonic clock. */
  readonly readAtMs: number
  readonly task: Task
  /** Length of the body in UTF-16 units. */
  readonly chars: number
  /** Whether it was slow to parse, so that translating it must wait for its turns, too. */
  readonly isLong: boolean
}

export interface Resolved extends Parsed {
  readonly model: CatalogModel
  readonly able: Task
  readonly passthrough: Passthrough
  /** Unordered; never empty. */
  readonly eligible: readonly Target[]
  readonly health: RequestHealth
}

export interface Reserved extends Resolved {
  readonly targets: readonly Target[]
  readonly first: Target
  readonly body: AnyRequest
  /** Our own cap, if a budget can't cover all that the model may write; null for none. */
  readonly outputCap: number | null
  readonly reserve: Reserve
  readonly reservation: Reservation
}

export interface Recorded extends Reserved {
  readonly calls: CallLog
  readonly signal: EndSignal
  readonly waiting: QueueNote
}

export type Unfinished = Arrived & Partial<Recorded>
