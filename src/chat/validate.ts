/**
 * Checks a chat request before anything is dispatched: fields by the schema, with the contract's sentence, code and
 * `param` for the first one that is wrong (section 5). The compiled checker decides; the slow explanation runs only for
 * a request that is refused anyway. Rules across messages go here.
 */
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import { allow, type Decision, GatewayError, refuse } from '../error.ts'
import { explain } from '../wire/explain.ts'
import { type ChatRequest, ChatRequestSchema } from '../wire/request.ts'

/** Compiled on first need: that takes as long as the rest of a start. */
let checker: TypeCheck<typeof ChatRequestSchema> | null = null

export function validate(body: unknown): Decision<ChatRequest> {
  checker ??= TypeCompiler.Compile(ChatRequestSchema)
  if (!checker.Check(body)) return refuse(toRefusal(body))
  const clash = checkAcross(body)
  return clash ? refuse(clash) : allow(body)
}

function toRefusal(body: unknown): GatewayError {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return new GatewayError(
      'invalid_request',
      'We could not parse the JSON body of your request: the API expects one JSON object, such as {"model": …, "messages": […]}.',
    )
  }
  if (!('model' in body) || body.model === null || body.model === '') {
    return new GatewayError('invalid_request', 'you must provide a model parameter')
  }
  const [problem] = explain(ChatRequestSchema, body)
  if (!problem) return new GatewayError('invalid_request', 'This request is not a chat completion request.')
  return new GatewayError('invalid_request', problem.message, { code: problem.code, param: problem.path })
}

function checkAcross(body: ChatRequest): GatewayError | null {
  if (isSet(body.max_tokens) && isSet(body.max_completion_tokens)) {
    return new GatewayError(
      'invalid_request',
      "Invalid combination: 'max_tokens' and 'max_completion_tokens' mean the same; send one of them.",
      { code: 'invalid_parameter_combination', param: 'max_tokens' },
    )
  }
  if (isSet(body.stream_options) && body.stream !== true) {
    return new GatewayError(
      'invalid_request',
      "The 'stream_options' parameter is only allowed when 'stream' is true.",
      {
        code: 'invalid_value',
        param: 'stream_options',
      },
    )
  }
  return null
}

const isSet = (value: unknown) => value !== undefined && value !== null
