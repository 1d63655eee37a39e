/** What a client is told where its request is refused. Runs for such a request alone. Pure. */
import { GatewayError } from '../../domain/error.ts'
import { explain } from '../../validation/explain.ts'

/** @param param dotted path of the field at fault. */
export const invalid = (message: string, param: string, code: string | null = null) =>
  new GatewayError('invalid_request', message, { code, param })

/** Refuses a body that the schema does not let through: says what is wrong with it first. */
export function toBodyRefusal(body: unknown): GatewayError {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return new GatewayError(
      'invalid_request',
      'We could not parse the JSON body of your request: the API expects one JSON object, such as {"model": …, "messages": […]}.',
    )
  }
  if (!('model' in body) || body.model === null || body.model === '') {
    return new GatewayError('invalid_request', 'you must provide a model parameter')
  }
  // Only here, because to make the schema takes a tenth of a start.
  const { RequestSchema } = require('../../domain/request.ts') as typeof import('../../domain/request.ts')
  const [problem] = explain(RequestSchema, body)
  if (!problem) return new GatewayError('invalid_request', 'This request is not a chat completion request.')
  return new GatewayError('invalid_request', problem.message, { code: problem.code, param: problem.path })
}
