/**
 * Checks a chat request before anything is dispatched: its fields by the schema, then the rules across fields, messages
 * and JSON Schemas; the first one that is broken answers, with the sentence, code and `param` that OpenAI's API has for it.
 * The compiled checker decides; the slow explanation runs only for a request that is refused anyway.
 */
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import { allow, type Decision, GatewayError, refuse } from '../../domain/error.ts'
import type { CanonicalRequest } from '../../domain/request.ts'
import { explain } from '../../validation/explain.ts'
import { checkConversation } from './conversation.ts'
import { checkParameters } from './parameters.ts'
import { ChatRequestSchema } from './request.ts'
import { checkSchemas } from './schemas.ts'
import { stripNulls } from './strip-nulls.ts'

/** Compiled on first need: that takes as long as the rest of a start. */
let checker: TypeCheck<typeof ChatRequestSchema> | null = null

/** Returns the request without what counts as absent, or its refusal. */
export function validate(body: unknown): Decision<CanonicalRequest> {
  checker ??= TypeCompiler.Compile(ChatRequestSchema)
  if (!checker.Check(body)) return refuse(toRefusal(body))
  const request = stripNulls(body)
  const broken = checkParameters(request) ?? checkConversation(request.messages) ?? checkSchemas(request)
  return broken ? refuse(broken) : allow(request)
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
