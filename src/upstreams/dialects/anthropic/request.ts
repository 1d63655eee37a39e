/** Translates a chat request to a Messages request. Throws errors of `refuse`. */
import { isPassed, REQUEST_FIELDS } from '../../../domain/fields.ts'
import { asObject, asText } from '../../../domain/json.ts'
import type { Effort } from '../../../domain/models.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { unsupportedField, unsupportedValue } from '../errors.ts'
import { type ReasoningRequest, toNearestEffort, toReasoningRequest } from '../reasoning.ts'
import { toReasoningIssuer } from '../reasoning-state.ts'
import { keepMarks, toCacheControl, toConversation } from './conversation.ts'
import { toStrict } from './schema.ts'
import type { Block, FunctionTool, TextBlock, Turn, WireBody, WireThinking, WireTool, WireToolChoice } from './wire.ts'

/** Default API version; the newer one refuses `temperature`. */
export const VERSION = '2023-06-01'
const NO_SAMPLING = '2026-10-21'
const LATER_SYSTEM = 'mid-conversation-system-'

/** The API refuses longer ones. */
const MAX_USER_CHARS = 256

export function toBody(body: CanonicalRequest, target: Target): WireBody {
  refuse(body)
  const { options } = target.upstream
  const keepsSystem = (options.betas ?? []).some((beta) => beta.startsWith(LATER_SYSTEM))
  const { system, turns } = toConversation(body.messages, { keepsSystem, signer: toReasoningIssuer(target) })
  const holds = target.features.includes('structured_outputs')
  const tools = toTools(body, holds)
  const choice = tools.length === 0 ? undefined : toToolChoice(body)
  const cap = body.max_completion_tokens ?? body.max_tokens ?? toCap({ system, turns, tools }, target)
  const isForced = choice?.type === 'any' || choice?.type === 'tool'
  const thought = toThinking(body, target, { cap, isForced, hasForgotten: hasForgotten(turns) })
  const { thinking, effort } = thought
  if (thinking?.type === 'disabled') for (const turn of turns) turn.content = turn.content.filter(isNoThought)
  const format = holds ? toFormat(body) : null
  const cache = toCacheControl(body)
  const stops = toStops(body)
  const user = options.user ? (body.user ?? body.safety_identifier ?? '') : ''
  const tier = TIERS[body.service_tier ?? '']
  if (thought.mayNotForce && choice) system.push({ type: 'text', text: toInsistence(choice) })
  const sent: WireBody = {
    model: target.upstreamModel,
    max_tokens: cap,
    ...(system.length > 0 ? { system } : {}),
    messages: turns.filter(({ content }) => content.length > 0),
    ...(tools.length > 0 ? { tools } : {}),
    ...(choice ? { tool_choice: thought.mayNotForce ? { type: 'auto' } : choice } : {}),
    ...(thinking ? { thinking } : {}),
    ...(effort || format ? { output_config: { ...(effort ? { effort } : {}), ...(format ? { format } : {}) } } : {}),
    ...(thinking && thinking.type !== 'disabled' ? {} : toSampling(body, target)),
    ...(stops.length > 0 ? { stop_sequences: stops } : {}),
    ...(user !== '' && user.length <= MAX_USER_CHARS ? { metadata: { user_id: user } } : {}),
    ...(tier ? { service_tier: tier } : {}),
    ...(cache ? { cache_control: cache } : {}),
    ...(body.stream ? { stream: true } : {}),
    ...toPassed(body, options.pass),
  }
  keepMarks(sent)
  return sent
}

/** Refuses fields without a counterpart that would change the response; others are dropped. */
function refuse(body: CanonicalRequest): void {
  if (body.logprobs) throw unsupportedField('logprobs', 'the provider returns no log probabilities.')
  if (body.modalities?.some((one) => one !== 'text')) throw unsupportedValue('modalities', 'it only outputs text.')
}

const isNoThought = ({ type }: Turn['content'][number]) => type !== 'thinking' && type !== 'redacted_thinking'

/** True if the client sent the last assistant turn with pending results without its reasoning. */
function hasForgotten(turns: readonly Turn[]): boolean {
  const last = turns.findLast(({ role }) => role === 'assistant')
  const isOpen = last === turns.at(-1) || turns.at(-1)?.content.some(({ type }) => type === 'tool_result') === true
  return last !== undefined && isOpen && (last.content[0] === undefined || isNoThought(last.content[0]))
}

function toFormat({ response_format: format }: CanonicalRequest): { type: 'json_schema'; schema: object } | null {
  if (format?.type !== 'json_schema' || !format.json_schema.schema) return null
  const schema = toStrict(format.json_schema.schema)
  return schema ? { type: 'json_schema', schema } : null
}

/** Most models refuse `temperature` and `top_p` together. */
function toSampling(body: CanonicalRequest, { upstream, options }: Target): Partial<WireBody> {
  if (options.sampling === false || (upstream.options.api_version ?? VERSION) >= NO_SAMPLING) return {}
  const { temperature, top_p, top_k: k } = body
  const top_k = typeof k === 'number' && Number.isSafeInteger(k) && k > 0 ? { top_k: k } : {}
  if (typeof temperature === 'number') return { temperature: Math.min(1, temperature), ...top_k }
  return typeof top_p === 'number' ? { top_p, ...top_k } : top_k
}

