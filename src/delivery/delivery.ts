/** A request on its way to its client, and what all of its answers have in common. `stream.ts` and `whole.ts` deliver them. */
import type { End, Settlement } from '../accounting/settle.ts'
import type { EndSignal } from '../domain/end-signal.ts'
import type { Answer, AnswerEvent } from '../domain/events.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Task } from '../domain/task.ts'
import type { Format, Identity } from '../formats/format.ts'
import type { Waiting } from './waiting.ts'

export interface Delivery {
  requestId: string
  /** What the client speaks, what it asked for, and what every object of the answer is known by. */
  format: Format
  task: Task
  identity: Identity
  settlement: Settlement
  /** Aborts when the client leaves, or with what it is told as its reason when the server stops. */
  signal: EndSignal
  /** The client's own signal: aborts when it leaves. */
  client: AbortSignal
  /** Headers of every answer that are known before it: how the key's rates stand. */
  headers: Readonly<Record<string, string>>
  /** What it waits for before its answer begins. */
  waiting: Pick<Waiting, 'comment'>
  /**
   * What the request holds, released when all but the end of the connection's answer is done; by whoever began the
   * delivery where there is no response.
   */
  held: DisposableStack
}

/** An answer that has begun: nothing else is tried any more. */
export interface Begun {
  target: Target
  answer: Answer
  /** All that was read of it so far. */
  events: readonly AnswerEvent[]
}

/** What a complete answer is settled as. Where the ledger has no place for that, its tail is withheld. */
export const toComplete = (isUnmet: boolean): End => ({
  ...{ status: 'ok', httpStatus: 200 },
  errorCode: isUnmet ? 'schema_not_met' : null,
})

/** Whether the gateway found that a choice does not meet the schema that the client asked for. */
export const isUnmet = (events: readonly AnswerEvent[]): boolean => events.some(({ kind }) => kind === 'unmet')

/** Headers of every answer: the receipt, as far as it is known when the first byte leaves. */
export function toHeaders(
  { format, requestId, headers, settlement }: Delivery,
  begun: Begun | null,
): Record<string, string> {
  const all = Object.assign(format.ids(requestId), headers)
  if (begun === null) return all
  all['x-tollgate-upstream'] = begun.target.upstream.id
  all['x-tollgate-lane'] = begun.answer.isNative ? 'native' : 'translated'
  all['x-tollgate-attempts'] = String(settlement.attempts)
  if (settlement.outputCap !== null) all['x-tollgate-output-cap'] = String(settlement.outputCap)
  if (isUnmet(begun.events)) all['x-tollgate-schema'] = 'unmet'
  return all
}
