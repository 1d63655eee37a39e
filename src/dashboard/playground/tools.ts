/** Tools as somebody types them: JSON as the API takes it, checked as far as that can be said in a sentence. Pure. */
import { isObject, readJson } from './json-text.ts'

export interface Tool {
  type: 'function' | 'custom'
  name: string
  /** As it goes into a request. */
  json: Record<string, unknown>
}

const MOST_TOOLS = 1_024

/** A list of tools, or one alone; a function without what stands around it will do. */
export function readTools(typed: string): { tools: Tool[] } | { problem: string } {
  const read = readJson(typed)
  if ('problem' in read) return { problem: `This is no JSON: ${read.problem}.` }
  const items = Array.isArray(read.value) ? read.value : [read.value]
  if (items.length > MOST_TOOLS) return { problem: `A request has ${MOST_TOOLS} tools at most.` }
  const tools: Tool[] = []
  for (const [at, item] of items.entries()) {
    const tool = readTool(item)
    const which = items.length === 1 ? 'The tool' : `Tool ${at + 1}`
    if (typeof tool === 'string') return { problem: `${which} ${tool}.` }
    if (tools.some(({ name }) => name === tool.name)) return { problem: `Two tools are called ${tool.name}.` }
    tools.push(tool)
  }
  return { tools }
}

function readTool(item: unknown): Tool | string {
  if (!isObject(item)) return 'is no object'
  // As other APIs have it, and as a function's own source gives it.
  const wrapped = item.type === undefined && typeof item.name === 'string' ? { type: 'function', function: item } : item
  const { type } = wrapped
  if (type !== 'function' && type !== 'custom') return 'has no type: "function" or "custom"'
  const inside = wrapped[type]
  if (!isObject(inside)) return `has nothing under "${type}"`
  const { name, parameters } = inside
  if (typeof name !== 'string') return 'has no name'
  if (!/^[\w-]{1,64}$/.test(name))
    return 'has a name with more than letters, digits, _ and -, or of more than 64 of them'
  if (parameters !== undefined && !isObject(parameters)) return `(${name}) has parameters that are no JSON schema`
  return { type, name, json: wrapped }
}

export const EXAMPLE_TOOLS = `[
  {
    "type": "function",
    "function": {
      "name": "get_weather",
      "description": "The weather in a city",
      "parameters": {
        "type": "object",
        "properties": { "city": { "type": "string" } },
        "required": ["city"],
        "additionalProperties": false
      }
    }
  }
]`

export const EXAMPLE_SCHEMA = `{
  "type": "object",
  "properties": { "answer": { "type": "string" }, "sure": { "type": "boolean" } },
  "required": ["answer", "sure"],
  "additionalProperties": false
}`
