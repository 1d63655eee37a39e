/**
 * Validates request bodies by a compiled checker (`checker.macro.ts`); the slow explanation, with OpenAI's messages, runs only for refused
 * requests.
 */
import type { TSchema } from '@sinclair/typebox'
import { type Decision, GatewayError } from '../domain/error.ts'
import { explain } from '../domain/explain.ts'
import { isMiswritten, REQUEST_FIELDS, toPlainName } from '../domain/fields.ts'
import type { JsonObject } from '../domain/json.ts'

export function createBodyCheck<Body>(code: string, toRefusal: (body: unknown) => GatewayError) {
  let isBody: ((body: unknown) => body is Body) | null = null
  return (body: unknown): Decision<Body> => {
    isBody ??= new Function(code)() as NonNullable<typeof isBody>
    return isBody(body) ? body : toRefusal(body)
  }
}

/** @param param dotted path of the field at fault. */
export const invalid = (message: string, param: string, code: string | null = null) =>
  new GatewayError('invalid_request', message, { code, param })

/** @param example of a valid body. */
export const notAnObject = (example: string) =>
  new GatewayError(
    'invalid_request',
    `We could not parse the JSON body of your request: the API expects one JSON object, such as ${example}.`,
  )

/** Refuses a missing model, the most frequent omission by OpenAI clients. */
export const checkModel = (body: object): GatewayError | null =>
  'model' in body && body.model !== null && body.model !== undefined && body.model !== ''
    ? null
    : new GatewayError('invalid_request', 'you must provide a model parameter')

/** The first problem of a body, or `otherwise` if none is found. */
export function toSchemaRefusal(schema: TSchema, body: unknown, otherwise: string): GatewayError {
  const [problem] = explain(schema, body)
  if (!problem) return new GatewayError('invalid_request', otherwise)
  return new GatewayError('invalid_request', problem.message, { code: problem.code, param: problem.path })
}

export const withoutNulls = <Fields extends object>(fields: Fields) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined)) as {
    [Name in keyof Fields]?: NonNullable<Fields[Name]>
  }

const MAX_USER_CHARS = 256

/** The end user, for reports. Never forwarded. */
export const toUser = ({ user }: { user?: string | null }): string | null => user?.slice(0, MAX_USER_CHARS) || null

/**
 * Fields to forward, since only the upstream may know them. Excludes fields of chats, and fields read here in any spelling.
 * @param own names of the fields read here.
 */
export function toExtras(body: object, own: readonly string[]): JsonObject {
  const read = new Set(own.map(toPlainName))
  const isForUpstream = (name: string) =>
    !read.has(toPlainName(name)) && !REQUEST_FIELDS.has(name) && !isMiswritten(name)
  return Object.fromEntries(Object.entries(body).filter(([name]) => isForUpstream(name)))
}
