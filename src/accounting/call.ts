/**
 * One call of a request, from its record to its end: whom it goes to, what its meter reads, and, once its client has left, how
 * it is read on. `calls.ts` makes it; its backend tells it that the client has left.
 */
import type { CanonicalRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import type { OpenCall } from '../store/ledger-rows.ts'
import type { Payer, Reading } from '../upstreams/backend.ts'
import type { CallLog } from './calls.ts'
import type { Meter } from './meter.ts'

export class Call implements Payer {
  readonly #log: CallLog
  /** How it is read on; null as long as its client is there. */
  #reading: Reading | null = null

  /**
   * @param number from 1 on.
   * @param row its row in `calls`; null for the first call.
   */
  constructor(
    log: CallLog,
    readonly number: number,
    readonly target: Target,
    readonly body: CanonicalRequest,
    readonly row: OpenCall | null,
    readonly meter: Meter,
  ) {
    this.#log = log
  }

  /** Whether it goes on for its usage when its client leaves. */
  get isReadOn(): boolean {
    return this.#log.readOnMs(this.target) > 0
  }

  /** See `Payer`. */
  left(reading: Reading): number {
    this.#reading = reading
    return this.#log.left(this.target, reading)
  }

  /** Notes that nothing is read of it any more. */
  over(): void {
    if (this.#reading !== null) this.#log.over(this.#reading)
  }
}
