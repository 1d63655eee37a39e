/** The contract of runners, which get a result for each line of a batch. */
import type { BatchLine, LineError, LineResult, StoredBatch } from '../domain/batches.ts'
import type { JsonObject } from '../domain/json.ts'
import type { Key } from '../domain/snapshot.ts'

export interface BegunLine {
  number: number
  /** ID of the ledger row: 32 hex digits. */
  requestId: string
}

/** Why no more lines may begin. `stopped`: the server stops, and the next one continues; may follow another reason. */
export type EndingReason = 'cancelled' | 'expired' | 'stopped'

/** A batch in progress. */
export interface BatchWork {
  /** Current state. */
  readonly batch: StoredBatch
  /** Current state; null if revoked, expired, or missing. */
  key(): Key | null
  /** Numbers of the lines without a result, ascending. */
  pending(): number[]
  read(number: number): Promise<BatchLine>
  /** Size of the results so far. */
  bytes(): number
  /** Records that these lines are about to be sent, and their request IDs. Durable once it resolves. */
  begin(lines: readonly BegunLine[]): Promise<void>
  /** ID of the line's last request, maybe of an earlier server; null if the line was never begun. */
  requestIdOf(number: number): string | null
  /** Survives a kill once it resolves. Only the first result of a line counts; false for later ones. */
  done(line: Pick<BatchLine, 'number' | 'customId'>, result: LineResult | LineError): Promise<boolean>
  setRemote(remote: JsonObject): Promise<void>
  /** Aborts for any EndingReason. Lines without a result then get an error, unless the server stops. */
  readonly ending: AbortSignal
  /** Aborts when the server stops, even if the batch is being canceled or expires: the next server continues a batch at an upstream. */
  readonly stopping: AbortSignal
}

export interface LineRunner {
  /**
   * Resolves once each pending line has a result. After `ending`, resolves once none of its lines is in flight. Called again after a restart,
   * with the lines that are still pending.
   */
  run(work: BatchWork): Promise<void>
  /** Called when a client asks for the batch. */
  look?(batchId: string): void
}

/**
 * Null: the gateway runs its lines.
 * @param key null if it was revoked or is missing, but the batch has `remote`.
 */
export type ChooseRunner = (batch: StoredBatch, key: Key | null) => LineRunner | null
