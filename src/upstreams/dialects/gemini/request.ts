/** Translates a request for Gemini: refuses what has no counterpart and matters, drops mere hints. */
import type { UpstreamError } from '../../../domain/error.ts'
import { asList, asObject, asText } from '../../../domain/json.ts'
import type { Effort, RouteSettings } from '../../../domain/models.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { Target } from '../../../domain/snapshot.ts'
import type { WireRequest } from '../dialect.ts'
import { isSinceGemini3 } from '../dialects.ts'
import { unsupportedField, unsupportedValue } from '../errors.ts'
import { EFFORT_TOKENS, type ReasoningRequest, toNearestEffort, toReasoningRequest } from '../reasoning.ts'
import { toReasoningIssuer } from '../reasoning-state.ts'
import { toConversation, toPart } from './conversation.ts'
import type {
  FunctionDeclaration,
  GenerateContent,
  GenerationConfig,
  ThinkingConfig,
  Tool,
  ToolConfig,
} from './wire.ts'

export function toWireRequest(body: CanonicalRequest, target: Target): WireRequest {
  const unable = findUnable(body, isSinceGemini3(target))
  if (unable) throw unable
  const isVertex = speaksVertex(target.upstream)
  const tier = toTier(body.service_tier)
  return {
    path: toMethodPath(target, body.stream === true),
    body: JSON.stringify({
      ...toGenerateContent(body, target, isVertex),
      ...(tier && !isVertex ? { serviceTier: tier } : {}),
    } satisfies GenerateContent),
    ...(tier && isVertex ? { headers: toTierHeaders(tier) } : {}),
  }
}

export const toMethodPath = ({ upstreamModel }: Target, stream: boolean): string =>
  `/${toResource(upstreamModel)}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`

/** Vertex serves the same format below a publisher's URL. */
export const speaksVertex = ({ baseUrl }: Pick<Target['upstream'], 'baseUrl'>) =>
  baseUrl?.includes('/publishers/') === true

/** A bare name is a model; one with a slash names its resource, such as `tunedModels/x`. */
export function toResource(model: string): string {
  const name = model.includes('/') ? model : `models/${model}`
  return name.split('/').map(encodeURIComponent).join('/')
}

function toGenerateContent(body: CanonicalRequest, target: Target, isVertex: boolean): GenerateContent {
  const safety = asList(body.safety_settings)
  const { cached_content: cached } = body
  const generationConfig = toGenerationConfig(body, target)
  return {
    ...toConversation(body, {
      ids: !isVertex,
      signs: isSinceGemini3(target),
      signer: toReasoningIssuer(target),
    }),
    ...toTools(body, { isSearching: Boolean(body.web_search_options), isVertex }),
    ...(Object.keys(generationConfig).length > 0 ? { generationConfig } : {}),
    ...(safety.length > 0 ? { safetySettings: safety } : {}),
    ...(typeof cached === 'string' && cached !== '' ? { cachedContent: cached } : {}),
  }
}

function toGenerationConfig(body: CanonicalRequest, { features, options }: Target): GenerationConfig {
  const { response_format: format, stop, modalities } = body
  const topK = typeof body.top_k === 'number' ? body.top_k : undefined
  const config: { [Name in keyof GenerationConfig]: GenerationConfig[Name] | null | undefined } = {
    maxOutputTokens: body.max_completion_tokens ?? body.max_tokens,
    ...(options.sampling === false ? {} : { temperature: body.temperature, topP: body.top_p, topK }),
    stopSequences: typeof stop === 'string' ? [stop] : stop,
    seed: toInt32(body.seed),
    // Many models refuse the fields with any value.
    presencePenalty: body.presence_penalty || undefined,
    frequencyPenalty: body.frequency_penalty || undefined,
    candidateCount: (body.n ?? 1) > 1 ? body.n : undefined,
    responseLogprobs: body.logprobs || undefined,
    logprobs: (body.logprobs && body.top_logprobs) || undefined,
    responseMimeType: format && format.type !== 'text' ? 'application/json' : undefined,
    responseJsonSchema: format?.type === 'json_schema' ? format.json_schema.schema : undefined,
    responseModalities: modalities?.map((one) => one.toUpperCase()),
    thinkingConfig: features.includes('reasoning') ? toThinking(body, options) : undefined,
  }
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined && value !== null))
}

