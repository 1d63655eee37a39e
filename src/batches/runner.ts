/** The contract of what brings the lines of a batch to their results. */
import type { BatchLine, LineError, LineResult, StoredBatch } from '../domain/batches.ts'
import type { JsonObject } from '../domain/json.ts'
import type { Key } from '../domain/snapshot.ts'

export interface BegunLine {
  number: number
  /** Of the ledger's row: 32 hex digits. */
  requestId: string
}

/** Why no more lines may begin. `stopped`: the server ends, and the next one goes on; may come after another reason. */
export type EndingReason = 'cancelled' | 'expired' | 'stopped'

/** Of one batch, while it is in progress. */
export interface BatchWork {
  /** As it is now. */
  readonly batch: StoredBatch
  /** As it is now; null if it was revoked, has expired, or is gone. */
  key(): Key | null
  /** Numbers of the lines without a result, ascending. */
  pending(): number[]
  read(number: number): Promise<BatchLine>
  /** Of the results so far. */
  bytes(): number
  /** Durable once it resolves: these lines are about to be sent, as these requests. */
  begin(lines: readonly BegunLine[]): Promise<void>
  /** As which a line was begun last, maybe by an earlier server; null if it wasn't. */
  requestIdOf(number: number): string | null
  /** Survives a kill once it resolves. Only the first result of a line counts; false for later ones. */
  done(line: Pick<BatchLine, 'number' | 'customId'>, result: LineResult | LineError): Promise<boolean>
  setRemote(remote: JsonObject): Promise<void>
  /** Aborts for any EndingReason. Lines without a result then get an error, unless the server stops. */
  readonly ending: AbortSignal
  /** Aborts when the server stops, also while the batch is cancelled or expires: what is at an upstream stays for the next one. */
  readonly stopping: AbortSignal
}

export interface LineRunner {
  /**
   * Resolves once each pending line has a result, or after `ending`, once nothing of its own is in flight. Called again after a restart, with the
   * lines that are still pending.
   */
  run(work: BatchWork): Promise<void>
  /** A client asks for the batch. */
  look?(batchId: string): void
}

/**
 * Null: the gateway runs its lines.
 * @param key null if it was revoked or is gone, and `remote` is left.
 */
export type ChooseRunner = (batch: StoredBatch, key: Key | null) => LineRunner | null
