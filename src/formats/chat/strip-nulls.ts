/**
 * Takes out of a valid request what counts as absent: nulls of fields that the schema knows, and empty lists of tools and
 * tool calls, which many clients send and many upstreams refuse. Other fields are left alone. What holds none of them is
 * not copied: nearly every request is its own result. Called by `validate.ts`.
 */
import type { TObject } from '@sinclair/typebox'
import type { CanonicalRequest, Message, Tool } from '../../domain/request.ts'
import { type ChatRequest, ChatRequestSchema } from './request.ts'

const OF_REQUEST = new Set(Object.keys(ChatRequestSchema.properties))
const OF_MESSAGE = new Set(ChatRequestSchema.properties.messages.items.anyOf.flatMap(toOptional))
// Here null is a value.
OF_MESSAGE.delete('content')
/** Fields of the schema that hold others of it. */
const INSIDE = new Set(
  'content image_url file stream_options response_format json_schema prediction audio prompt_cache_options moderation policy web_search_options user_location approximate'.split(
    ' ',
  ),
)
const OF_TOOL = new Set(['description', 'parameters', 'strict', 'format'])

/** Returns the request without what says nothing. */
export function stripNulls(body: ChatRequest): CanonicalRequest {
  const messages = mapChanged(body.messages, stripMessage)
  const tools = body.tools ? mapChanged(body.tools, stripTool) : body.tools
  const changed = messages !== body.messages || tools !== body.tools
  return without(changed ? { ...body, messages, ...(tools ? { tools } : {}) } : body, OF_REQUEST)
}

const stripMessage = (message: Message): Message => without(message, OF_MESSAGE)

function stripTool(tool: Tool): Tool {
  if (tool.type === 'custom') {
    const custom = without(tool.custom, OF_TOOL)
    return custom === tool.custom ? tool : { ...tool, custom }
  }
  const named = without(tool.function, OF_TOOL)
  return named === tool.function ? tool : { ...tool, function: named }
}

function mapChanged<T>(items: T[], change: (item: T) => T): T[] {
  for (const [index, item] of items.entries()) {
    // The rest is mapped only from the first one that changes.
    if (change(item) !== item) return [...items.slice(0, index), ...items.slice(index).map(change)]
  }
  return items
}

function without<T extends object>(value: T, names: ReadonlySet<string>): T {
  for (const name in value) {
    if (!isChanged(name, value[name], names)) continue
    const kept = Object.entries(value).flatMap(([key, held]) =>
      saysNothing(key, held) && names.has(key) ? [] : [[key, holds(key, names) ? stripInside(held) : held]],
    )
    return Object.fromEntries(kept) as T
  }
  return value
}

/** Whether a field is one of the schema's that hold others. */
const holds = (name: string, names: ReadonlySet<string>) => INSIDE.has(name) && (names.has(name) || name === 'content')

const isChanged = (name: string, held: unknown, names: ReadonlySet<string>) =>
  typeof held === 'object' &&
  ((saysNothing(name, held) && names.has(name)) || (holds(name, names) && stripInside(held) !== held))

/** Drops every null inside of a field that the schema knows to its depths: what is a JSON Schema is none of them. */
function stripInside(value: unknown): unknown {
  if (Array.isArray(value)) return mapChanged(value, stripInside)
  if (typeof value !== 'object' || value === null) return value
  const kept = Object.entries(value).map(([key, held]) => [key, INSIDE.has(key) ? stripInside(held) : held] as const)
  const changed = kept.some(([key, held]) => held === null || held !== value[key as keyof typeof value])
  return changed ? Object.fromEntries(kept.filter(([, held]) => held !== null)) : value
}

const saysNothing = (name: string, value: unknown) =>
  value === null || (Array.isArray(value) && value.length === 0 && (name === 'tools' || name === 'tool_calls'))

function toOptional({ properties, required = [] }: TObject): string[] {
  return Object.keys(properties).filter((name) => !required.includes(name))
}