const toStops = ({ stop }: CanonicalRequest): string[] =>
  (typeof stop === 'string' ? [stop] : (stop ?? [])).filter((each) => each.trim() !== '')

const TIERS: Readonly<Record<string, 'auto' | 'standard_only'>> = {
  auto: 'auto',
  default: 'standard_only',
  priority: 'auto',
}

const toInsistence = (choice: WireToolChoice) =>
  choice.type === 'tool' ? `You must call the tool ${choice.name}.` : 'You must call one of the tools.'

function toPassed(body: CanonicalRequest, pass: readonly string[]): Record<string, unknown> {
  if (pass.length === 0) return {}
  const isThrough = ([name]: [string, unknown]) => !OURS.has(name) && !REQUEST_FIELDS.has(name) && isPassed(pass, name)
  return Object.fromEntries(Object.entries(body).filter(isThrough))
}

const OURS: ReadonlySet<string> = new Set([
  'reasoning',
  'thinking',
  'top_k',
  'cache_control',
  'system',
  'output_config',
])

type Tool = NonNullable<CanonicalRequest['tools']>[number]
type Named = { name: string; description?: string | null; parameters?: Record<string, unknown> | null }

export function toTools(body: CanonicalRequest, isStrictKnown: boolean): WireTool[] {
  const allowed = toAllowed(body)
  const given = (body.tools ?? []).filter((tool) => allowed === null || allowed.has(nameOf(tool)))
  const tools: WireTool[] = [
    ...given.map((tool) => toTool(tool, isStrictKnown)),
    ...(body.functions ?? []).map((tool) => toFunction(tool)),
  ]
  const search = body.web_search_options
  if (!search) return tools
  const near = search.user_location?.approximate
  const user_location = near && { type: 'approximate' as const, ...withoutNulls(near) }
  tools.push({ type: 'web_search_20250305', name: 'web_search', ...(user_location ? { user_location } : {}) })
  return tools
}

const withoutNulls = (place: Record<string, string | null>): Record<string, string> =>
  Object.fromEntries(Object.entries(place).filter((field): field is [string, string] => field[1] !== null))

function toTool(tool: Tool, isStrictKnown: boolean): WireTool {
  const cache = toCacheControl(tool) ?? toCacheControl(tool.type === 'custom' ? tool.custom : tool.function)
  const made = tool.type === 'custom' ? toCustom(tool.custom) : toFunction(tool.function, isStrictKnown)
  return cache ? { ...made, cache_control: cache } : made
}

function toFunction(
  { name, description, parameters, strict }: Named & { strict?: boolean | null },
  isStrictKnown = false,
): FunctionTool {
  const held = strict === true && isStrictKnown && parameters ? toStrict(parameters) : null
  const input_schema = { ...(held ?? { properties: {}, ...parameters }), type: 'object' as const }
  return { ...toNamed(name, description), input_schema, ...(held ? { strict: true } : {}) }
}

/** A custom tool becomes a function with one string. */
function toCustom({ name, description, format }: Extract<Tool, { type: 'custom' }>['custom']): FunctionTool {
  const grammar = format?.type === 'grammar' ? format.grammar : null
  const rule = grammar ? `The input must match this ${grammar.syntax} grammar:\n${grammar.definition}` : ''
  const words = [description ?? '', rule].filter((each) => each !== '').join('\n\n')
  const input_schema = { type: 'object' as const, properties: { input: { type: 'string' } }, required: ['input'] }
  return { ...toNamed(name, words), input_schema }
}

const toNamed = (name: string, description: string | null | undefined) =>
  description ? { name, description } : { name }

const nameOf = (tool: Tool) => (tool.type === 'custom' ? tool.custom.name : tool.function.name)

function toAllowed({ tool_choice: choice }: CanonicalRequest): ReadonlySet<string> | null {
  if (typeof choice !== 'object' || choice?.type !== 'allowed_tools') return null
  return new Set(
    choice.allowed_tools.tools.map((tool) => asText((asObject(tool.function) ?? asObject(tool.custom) ?? tool).name)),
  )
}

export function toToolChoice(body: CanonicalRequest): WireToolChoice | undefined {
  const chosen = choose(body)
  // Legacy functions are called one at a time.
  const isSingle = body.parallel_tool_calls === false || (body.functions ?? null) !== null
  if (!isSingle || chosen?.type === 'none') return chosen
  return { ...(chosen ?? { type: 'auto' }), disable_parallel_tool_use: true }
}

function choose({ tool_choice: choice, function_call: call }: CanonicalRequest): WireToolChoice | undefined {
  const asked = choice ?? call
  if (asked === 'none' || asked === 'auto') return { type: asked }
  if (asked === 'required') return { type: 'any' }
  if (!asked) return undefined
  if (!('type' in asked)) return { type: 'tool', name: asked.name }
  if (asked.type === 'allowed_tools') return { type: asked.allowed_tools.mode === 'required' ? 'any' : 'auto' }
  return { type: 'tool', name: asked.type === 'custom' ? asked.custom.name : asked.function.name }
}

