/** Validates generateContent requests and makes them canonical. */
import { type Decision, GatewayError } from '../../domain/error.ts'
import { explain } from '../../domain/explain.ts'
import { asObject, type JsonObject } from '../../domain/json.ts'
import { EFFORTS } from '../../domain/models.ts'
import type { CanonicalRequest, ToolChoice } from '../../domain/request.ts'
import { UNREQUESTED_REASONING } from '../../domain/task.ts'
import { createBodyCheck, withoutNulls } from '../checked-body.ts'
import { geminiChecker } from '../checker.macro.ts' with { type: 'macro' }
import { checkSchema, checkStrict, createPatternRule } from '../json-schema.ts'
import { toMessages } from './contents.ts'
import { invalid } from './errors.ts'
import { toJsonSchema } from './json-schema.ts'
import { withCamelNames } from './names.ts'
import type { GeminiBody, GenerationConfig } from './schema.ts'

const checkBody = createBodyCheck<GeminiBody>(geminiChecker(), toRefusal)

export function validate(body: unknown): Decision<GeminiBody> {
  const named = withCamelNames(body)
  return named instanceof GatewayError ? named : checkBody(named)
}

function toRefusal(body: unknown): GatewayError {
  if (asObject(body) === null) return new GatewayError('invalid_request', 'The request body must be a JSON object.')
  // Loaded only here, because creating the schema takes a tenth of startup.
  const { GeminiSchema } = require('./schema.ts') as typeof import('./schema.ts')
  const [problem] = explain(GeminiSchema, body)
  return problem ? invalid(problem.path, problem.message) : invalid('contents', 'Invalid request.')
}

/**
 * The refusal of the first feature that only Gemini upstreams support, or null.
 * @param body with all tools; the schema keeps only functions.
 */
export function findUntranslatable(body: GeminiBody): GatewayError | null {
  for (const [at, tool] of (body.tools ?? []).entries())
    for (const [name, value] of Object.entries(tool))
      if (name !== 'functionDeclarations' && value !== null) return onlyOfGemini(`tools[${at}].${name}`)
  const { responseMimeType: type, responseModalities: modalities } = body.generationConfig ?? {}
  if (modalities?.some((one) => one.toUpperCase() === 'AUDIO'))
    return onlyOfGemini('generationConfig.responseModalities')
  if (type && type !== 'application/json' && type !== 'text/plain')
    return onlyOfGemini('generationConfig.responseMimeType')
  return null
}

const isSearch = (tool: object) => 'googleSearch' in tool && tool.googleSearch !== null

const onlyOfGemini = (param: string) =>
  new GatewayError(
    'invalid_request',
    `Unsupported parameter: '${param.slice(0, 200)}' is only supported by upstreams with Gemini's own API that pass requests through.`,
    { code: 'unsupported_parameter', param: param.slice(0, 200) },
  )

export function toCanonical(model: string, stream: boolean, body: GeminiBody): Decision<CanonicalRequest> {
  const messages = toMessages(body)
  if (messages instanceof GatewayError) return messages
  const config = body.generationConfig ?? {}
  const format = toFormat(config)
  if (format instanceof GatewayError) return format
  const { safetySettings, cachedContent, serviceTier } = body
  const tier = toTier(serviceTier)
  return {
    model,
    messages,
    ...toTools(body),
    // Such requests are only passed through. This field makes the budget reserve the cost of searches.
    ...(body.tools?.some(isSearch) ? { web_search_options: {} } : {}),
    ...toSettings(config),
    ...toThinking(config.thinkingConfig),
    ...(format ? { response_format: format } : {}),
    ...(safetySettings && safetySettings.length > 0 ? { safety_settings: safetySettings } : {}),
    ...(cachedContent ? { cached_content: cachedContent } : {}),
    ...(tier ? { service_tier: tier } : {}),
    ...(stream ? { stream: true } : {}),
  }
}

