/** A chat request as the body of a Messages request. Throws what `refuse.ts` makes. Pure. */
import { isPassed, REQUEST_FIELDS } from '../../../domain/fields.ts'
import { asObject, asText } from '../../../domain/json.ts'
import type { Effort } from '../../../domain/models.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { unsupportedField, unsupportedValue } from '../errors.ts'
import { type ThinkingWish, toNearestEffort, toThinkingWish } from '../thinking.ts'
import { toThoughtIssuer } from '../thought-state.ts'
import { keepMarks, toCacheControl, toConversation } from './conversation.ts'
import { toStrict } from './schema.ts'
import type { Block, FunctionTool, TextBlock, Turn, WireBody, WireThinking, WireTool, WireToolChoice } from './wire.ts'

/** The version of the API that is asked for where the catalogue says nothing: the newer one refuses `temperature`. */
export const VERSION = '2023-06-01'
const NO_SAMPLING = '2026-10-21'
/** By this a model takes instructions in the middle of a conversation. */
const LATER_SYSTEM = 'mid-conversation-system-'

/** A longer name is refused. */
const MAX_USER_CHARS = 256

export function toBody(body: CanonicalRequest, target: Target): WireBody {
  refuse(body)
  const { options } = target.upstream
  const keepsSystem = (options.betas ?? []).some((beta) => beta.startsWith(LATER_SYSTEM))
  const { system, turns } = toConversation(body.messages, { keepsSystem, signer: toThoughtIssuer(target) })
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

/** What the API has no counterpart of, and would change the answer: all else without one is left out. */
function refuse(body: CanonicalRequest): void {
  if (body.logprobs) throw unsupportedField('logprobs', 'its provider tells no probabilities.')
  if (body.modalities?.some((one) => one !== 'text')) throw unsupportedValue('modalities', 'it answers with text.')
}

const isNoThought = ({ type }: Turn['content'][number]) => type !== 'thinking' && type !== 'redacted_thinking'

/** Whether the answer that the last results belong to came back without what was thought before it. */
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

/** Temperature and `top_p` together are refused by most models. */
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

/** Fields of the API that chat does not know, where the catalogue lets them through. */
function toPassed(body: CanonicalRequest, pass: readonly string[]): Record<string, unknown> {
  if (pass.length === 0) return {}
  const isThrough = ([name]: [string, unknown]) => !OURS.has(name) && !REQUEST_FIELDS.has(name) && isPassed(pass, name)
  return Object.fromEntries(Object.entries(body).filter(isThrough))
}

/** What is read otherwise. */
const OURS: ReadonlySet<string> = new Set([
  'reasoning',
  'thinking',
  'top_k',
  'cache_control',
  'system',
  'output_config',
])

/** Tools, and which of them may or must be called. Pure. */
type Tool = NonNullable<CanonicalRequest['tools']>[number]
type Named = { name: string; description?: string | null; parameters?: Record<string, unknown> | null }

/** @param isStrictKnown whether the model can be held to schemas. */
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

/** A tool that takes a text is a function of one text. */
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

/** The names of the tools that `allowed_tools` leaves; null where all are. */
function toAllowed({ tool_choice: choice }: CanonicalRequest): ReadonlySet<string> | null {
  if (typeof choice !== 'object' || choice?.type !== 'allowed_tools') return null
  return new Set(
    choice.allowed_tools.tools.map((tool) => asText((asObject(tool.function) ?? asObject(tool.custom) ?? tool).name)),
  )
}

/** Undefined where the API's own default says it. */
export function toToolChoice(body: CanonicalRequest): WireToolChoice | undefined {
  const chosen = choose(body)
  // A legacy function is called one at a time.
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

/**
 * Whether and how a model is to think: as the client asks, in whichever words, of what its route says that it can. Where a
 * client says nothing, nothing is sent; where it says no, that is, for some models think by themselves. Pure.
 */
export interface Thinking {
  thinking?: WireThinking
  effort?: Effort
  /** Whether a tool was to be called, which a model that thinks whatever it is told cannot be made to. */
  mayNotForce?: true
}

export interface Circumstances {
  /** The output cap that is sent. */
  cap: number
  /** Whether it must call a tool. */
  isForced: boolean
  /** Whether the last answer called tools, and none of its thoughts came back. */
  hasForgotten: boolean
}

/** The least that the API takes. */
const MIN_BUDGET = 1_024
/** What part of the cap is for thinking, as `@ai-sdk/provider-utils` has it. */
const SHARES: Record<Effort, number> = { minimal: 0.02, low: 0.1, medium: 0.3, high: 0.6, xhigh: 0.9, max: 0.9 }
/** Every model that takes an effort knows these. */
const USUAL_EFFORTS: readonly Effort[] = ['low', 'medium', 'high', 'max']

export function toThinking(body: CanonicalRequest, { options, features }: Target, around: Circumstances): Thinking {
  const wish = toThinkingWish(body)
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
  // A turn that thinks by a budget must begin with what was thought (400 otherwise).
  if (around.hasForgotten || around.cap <= MIN_BUDGET) return {}
  const asked = wish.tokens ?? around.cap * SHARES[wish.effort ?? 'medium']
  const budget = Math.min(Math.max(MIN_BUDGET, Math.floor(asked)), around.cap - 1)
  return { thinking: { type: 'enabled', budget_tokens: budget } }
}

function toAdaptive({ isOn, effort, isHidden }: ThinkingWish, efforts: readonly Effort[]): Thinking {
  const thinking: WireThinking = { type: 'adaptive', display: isHidden ? 'omitted' : 'summarized' }
  const wanted = isOn ? effort : 'none'
  const nearest = wanted === null ? undefined : toNearestEffort(wanted, efforts)
  return nearest === undefined ? { thinking } : { thinking, effort: nearest }
}

/**
 * The output cap of a request that has none, which the API wants: as much as the model writes, but no more than its context has
 * room for beside the prompt, for models before Claude 4.5 refuse a request whose prompt and cap together are too long. Pure.
 */
/** UTF-8 bytes of words for a token, at least: what is estimated is rather too much. */
const BYTES_PER_TOKEN = 3
/** About what an image of the largest size has. */
const IMAGE_TOKENS = 1_600
/** However long the prompt is: the estimate may be wrong, and the API says best what does not fit. */
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
