/** A request on its way to its client, what all of its answers have in common, and whole answers, settled before a byte of one leaves. */
import type { End, Settlement } from '../accounting/settle.ts'
import type { EndSignal } from '../domain/end-signal.ts'
import { endedBy } from '../domain/error.ts'
import type { Answer, AnswerEvent } from '../domain/events.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Task } from '../domain/task.ts'
import type { Format, Identity } from '../formats/format.ts'
import { settleFailure, toCause } from './failure.ts'

/** After so long others have their turn. */
const TURN_MS = 8

/** Joins the pieces of a text, each of which takes a moment to make. */
async function joinInTurns(pieces: Iterable<string>): Promise<string> {
  const made: string[] = []
  let sinceMs = performance.now()
  for (const piece of pieces) {
    made.push(piece)
    if (performance.now() - sinceMs < TURN_MS) continue
    await new Promise((resolve) => setImmediate(resolve))
    sinceMs = performance.now()
  }
  return made.join('')
}

export class QueueNote {
  #note: (() => string) | null = null

  /** @param note says it as of now; null where it waits no more. */
  set = (note: (() => string) | null): void => {
    this.#note = note
  }

  /** As a comment of a stream of server-sent events; null where it waits for nothing. */
  comment(): string | null {
    return this.#note && `: ${this.#note()}\n\n`
  }
}

export interface Delivery {
  requestId: string
  /** What the client speaks, what it asked for, and what every object of the answer is known by. */
  format: Format
  task: Task
  identity: Identity
  settlement: Settlement
  /** Aborts when the client leaves, or when the server stops. */
  signal: EndSignal
  /** The client's own signal: aborts when it leaves. */
  client: AbortSignal
  /** Headers of every answer that are known before it: how the key's rates stand. */
  headers: Readonly<Record<string, string>>
  /** What it waits for before its answer begins. */
  waiting: Pick<QueueNote, 'comment'>
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

/**
 * Resolves to the response. Throws a GatewayError for a failure, its row already settled.
 * @param opening the answer, once all of it is there.
 */
export async function deliverWhole(delivery: Delivery, opening: Promise<Begun>): Promise<Response> {
  try {
    const begun = await opening
    // It was read on for its usage alone. One that comes while the server stops still finds its client.
    if (delivery.client.aborted) throw endedBy('disconnected')
    delivery.settlement.firstToken()
    const receipt = await delivery.settlement.settle(toComplete(isUnmet(begun.events)))
    const headers = toHeaders(delivery, begun)
    headers['content-type'] = 'application/json'
    const { format, task, identity } = delivery
    const { answer, events } = begun
    const written =
      answer.isNative && format.native
        ? format.native.whole(identity, events)
        : format.whole(task, identity, events, receipt)
    const json = typeof written === 'string' ? written : await joinInTurns(written)
    delivery.held.dispose()
    return new Response(json, { headers })
  } catch (error) {
    throw await settleFailure(delivery.settlement, toCause(error, delivery.signal), 'nothing')
  }
}