/** Gemini's seeds have 32 bits. Equal seeds stay equal. */
const toInt32 = (seed: number | null | undefined) =>
  typeof seed === 'number' ? Number(BigInt.asIntN(32, BigInt(seed))) : undefined

/** Null for the default of the project's settings. */
function toTier(tier: CanonicalRequest['service_tier']): string | null {
  if (tier === 'default') return 'standard'
  return tier === 'flex' || tier === 'priority' ? tier : null
}

/** Vertex's headers for the tier; the standard one is its default. */
const toTierHeaders = (tier: string): Record<string, string> =>
  tier === 'standard' ? {} : { 'x-vertex-ai-llm-request-type': 'shared', 'x-vertex-ai-llm-shared-request-type': tier }

interface Circumstances {
  isSearching: boolean
  /** Vertex doesn't know the field that others need for search together with functions. */
  isVertex: boolean
}

export function toTools(
  body: CanonicalRequest,
  { isSearching, isVertex }: Circumstances,
): Pick<GenerateContent, 'tools' | 'toolConfig'> {
  const functionDeclarations = (body.tools ?? []).flatMap((tool) =>
    tool.type === 'function' ? toDeclaration(tool.function) : [],
  )
  functionDeclarations.push(...(body.functions ?? []).map(toDeclaration))
  const tools: Tool[] = []
  if (functionDeclarations.length > 0) tools.push({ functionDeclarations })
  if (isSearching) tools.push({ googleSearch: {} })
  if (functionDeclarations.length === 0) return tools.length > 0 ? { tools } : {}
  const config = toToolConfig(body)
  const toolConfig = isSearching && !isVertex ? { ...config, includeServerSideToolInvocations: true as const } : config
  return { tools, ...(toolConfig ? { toolConfig } : {}) }
}

interface Described {
  name: string
  description?: string | null
  parameters?: Record<string, unknown> | null
}

function toDeclaration({ name, description, parameters }: Described): FunctionDeclaration {
  return {
    name,
    ...(description ? { description } : {}),
    ...(parameters && takesArguments(parameters) ? { parametersJsonSchema: parameters } : {}),
  }
}

/** Clients write an object without properties for no arguments. */
function takesArguments({ properties, ...rest }: Record<string, unknown>): boolean {
  const isEmpty = Object.keys(asObject(properties) ?? {}).length === 0
  return (
    !isEmpty || Object.keys(rest).some((key) => !['type', 'additionalProperties', '$schema', 'required'].includes(key))
  )
}

type Mode = NonNullable<ToolConfig['functionCallingConfig']>['mode']
const toConfig = (mode: Mode, names: string[] = []): ToolConfig => ({
  functionCallingConfig: { mode, ...(names.length > 0 ? { allowedFunctionNames: names } : {}) },
})

function toToolConfig({ tools, tool_choice: choice, function_call: legacy }: CanonicalRequest): ToolConfig | undefined {
  const wanted = choice ?? legacy
  if (wanted === 'none') return toConfig('NONE')
  if (wanted === 'required') return toConfig('ANY')
  if (!wanted || wanted === 'auto') return tools?.some(isStrict) ? toConfig('VALIDATED') : undefined
  if ('name' in wanted) return toConfig('ANY', [wanted.name])
  if (wanted.type === 'function') return toConfig('ANY', [wanted.function.name])
  if (wanted.type === 'custom') return undefined
  const names = wanted.allowed_tools.tools
    .map((tool) => asText(asObject(tool.function)?.name))
    .filter((name) => name !== '')
  return toConfig(wanted.allowed_tools.mode === 'required' ? 'ANY' : 'VALIDATED', names)
}

/** True if Gemini must use the mode that enforces the schema of arguments. */
const isStrict = (tool: NonNullable<CanonicalRequest['tools']>[number]) =>
  tool.type === 'function' && tool.function.strict === true

/** Reasoning settings: a level or a token budget, since both together are refused (ai.google.dev/gemini-api/docs/thinking). */
/** Supported by every model since Gemini 3. */
const LEVELS: NonNullable<RouteSettings['efforts']> = ['low', 'medium', 'high']
/** Supported by every model with budgets. */
const MIN_BUDGET = EFFORT_TOKENS.minimal
const MAX_BUDGET = EFFORT_TOKENS.high
const BUDGETS: Record<Effort, number> = { ...EFFORT_TOKENS, xhigh: MAX_BUDGET, max: MAX_BUDGET }

