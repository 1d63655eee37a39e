/**
 * Checks a request of the Responses API: what it names that nobody keeps here, then its fields by the schema, with the sentences
 * and codes of OpenAI's API. What goes across fields and items is checked where they are translated. Pure.
 */
import { type Decision, GatewayError } from '../../domain/error.ts'
import { asList, asObject, type JsonObject } from '../../domain/json.ts'
import { explain } from '../../validation/explain.ts'
import { toCheckerCode } from './checker.macro.ts' with { type: 'macro' }
import type { ResponsesRequest } from './schema.ts'

/** Made of code that was written at build time: to compile the schema takes as long as the rest of a first answer. */
let isRequest: ((body: unknown) => body is ResponsesRequest) | null = null

/** Of what is kept elsewhere, `checkKept` has the last word. */
export function validate(body: unknown): Decision<ResponsesRequest> {
  const given = asObject(body)
  if (given === null)
    return new GatewayError(
      'invalid_request',
      'We could not parse the JSON body of your request: the API expects one JSON object, such as {"model": …, "input": …}.',
    )
  const request = withTypes(given)
  isRequest ??= new Function(toCheckerCode())() as NonNullable<typeof isRequest>
  return isRequest(request) ? request : (checkKept(request) ?? toRefusal(request))
}

/** Messages may leave out their type. */
function withTypes(body: JsonObject): JsonObject {
  const { input } = body
  if (!Array.isArray(input)) return body
  const isEasy = (item: unknown) => asObject(item)?.role !== undefined && asObject(item)?.type == null
  if (!input.some(isEasy)) return body
  return { ...body, input: input.map((item) => (isEasy(item) ? { ...item, type: 'message' } : item)) }
}

const WHOLE_INPUT = 'Send the whole input instead: this gateway keeps no answers.'

/** Why these fields, where they ask for something, are refused. */
const KEPT: Readonly<Record<string, string>> = {
  previous_response_id: WHOLE_INPUT,
  conversation: WHOLE_INPUT,
  background: 'The answer comes in the response to its request: this gateway keeps no answers. Leave it out.',
  prompt: 'Send its text as instructions and input: this gateway keeps no prompts.',
}

/** Returns the refusal of the first field that names what nobody keeps here, or null: an upstream may, where its `pass` says so. */
export function checkKept(body: JsonObject): GatewayError | null {
  for (const param in KEPT) {
    const value = body[param]
    if (value === undefined || value === null || value === false) continue
    // A wrong type of it is told as one.
    if (param === 'background' && value !== true) continue
    return unsupported(param, KEPT[param] ?? '')
  }
  return null
}

/** Returns the refusal of an item that asks for a summary of the conversation: an ordinary answer would be taken for it. */
export function checkCompaction({ input }: JsonObject): GatewayError | null {
  const at = asList(input).findIndex((item) => asObject(item)?.type === 'compaction_trigger')
  return at === -1 ? null : unsupported(`input[${at}]`, 'Ask for a summary in an ordinary request.')
}

/** @param why what to do instead. */
export const unsupported = (param: string, why: string) =>
  new GatewayError('invalid_request', `Unsupported parameter: '${param}' is not supported here. ${why}`, {
    code: 'unsupported_parameter',
    param,
  })

/** Refuses a body that the schema does not let through: says what is wrong with it first. */
function toRefusal(body: JsonObject): GatewayError {
  if (body.model === undefined || body.model === null || body.model === '')
    return new GatewayError('invalid_request', 'you must provide a model parameter')
  // Only here, because to make the schema takes a tenth of a start.
  const { ResponsesSchema } = require('./schema.ts') as typeof import('./schema.ts')
  const [problem] = explain(ResponsesSchema, body)
  if (!problem) return new GatewayError('invalid_request', 'This request is not one of the Responses API.')
  return new GatewayError('invalid_request', problem.message, { code: problem.code, param: problem.path })
}
