/**
 * Takes out of a valid request what counts as absent: nulls of fields that the contract knows, and empty lists of tools
 * and tool calls, which many clients send and many upstreams refuse. Fields it does not know are left alone. Whatever
 * needs no tidying is not copied: nearly every request is its own result.
 */
import type { TObject } from '@sinclair/typebox'
import type { CanonicalRequest, Message, Tool } from '../../domain/request.ts'
import { type ChatRequest, ChatRequestSchema } from './request.ts'

const OF_REQUEST = new Set(Object.keys(ChatRequestSchema.properties))
const OF_MESSAGE = new Set(ChatRequestSchema.properties.messages.items.anyOf.flatMap(toOptional))
// Here null is a value.
OF_MESSAGE.delete('content')
/** Fields that hold others of the contract. */
const INSIDE = new Set(
  'content image_url file stream_options response_format json_schema prediction audio prompt_cache_options moderation policy web_search_options user_location approximate'.split(
    ' ',
  ),
)
const OF_TOOL = new Set(['description', 'parameters', 'strict', 'format'])

/** Returns the request without what says nothing. */
export function tidy(body: ChatRequest): CanonicalRequest {
  const messages = mapChanged(body.messages, tidyMessage)
  const tools = body.tools ? mapChanged(body.tools, tidyTool) : body.tools
  const changed = messages !== body.messages || tools !== body.tools
  return without(changed ? { ...body, messages, ...(tools ? { tools } : {}) } : body, OF_REQUEST)
}

const tidyMessage = (message: Message): Message => without(message, OF_MESSAGE)

function tidyTool(tool: Tool): Tool {
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
    if (!isUntidy(name, value[name], names)) continue
    const tidied = Object.entries(value).flatMap(([key, held]) =>
      saysNothing(key, held) && names.has(key) ? [] : [[key, holds(key, names) ? tidyInside(held) : held]],
    )
    return Object.fromEntries(tidied) as T
  }
  return value
}

/** Whether a field is one of the contract's that hold others. */
const holds = (name: string, names: ReadonlySet<string>) => INSIDE.has(name) && (names.has(name) || name === 'content')

const isUntidy = (name: string, held: unknown, names: ReadonlySet<string>) =>
  typeof held === 'object' &&
  ((saysNothing(name, held) && names.has(name)) || (holds(name, names) && tidyInside(held) !== held))

/** Drops every null inside of a field that the contract knows to its depths: what is a JSON Schema is none of them. */
function tidyInside(value: unknown): unknown {
  if (Array.isArray(value)) return mapChanged(value, tidyInside)
  if (typeof value !== 'object' || value === null) return value
  const tidied = Object.entries(value).map(([key, held]) => [key, INSIDE.has(key) ? tidyInside(held) : held] as const)
  const changed = tidied.some(([key, held]) => held === null || held !== value[key as keyof typeof value])
  return changed ? Object.fromEntries(tidied.filter(([, held]) => held !== null)) : value
}

const saysNothing = (name: string, value: unknown) =>
  value === null || (Array.isArray(value) && value.length === 0 && (name === 'tools' || name === 'tool_calls'))

function toOptional({ properties, required = [] }: TObject): string[] {
  return Object.keys(properties).filter((name) => !required.includes(name))
}