export function toThinking(body: CanonicalRequest, options: RouteSettings): ThinkingConfig | undefined {
  if (options.thinking === 'none') return undefined
  const wish = toReasoningRequest(body)
  const isByTokens = options.thinking === 'budget'
  const control = isByTokens ? toBudget(wish, options) : toLevel(wish, options)
  // Without `includeThoughts`, reasoning is billed but not shown. Not set if the client hides reasoning or it is off.
  return { ...(wish.isHidden || control.thinkingBudget === 0 ? {} : { includeThoughts: true }), ...control }
}

function toBudget(
  { isOn, effort, tokens }: ReasoningRequest,
  { thinking_off: canBeOff }: RouteSettings,
): ThinkingConfig {
  if (isOn === false) return { thinkingBudget: canBeOff ? 0 : MIN_BUDGET }
  if (tokens !== null) return { thinkingBudget: Math.min(Math.max(tokens, MIN_BUDGET), MAX_BUDGET) }
  return effort === null ? {} : { thinkingBudget: BUDGETS[effort] }
}

function toLevel({ isOn, effort }: ReasoningRequest, { efforts = LEVELS }: RouteSettings): ThinkingConfig {
  const wanted = isOn === false ? 'none' : effort
  const level = wanted === null ? undefined : toNearestEffort(wanted, efforts)
  return level === undefined ? {} : { thinkingLevel: level }
}

/**
 * The refusal of the first field that can't be sent and matters too much to drop; or null.
 * @param isSince3 true for Gemini 3 and later.
 */
function findUnable(body: CanonicalRequest, isSince3: boolean): UpstreamError | null {
  return findField(body, isSince3) ?? findTool(body) ?? findPart(body)
}

function findField(body: CanonicalRequest, isSince3: boolean): UpstreamError | null {
  if (body.logit_bias && Object.keys(body.logit_bias).length > 0)
    return unsupportedField('logit_bias', 'its API has no equivalent.')
  if (body.audio) return unsupportedField('audio', NOT_SPOKEN)
  if (body.modalities?.includes('audio')) return unsupportedValue('modalities', NOT_SPOKEN)
  if (body.web_search_options && !isSince3 && (body.tools?.length || body.functions?.length))
    return unsupportedField('web_search_options', 'models before Gemini 3 cannot combine search with functions.')
  if (body.moderation) return unsupportedField('moderation', 'its API has no equivalent.')
  return null
}

const NOT_SPOKEN = 'it has no audio output.'
const FUNCTIONS_ONLY = 'only function tools are supported.'

const NAME = /^[A-Za-z_]/

function findTool({ tools, functions, tool_choice: choice }: CanonicalRequest): UpstreamError | null {
  for (const [at, tool] of (tools ?? []).entries()) {
    if (tool.type === 'custom') return unsupportedValue(`tools[${at}].type`, FUNCTIONS_ONLY)
    if (!NAME.test(tool.function.name)) return toBadName(`tools[${at}].function.name`)
  }
  const at = functions?.findIndex(({ name }) => !NAME.test(name)) ?? -1
  if (at >= 0) return toBadName(`functions[${at}].name`)
  const isCustom = typeof choice === 'object' && choice?.type === 'custom'
  return isCustom ? unsupportedValue('tool_choice', FUNCTIONS_ONLY) : null
}

const toBadName = (param: string) =>
  unsupportedValue(param, 'function names must begin with a letter or an underscore.')

function findPart({ messages }: CanonicalRequest): UpstreamError | null {
  for (let index = 0; index < messages.length; index++) {
    const message = messages[index]
    const content = message?.content
    if (typeof content === 'string' || !content) continue
    for (let at = 0; at < content.length; at++) {
      const part = content[at]
      const param = `messages[${index}].content[${at}]`
      if (part?.type === 'text' || part?.type === 'refusal') continue
      if (message?.role === 'tool' && part?.type !== 'image_url')
        return unsupportedValue(param, 'tool results must be text and images.')
      if (toPart(part) === undefined) return unsupportedValue(param, 'this kind of content part is not supported.')
    }
  }
  return null
}