function toSettings(config: GenerationConfig): Partial<CanonicalRequest> {
  const { stopSequences: stops, responseModalities: modalities, responseLogprobs: logprobs } = config
  const images = modalities?.some((one) => one.toUpperCase() === 'IMAGE')
  return {
    ...withoutNulls({
      max_tokens: config.maxOutputTokens,
      temperature: config.temperature,
      top_p: config.topP,
      top_k: config.topK,
      n: config.candidateCount,
      seed: config.seed,
      presence_penalty: config.presencePenalty,
      frequency_penalty: config.frequencyPenalty,
    }),
    ...(stops && stops.length > 0 ? { stop: stops } : {}),
    ...(logprobs ? { logprobs, ...withoutNulls({ top_logprobs: config.logprobs }) } : {}),
    ...(images ? { modalities: ['text', 'image'] } : {}),
  }
}

const TIERS: Readonly<Record<string, CanonicalRequest['service_tier']>> = {
  ...{ standard: 'default', flex: 'flex', priority: 'priority' },
}

const toTier = (tier: string | null | undefined) => TIERS[(tier ?? '').toLowerCase().replace(/^service_tier_/, '')]

/** Thoughts are shown only if the client asks for them, as at Google. */
function toThinking(config: GenerationConfig['thinkingConfig']): object {
  const { includeThoughts, thinkingBudget: tokens, thinkingLevel } = config ?? {}
  const effort = EFFORTS.find((one) => one === thinkingLevel?.toLowerCase())
  return {
    ...(includeThoughts ? {} : { [UNREQUESTED_REASONING]: true }),
    ...(effort ? { reasoning_effort: effort } : {}),
    ...(effort === undefined && tokens === 0 ? { thinking: { type: 'disabled' } } : {}),
    ...(effort === undefined && (tokens ?? 0) > 0 ? { reasoning: { max_tokens: tokens } } : {}),
    ...(effort === undefined && tokens == null && includeThoughts ? { reasoning: { enabled: true } } : {}),
  }
}

function toFormat(config: GenerationConfig): Decision<CanonicalRequest['response_format'] | null> {
  const { responseMimeType: type, responseJsonSchema, responseSchema } = config
  if (type !== 'application/json') return null
  const schema = responseJsonSchema ?? (responseSchema ? toJsonSchema(responseSchema) : null)
  if (!schema) return { type: 'json_object' }
  // The gateway itself may validate with it, so patterns must work here.
  const problem = checkSchema(schema, createPatternRule())
  const path = responseJsonSchema ? 'generationConfig.responseJsonSchema' : 'generationConfig.responseSchema'
  if (problem) return invalid(path, `${problem.path.join('.').slice(0, 500)}: ${problem.reason}`)
  return {
    type: 'json_schema',
    json_schema: { name: 'answer', schema, ...(checkStrict(schema) === null ? { strict: true } : {}) },
  }
}

type Declaration = NonNullable<NonNullable<GeminiBody['tools']>[number]['functionDeclarations']>[number]

function toTools({ tools, toolConfig }: GeminiBody): Partial<CanonicalRequest> {
  const functions = (tools ?? []).flatMap(({ functionDeclarations }) => functionDeclarations ?? []).map(toFunction)
  if (functions.length === 0) return {}
  const { mode, allowedFunctionNames: names } = toolConfig?.functionCallingConfig ?? {}
  const choice = toChoice((mode ?? '').toUpperCase(), names ?? [])
  return { tools: functions, ...(choice ? { tool_choice: choice } : {}) }
}

function toFunction({ name, description, parameters, parametersJsonSchema }: Declaration) {
  const schema: JsonObject | null = parametersJsonSchema ?? (parameters ? toJsonSchema(parameters) : null)
  return {
    type: 'function' as const,
    function: { name, ...(description ? { description } : {}), ...(schema ? { parameters: schema } : {}) },
  }
}

function toChoice(mode: string, names: readonly string[]): ToolChoice | null {
  if (mode === 'NONE') return 'none'
  const isRequired = mode === 'ANY'
  const [name] = names
  if (name === undefined) return isRequired ? 'required' : mode === 'AUTO' ? 'auto' : null
  if (isRequired && names.length === 1) return { type: 'function', function: { name } }
  const tools = names.map((each) => ({ type: 'function', function: { name: each } }))
  return { type: 'allowed_tools', allowed_tools: { mode: isRequired ? 'required' : 'auto', tools } }
}
