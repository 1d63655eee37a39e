/** Contract of a client format: request body to task, events to response. */
import type { Decision, GatewayError } from '../domain/error.ts'
import type { AnswerEvent } from '../domain/events.ts'
import type { RawRequest, Task } from '../domain/task.ts'
import { type Receipt, toUsd } from '../domain/usage.ts'

export interface Identity {
  /** The request ID: 32 hex digits. */
  id: string
  /** Unix seconds. */
  created: number
  /** The resolved model ID. */
  model: string
}

export interface Format extends ErrorFormat {
  toTask(body: unknown, raw: RawRequest): Decision<Task>
  /** Bodies that aren't JSON, such as multipart forms. If missing, only JSON is accepted. */
  readonly form?: FormBody
  /** Writes a whole response; a long one in pieces, between which the event loop runs. */
  whole(task: Task, identity: Identity, events: readonly AnswerEvent[], receipt: Receipt): string | Iterable<string>
  writer(task: Task, identity: Identity): Writer
  /** Content type of a whole response; default JSON. */
  type?(task: Task): string
  /** Additional headers of a whole response. */
  notes?(task: Task, events: readonly AnswerEvent[]): Record<string, string>
  /** Writers for passthrough responses; missing if the format has none. */
  readonly passthrough?: PassthroughWriters
}

/** Runs work that blocks the event loop for some ms when it is the key's turn. */
export type InTurn = <T>(work: () => T) => Promise<T>

export interface FormBody {
  /** @param contentType such as `multipart/form-data; boundary=…`. */
  accepts(contentType: string): boolean
  /** True if JSON bodies are refused. */
  readonly isOnly?: true
  /** Largest body, bytes; default 32 MiB. */
  readonly maxBytes?: number
  /** Throws nothing. `bytes` is the whole body, kept for the request. */
  toTask(bytes: Uint8Array, headers: RawRequest['headers'], inTurn: InTurn): Decision<Task> | Promise<Decision<Task>>
}

export interface CountingFormat extends Pick<Format, 'toTask' | 'ids'> {
  answer(inputTokens: number): object
}

/** Forwards responses in the upstream's own format, with our ID and model name. */
export interface PassthroughWriters {
  whole(identity: Identity, events: readonly AnswerEvent[]): string
  writer(identity: Identity): PassthroughStreamWriter
}

export interface ErrorFormat {
  error(error: GatewayError): object
  /** HTTP status, if it differs from the error's own. */
  status?(error: GatewayError): number
  ids(requestId: string): Record<string, string>
}

export interface Writer {
  /**
   * Sent while the stream is idle: a comment, or an event after the first one. Null if the format allows none: the response then begins with
   * its first content, and earlier failures get a real status.
   */
  readonly keepAlive: string | null
  /** Headers, if they differ from those of an event stream. @param contentType see `Answer`. */
  headers?(contentType: string | undefined): Record<string, string>
  /** Takes a batch of events and returns the frames to send; '' for none. */
  take(events: readonly AnswerEvent[]): Frames
  /** The last frames, once the outcome is settled. */
  tail(receipt: Receipt): Frames
  /** The final frames of a truncated stream; null breaks the connection. `error` has the request ID. */
  failure(error: GatewayError): string | null
}

export interface PassthroughStreamWriter extends Writer {
  /** Takes whole unmodified events and returns what to send. */
  pass(frames: string): string
}

/** A list is written piece by piece, between which the event loop runs. Its bytes are then freed. */
export type Frames = Piece | Piece[]
export type Piece = string | Uint8Array

/** A comment, which SSE clients ignore. */
export const KEEP_ALIVE = ': keep-alive\n\n'

/** `cost` must have no exponent, which JSON.stringify uses below a millionth. */
export const withCost = (counts: object, costNanoUsd: number): string =>
  `${JSON.stringify({ ...counts, cost_nano_usd: costNanoUsd }).slice(0, -1)},"cost":${toUsd(costNanoUsd)}}`
