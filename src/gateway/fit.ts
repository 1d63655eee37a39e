/**
 * Which targets of a model can take a request at all, by its facts and theirs: before anything is reserved, the client
 * learns what it asks of the wrong model, and a target that is weaker than its model is
 * passed over for one that can.
 */
import { allow, type Decision, GatewayError, refuse } from '../domain/error.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Model } from '../domain/settings.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Counter } from '../tokens/count.ts'
import { BYTES_PER_TOKEN } from '../tokens/estimate.ts'
import { isSplit } from './fanout.ts'

export type Facts = Pick<Model, 'id' | 'supported_features' | 'max_output_length'>

/**
 * Keeps the targets that can take the request, or refuses it. Only a prompt whose length is in doubt makes it wait.
 * @param promptTokens as estimated.
 */
export async function fit(
  body: CanonicalRequest,
  facts: Facts,
  targets: readonly Target[],
  promptTokens: number,
  counter: Counter,
): Promise<Decision<readonly Target[]>> {
  const misfit = checkFit(body, facts)
  if (misfit) return refuse(misfit)
  const able: Target[] = []
  let none: GatewayError | null = null
  for (const target of targets) {
    const unable = checkTarget(body, facts, target)
    if (unable === null) able.push(target)
    else none ??= unable
  }
  if (able.length === 0 && none) return refuse(none)
  if (able.every(({ contextLength }) => !mayOverflow(promptTokens, contextLength))) return allow(able)
  const counted = await counter.prompt(body)
  if (counted === null) return allow(able)
  const fitting = able.filter(({ contextLength }) => !overflows(counted, contextLength))
  if (fitting.length > 0) return allow(fitting)
  return refuse(contextOverflow(Math.max(...able.map(({ contextLength }) => contextLength)), counted))
}

function checkTarget(body: CanonicalRequest, facts: Facts, target: Target): GatewayError | null {
  const isNarrower =
    target.maxOutputLength < facts.max_output_length || target.features.length < facts.supported_features.length
  return (isNarrower ? checkFit(body, factsOf(target)) : null) ?? checkCalls(body, target)
}

/** As many calls as there are choices, where its upstream may not be asked so often in a minute, would never all be made. */
function checkCalls(body: CanonicalRequest, target: Target): GatewayError | null {
  const { id, limits } = target.upstream
  const most = limits.requestsPerMinute
  if (most === null || (body.n ?? 1) <= most || !isSplit(body, target)) return null
  const why = `each choice is a call of its own, and its upstream \`${id}\` takes ${most} a minute`
  return new GatewayError('invalid_request', `'n' is too large for the model \`${target.model}\`: ${why}.`, {
    param: 'n',
  })
}

const factsOf = ({ model, features, maxOutputLength }: Target): Facts => ({
  id: model,
  supported_features: [...features],
  max_output_length: maxOutputLength,
})

/** Returns the refusal of what the model cannot do, or null. Tool messages of earlier turns are text to any model. */
export function checkFit(body: CanonicalRequest, facts: Facts): GatewayError | null {
  return checkTools(body, facts) ?? checkCap(body, facts)
}

function checkTools(body: CanonicalRequest, { id, supported_features: features }: Facts): GatewayError | null {
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

function checkCap(body: CanonicalRequest, { max_output_length: most }: Facts): GatewayError | null {
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

/** A model's own tokenizer may count less than ours by this factor: what is closer is left to its upstream. */
const TOLERANCE = 1.25

/** Whether there is any doubt, by what the prompt was estimated at. */
export const mayOverflow = (promptTokens: number, contextLength: number) =>
  promptTokens * BYTES_PER_TOKEN > contextLength

/** Whether a prompt of so many tokens, counted by us, certainly does not fit. */
export const overflows = (counted: number, contextLength: number) => counted > contextLength * TOLERANCE
