/**
 * Whether a model can take a request at all, judged by its public facts: before anything is reserved, the client learns
 * what it asks of the wrong model (contract, rulings and section 5). Pure; what the prompt measures is `context.ts`'s.
 */
import { GatewayError } from '../error.ts'
import type { Model } from '../wire/model.ts'
import type { ChatRequest } from '../wire/request.ts'

export type Facts = Pick<Model, 'id' | 'supported_features' | 'max_output_length'>

/** Returns the refusal of what the model cannot do, or null. Tool messages of earlier turns are text to any model. */
export function checkFit(body: ChatRequest, facts: Facts): GatewayError | null {
  return checkTools(body, facts) ?? checkCap(body, facts)
}

function checkTools(body: ChatRequest, { id, supported_features: features }: Facts): GatewayError | null {
  const param = body.tools?.length ? 'tools' : body.functions ? 'functions' : null
  if (param === null || features.includes('tools')) return null
  // Even with a tool_choice of `none`: the upstream would be sent them, and left out they would change what it reads.
  return new GatewayError(
    'invalid_request',
    `Unsupported parameter: '${param}' is not supported with the model \`${id}\`.`,
    {
      code: 'unsupported_parameter',
      param,
    },
  )
}

function checkCap(body: ChatRequest, { max_output_length: most }: Facts): GatewayError | null {
  for (const param of ['max_tokens', 'max_completion_tokens'] as const) {
    const cap = body[param]
    if (typeof cap !== 'number' || cap <= most) continue
    return new GatewayError(
      'invalid_request',
      `max_tokens is too large: ${cap}. This model supports at most ${most} completion tokens, whereas you provided ${cap}.`,
      { param },
    )
  }
  return null
}

/** The refusal of a prompt that was counted and found too long. Clients look for these words, and shorten their history. */
export const contextOverflow = (contextLength: number, promptTokens: number) =>
  new GatewayError(
    'invalid_request',
    `This model's maximum context length is ${contextLength} tokens. However, your messages resulted in ${promptTokens} tokens. Please reduce the length of the messages.`,
    { code: 'context_length_exceeded', param: 'messages' },
  )
