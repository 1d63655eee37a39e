/**
 * Rules across the fields of a request, those of OpenAI's API: what excludes, needs or names what. Called for
 * requests whose fields are each right, and from which nulls and empty lists of tools are gone already.
 */
import { GatewayError } from '../../domain/error.ts'
import type { CanonicalRequest, ToolChoice } from '../../domain/request.ts'
import { quote } from '../../validation/explain-words.ts'

/** Returns the first rule that the request breaks, or null. */
export function checkParameters(body: CanonicalRequest): GatewayError | null {
  return (
    checkCaps(body) ??
    checkFunctionCall(body) ??
    checkToolFields(body) ??
    checkLogprobs(body) ??
    checkStreamOptions(body) ??
    checkAudio(body)
  )
}

function checkCaps({ max_tokens: cap, max_completion_tokens: sameCap }: CanonicalRequest): GatewayError | null {
  if (cap === undefined || sameCap === undefined) return null
  return invalid("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.", 'max_tokens', {
    code: 'invalid_parameter_combination',
  })
}

function checkFunctionCall({ functions, function_call: call }: CanonicalRequest): GatewayError | null {
  if (!call) return null
  if (!functions) return onlyWith('function_call', 'functions')
  if (typeof call === 'string' || functions.some(({ name }) => name === call.name)) return null
  return invalid(
    `Invalid value for 'function_call': no function named ${quote(call.name)} was specified in the 'functions' parameter.`,
    'function_call',
  )
}

function checkToolFields({ tools, tool_choice: choice, parallel_tool_calls: parallel }: CanonicalRequest) {
  if (!tools) {
    if (choice !== undefined) return onlyWith('tool_choice', 'tools')
    return parallel === undefined ? null : onlyWith('parallel_tool_calls', 'tools')
  }
  return choice ? checkToolChoice(choice, tools) : null
}

function checkToolChoice(choice: ToolChoice, tools: NonNullable<CanonicalRequest['tools']>): GatewayError | null {
  if (typeof choice === 'string') return null
  const known = new Set(tools.map((tool) => JSON.stringify([tool.type, toolNameOf(tool)])))
  const chosen = choice.type === 'allowed_tools' ? choice.allowed_tools.tools : [choice]
  for (const [index, tool] of chosen.entries()) {
    const name = toolNameOf(tool)
    if (typeof name !== 'string') return missingName(tool, index)
    if (known.has(JSON.stringify([tool.type, name]))) continue
    return invalid(`Tool choice ${quote(name)} not found in 'tools' parameter.`, 'tool_choice')
  }
  return null
}

/** Reads `{type: 'function', function: {name}}`; allowed tools may be anything. */
function toolNameOf(tool: Record<string, unknown>): unknown {
  const named = tool.type === 'custom' ? tool.custom : tool.function
  return typeof named === 'object' && named !== null && 'name' in named ? named.name : undefined
}

function missingName(tool: Record<string, unknown>, index: number): GatewayError {
  const param = `tool_choice.allowed_tools.tools[${index}].${tool.type === 'custom' ? 'custom' : 'function'}.name`
  return invalid(`Missing required parameter: '${param}'.`, param, { code: 'missing_required_parameter' })
}

function checkLogprobs({ logprobs, top_logprobs: top }: CanonicalRequest): GatewayError | null {
  if (top === undefined || logprobs === true) return null
  return invalid("The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.", 'top_logprobs')
}

function checkStreamOptions({ stream, stream_options: options }: CanonicalRequest): GatewayError | null {
  if (options === undefined || stream === true) return null
  return invalid("The 'stream_options' parameter is only allowed when 'stream' is enabled.", 'stream_options')
}

function checkAudio({ audio, modalities }: CanonicalRequest): GatewayError | null {
  const speaks = modalities?.includes('audio') === true
  if (speaks === (audio !== undefined)) return null
  if (speaks) return invalid("Missing required parameter: 'audio'.", 'audio', { code: 'missing_required_parameter' })
  return invalid("Invalid value for 'audio': 'audio' is only allowed when 'modalities' includes 'audio'.", 'audio')
}

const onlyWith = (param: string, needed: string) =>
  invalid(`Invalid value for '${param}': '${param}' is only allowed when '${needed}' are specified.`, param)

const invalid = (message: string, param: string, { code = null }: { code?: string | null } = {}) =>
  new GatewayError('invalid_request', message, { code, param })
