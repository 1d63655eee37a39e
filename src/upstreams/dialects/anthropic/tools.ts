/** Tools, and which of them may or must be called. Pure. */
import { asObject, asText } from '../../../domain/json.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import { toCacheControl } from './cache.ts'
import { toStrict } from './schema.ts'
import type { FunctionTool, WireTool, WireToolChoice } from './wire.ts'

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
