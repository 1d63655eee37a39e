/** What a request asks: its body, read and parsed once, and the task that a format makes of it. `handle.ts` and `count-tokens.ts` ask. */
import { type Decision, GatewayError } from '../domain/error.ts'
import type { Key } from '../domain/snapshot.ts'
import type { Task } from '../domain/task.ts'
import type { Format } from '../formats/format.ts'
import type { EnteredRequest } from '../limits/limiter.ts'
import type { Pace } from '../threads/pace.ts'
import { type BodyText, checkHeaders, clientGone, parseBody, type RequestHeaders, readBody } from './body.ts'
import type { Place } from './intake.ts'
import type { Uploads } from './uploads.ts'

export interface ReadDeps {
  uploads: Uploads
  /** Where requests that take long to read wait for their turns. */
  pace: Pace
}

/** A request that is about to be read. */
export interface UnreadRequest {
  request: Request
  /** Its headers as Elysia has read them already: reading them again would cost as much. */
  headers: RequestHeaders
  /** Lifts the connection's idle limit: a client that has proved its key may wait for its answer. */
  liftIdleLimit(): void
}

/** What let it in. */
export interface Entry {
  key: Key
  entered: EnteredRequest
  place: Pick<Place, 'take'>
}

export interface ReadTask {
  task: Task
  /** Of the body, in UTF-16 units. */
  chars: number
  /** Whether it took long to read: what it is made into waits for its turns, too. */
  isLong: boolean
}

export async function readTask(
  deps: ReadDeps,
  format: Pick<Format, 'toTask'>,
  unread: UnreadRequest,
  { key, entered, place }: Entry,
): Promise<Decision<ReadTask>> {
  const { request, headers } = unread
  const wrong = checkHeaders(headers)
  if (wrong) {
    entered.cancel()
    return wrong
  }
  const read = await readBody(request, headers, place, deps.uploads)
  if (read instanceof GatewayError) return read
  unread.liftIdleLimit()
  const { isLong } = read
  const task = isLong
    ? await toTaskInTurn(deps.pace, key, format, unread, read)
    : toTask(format, parseBody(read), headers, read)
  return task instanceof GatewayError ? task : { task, chars: read.text.length, isLong }
}

const toTask = (
  format: Pick<Format, 'toTask'>,
  json: unknown,
  headers: RequestHeaders,
  { text }: BodyText,
): Decision<Task> => (json instanceof GatewayError ? json : format.toTask(json, { text, headers }))

/** The same, in two steps between which others come to theirs. */
async function toTaskInTurn(
  pace: Pace,
  { shareId }: Key,
  format: Pick<Format, 'toTask'>,
  { request: { signal }, headers }: UnreadRequest,
  read: BodyText,
): Promise<Decision<Task>> {
  const json = await pace.run(shareId, () => (signal.aborted ? clientGone() : parseBody(read)))
  return json instanceof GatewayError ? json : pace.run(shareId, () => toTask(format, json, headers, read))
}
