/** The contract of what clients speak: how a body becomes a task, and how events become what the client reads. Pure. */
import type { Decision, GatewayError } from '../domain/error.ts'
import type { AnswerEvent } from '../domain/events.ts'
import type { RawRequest, Task } from '../domain/task.ts'
import { type Receipt, toUsd } from '../domain/usage.ts'

/** What identifies an answer, the same in every frame. */
export interface Identity {
  /** Of the request: 32 hex digits. */
  id: string
  /** Unix seconds. */
  created: number
  /** The resolved slug. */
  model: string
}

export interface Format extends ErrorFormat {
  /** Checks a parsed body, and makes the task of it. */
  toTask(body: unknown, raw: RawRequest): Decision<Task>
  /** Writes a whole answer; one that takes long in pieces, between which others may have the event loop. */
  whole(task: Task, identity: Identity, events: readonly AnswerEvent[], receipt: Receipt): string | Iterable<string>
  /** Returns what writes a streamed one. */
  writer(task: Task, identity: Identity): Writer
  /** How an answer is passed on that came in the upstream's own words; left out where none does. */
  readonly passthrough?: PassthroughWriters
}

/** What a client that only asks how many tokens a request has sends, and is told. */
export interface CountingFormat extends Pick<Format, 'toTask' | 'ids'> {
  answer(inputTokens: number): object
}

/** Passes on what an upstream has said in the format itself, under our names for the answer and the model. */
export interface PassthroughWriters {
  whole(identity: Identity, events: readonly AnswerEvent[]): string
  writer(identity: Identity): PassingWriter
}

/** How a failure is told to whoever speaks a format, whether or not their request was read. */
export interface ErrorFormat {
  /** The body of a refusal that has its request's id. */
  error(error: GatewayError): object
  /** The status of a refusal, where that is another one than the failure's own. */
  status?(error: GatewayError): number
  /** Headers of every answer by which its request is known. */
  ids(requestId: string): Record<string, string>
}

export interface Writer {
  /** What says that the stream lives while there is nothing to say: a comment, or an event once there was one. */
  readonly keepAlive: string
  /** Takes a batch of events and returns the frames that may go out now; '' while there is nothing to say. */
  take(events: readonly AnswerEvent[]): string
  /** The last frames, once its outcome is settled. */
  tail(receipt: Receipt): string
  /** The frames that tell a client that its stream was truncated; nothing follows them. `error` has its request's id. */
  failure(error: GatewayError): string
}

/** Writes a stream of which much passes as it came. */
export interface PassingWriter extends Writer {
  /** Takes whole events as they came, of which nothing is to change, and returns what may go out now. */
  pass(frames: string): string
}

/** A comment, which every reader of server-sent events passes over. */
export const KEEP_ALIVE = ': keep-alive\n\n'

/** Counts with what they cost, as JSON text: `cost` has no exponent on the wire, which JSON.stringify gives every amount under a millionth. */
export const withCost = (counts: object, costNanoUsd: number): string =>
  `${JSON.stringify({ ...counts, cost_nano_usd: costNanoUsd }).slice(0, -1)},"cost":${toUsd(costNanoUsd)}}`
