/** The contract of what clients speak: how a body becomes a task, and how events become what the client reads. Pure. */
import type { Decision, GatewayError } from '../domain/error.ts'
import type { AnswerEvent } from '../domain/events.ts'
import type { Endpoint, Task } from '../domain/task.ts'
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
  readonly endpoint: Endpoint
  /** Checks a parsed body, and makes the task of it. */
  toTask(body: unknown): Decision<Task>
  writer(task: Task, identity: Identity): Writer
}

/** Writes one answer: a stream by `take` and `tail`, or all of it by `whole`. */
export interface Writer {
  /** Takes a batch of events and returns the frames that may go out now; '' while there is nothing to say. */
  take(events: readonly AnswerEvent[]): string
  /** The last frames of a stream, once its outcome is settled. */
  tail(receipt: Receipt): string
  /** A whole answer. */
  whole(events: readonly AnswerEvent[], receipt: Receipt): string
  /** The frame that tells a client that its stream was truncated; nothing follows it. */
  failure(error: GatewayError): string
}
