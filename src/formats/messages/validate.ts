/**
 * Holds a body against the schema of requests to `/v1/messages`, or of those that only ask how many tokens they have. The
 * compiled checker decides; why it refuses is found out for a request that is refused anyway.
 */
import { type Decision, GatewayError } from '../../domain/error.ts'
import { asObject } from '../../domain/json.ts'
import { explain } from '../../validation/explain.ts'
import { toCountChecker, toMessagesChecker } from './checker.macro.ts' with { type: 'macro' }
import type { CountBody, MessagesBody } from './schema.ts'

type Checker<Body> = (body: unknown) => body is Body

// Made of code that was written at build time: to compile a schema takes as long as the rest of a first answer.
let isMessages: Checker<MessagesBody> | null = null
let isCount: Checker<CountBody> | null = null

export function validateMessages(body: unknown): Decision<MessagesBody> {
  const refused = checkThread(body) ?? checkCompaction(body)
  if (refused) return refused
  isMessages ??= new Function(toMessagesChecker())() as Checker<MessagesBody>
  return isMessages(body) ? body : toRefusal(body, 'MessagesSchema')
}

/** Anthropic's API counts a request with `compaction` as if it had none. */
export function validateCount(body: unknown): Decision<CountBody> {
  const refused = checkThread(body)
  if (refused) return refused
  isCount ??= new Function(toCountChecker())() as Checker<CountBody>
  return isCount(body) ? body : toRefusal(body, 'CountSchema')
}

/**
 * Refuses a conversation that the provider would keep: all keys are one account there, and a turn without its history would be
 * answered as if there were none. With these details, Anthropic's client libraries send the whole conversation instead
 * (`thread_unsupported_request`). It comes before the schema, because a turn that goes on with a thread may have no messages.
 */
function checkThread(body: unknown): GatewayError | null {
  if ((asObject(body)?.thread ?? null) === null) return null
  return new GatewayError(
    'invalid_request',
    "thread: Message threads are not supported: Tollgate keeps no conversations. Send the whole conversation without 'thread'.",
    { param: 'thread', details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] } },
  )
}

/** An ordinary answer would be taken for the summary. */
function checkCompaction(body: unknown): GatewayError | null {
  if ((asObject(body)?.compaction ?? null) === null) return null
  return invalid(
    'compaction',
    "Compaction requests are not supported. Ask for a summary in an ordinary message, without 'compaction'.",
  )
}

/** @param path dotted path of the field at fault, as Anthropic's API writes it. */
export const invalid = (path: string, message: string) =>
  new GatewayError('invalid_request', `${path}: ${message}`, { param: path })

function toRefusal(body: unknown, of: 'MessagesSchema' | 'CountSchema'): GatewayError {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    return new GatewayError('invalid_request', 'The body of a request has to be one JSON object.')
  // Only here, because to make the schema takes a tenth of a start.
  const schemas = require('./schema.ts') as typeof import('./schema.ts')
  const [problem] = explain(schemas[of], body)
  if (!problem) return new GatewayError('invalid_request', 'This is not a request for a message.')
  const path = problem.segments.length <= MOST_SEGMENTS ? problem.path.replace(/\[(\d+)\]/g, '.$1') : problem.path
  return invalid(path, problem.message)
}

const MOST_SEGMENTS = 16
