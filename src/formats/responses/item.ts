/**
 * What the items of an answer have in common while they are written. Each keeps all that it says, for its last event has it
 * whole, and what of it was not said yet, for an item begins only once the one before it has ended (`output.ts`). Pure.
 */
import type { AnswerEvent } from '../../domain/events.ts'
import type { OutputItem, Status } from './wire.ts'

/** Writes an event of a stream. Its fields may be JSON already, of one line and without the first brace. */
export type Say = (type: string, fields: object | string) => void

/** What an answer says in a choice. */
export type ChoiceEvent = Extract<AnswerEvent, { choice: number }>

export interface Item {
  /** Keeps what an event says; false where that belongs to another item. */
  take(event: ChoiceEvent): boolean
  /** Whether nothing more is to be expected of it once another item has begun. */
  isComplete(): boolean
  /** As it begins. */
  toEmpty(): OutputItem
  /** As it stands in the answer. */
  toJson(status: Status): OutputItem
  /** Says what was not said yet. */
  sayMore(say: Say): void
  /** Says the end of what has begun within it. */
  sayEnd(say: Say): void
}

/** Where an item stands, as each of its events says. */
export interface Place {
  item_id: string
  output_index: number
}
