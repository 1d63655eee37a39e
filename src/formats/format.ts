/** The contract of what clients speak: how a body becomes a task, and how events become what the client reads. Pure. */
import type { Decision, GatewayError } from '../domain/error.ts'
import type { AnswerEvent } from '../domain/events.ts'
import type { Task } from '../domain/task.ts'
import type { Receipt } from '../domain/usage.ts'

/** What identifies an answer, the same in every frame. */
export interface Identity {
  /** Of the request: 32 hex digits. */
  id: string
  /** Unix seconds. */
  created: number
  /** The resolved slug. */
  model: string
}

export interface Format {
  /** Checks a parsed body, and makes the task of it. */
  toTask(body: unknown): Decision<Task>
  /** Writes a whole answer. */
  whole(identity: Identity, events: readonly AnswerEvent[], receipt: Receipt): string
  /** Returns what writes a streamed one. */
  writer(task: Task, identity: Identity): Writer
}

/** Writes one stream. */
export interface Writer {
  /** Takes a batch of events and returns the frames that may go out now; '' while there is nothing to say. */
  take(events: readonly AnswerEvent[]): string
  /** The last frames, once its outcome is settled. */
  tail(receipt: Receipt): string
  /** The frame that tells a client that its stream was truncated; nothing follows it. */
  failure(error: GatewayError): string
}