/** Reasoning settings by the client's request and the route. "Off" is sent explicitly, since some models reason by default. */
export interface Thinking {
  thinking?: WireThinking
  effort?: Effort
  /** Set if a tool call was required, which a model that always reasons can't be forced to. */
  mayNotForce?: true
}

export interface Circumstances {
  cap: number
  isForced: boolean
  /** True if the last assistant turn called tools and the client sent it without its reasoning. */
  hasForgotten: boolean
}

const MIN_BUDGET = 1_024
/** Share of the cap for reasoning, as in `@ai-sdk/provider-utils`. */
const SHARES: Record<Effort, number> = { minimal: 0.02, low: 0.1, medium: 0.3, high: 0.6, xhigh: 0.9, max: 0.9 }
/** Every model with efforts supports these. */
const USUAL_EFFORTS: readonly Effort[] = ['low', 'medium', 'high', 'max']

export function toThinking(body: CanonicalRequest, { options, features }: Target, around: Circumstances): Thinking {
  const wish = toReasoningRequest(body)
  const kind = options.thinking ?? (features.includes('reasoning') ? 'adaptive' : 'none')
  if (kind === 'none') return {}
  const canStop = options.thinking_off !== false
  const isUnasked = options.thinking_unasked !== false
  const adaptive = kind === 'adaptive' && wish.isOn !== null ? toAdaptive(wish, options.efforts ?? USUAL_EFFORTS) : null
  if (around.isForced) {
    if (canStop && (wish.isOn !== null || options.thinking_off)) return { thinking: { type: 'disabled' } }
    return canStop || !isUnasked ? {} : { ...adaptive, mayNotForce: true }
  }
  if (wish.isOn === null) return {}
  if (!wish.isOn && canStop) return { thinking: { type: 'disabled' } }
  if (!wish.isOn && !isUnasked) return {}
  if (adaptive) return adaptive
  // With a budget, an assistant turn has to begin with its thinking (else 400).
  if (around.hasForgotten || around.cap <= MIN_BUDGET) return {}
  const asked = wish.tokens ?? around.cap * SHARES[wish.effort ?? 'medium']
  const budget = Math.min(Math.max(MIN_BUDGET, Math.floor(asked)), around.cap - 1)
  return { thinking: { type: 'enabled', budget_tokens: budget } }
}

function toAdaptive({ isOn, effort, isHidden }: ReasoningRequest, efforts: readonly Effort[]): Thinking {
  const thinking: WireThinking = { type: 'adaptive', display: isHidden ? 'omitted' : 'summarized' }
  const wanted = isOn ? effort : 'none'
  const nearest = wanted === null ? undefined : toNearestEffort(wanted, efforts)
  return nearest === undefined ? { thinking } : { thinking, effort: nearest }
}

/**
 * The required output cap, if the client sets none: the model's maximum within the remaining context, since models before Claude 4.5 refuse
 * a larger sum.
 */
/** Minimum UTF-8 bytes per token, so that the estimate is too high rather than too low. */
const BYTES_PER_TOKEN = 3
/** Approximately the tokens of the largest image. */
const IMAGE_TOKENS = 1_600
/** Minimum even for long prompts: the estimate may be wrong, and the API's own error is better. */
const MIN_CAP = 4_096

interface Prompt {
  system: readonly TextBlock[]
  turns: readonly Turn[]
  tools: readonly WireTool[]
}

export function toCap({ system, turns, tools }: Prompt, { contextLength, maxOutputLength }: Target): number {
  if (maxOutputLength <= MIN_CAP) return maxOutputLength
  const all = [...system, ...turns.flatMap(({ content }) => content)]
  const bytes = all.reduce((sum, block) => sum + bytesOf(block), Buffer.byteLength(JSON.stringify(tools)))
  const room = contextLength - Math.ceil(bytes / BYTES_PER_TOKEN)
  return Math.min(maxOutputLength, Math.max(MIN_CAP, room))
}

function bytesOf(block: Block): number {
  switch (block.type) {
    case 'text':
      return Buffer.byteLength(block.text)
    case 'thinking':
      return Buffer.byteLength(block.thinking)
    case 'tool_use':
      return Buffer.byteLength(JSON.stringify(block.input))
    case 'tool_result': {
      const { content = [] } = block
      if (typeof content === 'string') return Buffer.byteLength(content)
      return content.reduce((sum, each) => sum + bytesOf(each), 0)
    }
    case 'search_result':
      return block.content.reduce((sum, each) => sum + bytesOf(each), 0)
    case 'document':
      return block.source.type === 'text' ? Buffer.byteLength(block.source.data) : 0
    case 'image':
      return IMAGE_TOKENS * BYTES_PER_TOKEN
    case 'redacted_thinking':
      return 0
  }
}
