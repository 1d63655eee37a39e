/** Parses the settings form into request fields. */
import { asObject, type JsonObject } from '../../domain/json.ts'

export const NO_SETTINGS = {
  ...{ system: '', tools: '', tool_choice: '', parallel_tool_calls: '' },
  ...{ format: '', schema: '', strict: 'yes' },
  ...{ temperature: '', top_p: '', max_completion_tokens: '', seed: '', stop: '', reasoning_effort: '', verbosity: '' },
  ...{ frequency_penalty: '', presence_penalty: '', others: '' },
}

export type Settings = typeof NO_SETTINGS
export type Field = keyof Settings

/** Message per invalid field. */
type Problems = Partial<Record<Field, string>>

interface NumberField {
  name: Field
  label: string
  least: number
  most: number
  isWhole?: boolean
}

export const NUMBERS: readonly NumberField[] = [
  { name: 'temperature', label: 'Temperature', least: 0, most: 2 },
  { name: 'top_p', label: 'Top p', least: 0, most: 1 },
  { name: 'max_completion_tokens', label: 'Max tokens', least: 1, most: Number.MAX_SAFE_INTEGER, isWhole: true },
  { name: 'seed', label: 'Seed', least: Number.MIN_SAFE_INTEGER, most: Number.MAX_SAFE_INTEGER, isWhole: true },
  { name: 'frequency_penalty', label: 'Frequency penalty', least: -2, most: 2 },
  { name: 'presence_penalty', label: 'Presence penalty', least: -2, most: 2 },
]

export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']
export const VERBOSITIES = ['low', 'medium', 'high']
const MAX_STOPS = 4

interface ReadSettings {
  /** Request fields, without invalid ones. */
  fields: JsonObject
  problems: Problems
}

export function readSettings(settings: Settings): ReadSettings {
  const fields: JsonObject = {}
  const problems: Problems = {}
  for (const field of NUMBERS) {
    const read = readNumber(settings[field.name], field)
    if (typeof read === 'string') problems[field.name] = read
    else if (read !== null) fields[field.name] = read
  }
  const stops = toStops(settings.stop)
  if (stops.length > MAX_STOPS) problems.stop = `At most ${MAX_STOPS} stop sequences, one per line.`
  else if (stops.length > 0) fields.stop = stops
  if (settings.reasoning_effort !== '') fields.reasoning_effort = settings.reasoning_effort
  if (settings.verbosity !== '') fields.verbosity = settings.verbosity
  takeTools(settings, fields, problems)
  takeFormat(settings, fields, problems)
  takeOthers(settings.others, fields, problems)
  return { fields, problems }
}

function readNumber(typed: string, { label, least, most, isWhole = false }: NumberField): number | string | null {
  const text = typed.trim().replaceAll(',', '.')
  if (text === '') return null
  const number = Number(text)
  // `1,000` and `1.000` would be parsed as 1.
  if (Number.isNaN(number) || (isWhole && (text.includes('.') || !Number.isSafeInteger(number))))
    return `${label} must be a ${isWhole ? 'whole ' : ''}number.`
  if (number >= least && number <= most) return number
  return `${label} must be ${most === Number.MAX_SAFE_INTEGER ? `${least} or more` : `from ${least} to ${most}`}.`
}

/** One per line; `\n` is a line break. */
const toStops = (typed: string): string[] =>
  typed
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.replaceAll('\\n', '\n').replaceAll('\\t', '\t'))

function takeTools(settings: Settings, fields: JsonObject, problems: Problems): void {
  if (settings.tools.trim() === '') return
  const read = readTools(settings.tools)
  if ('problem' in read) {
    problems.tools = read.problem
    return
  }
  if (read.tools.length === 0) return
  fields.tools = read.tools.map(({ json }) => json)
  const { tool_choice: choice, parallel_tool_calls: parallel } = settings
  const chosen = read.tools.find(({ name }) => `tool ${name}` === choice)
  if (chosen) fields.tool_choice = { type: chosen.type, [chosen.type]: { name: chosen.name } }
  else if (choice !== '' && !choice.startsWith('tool ')) fields.tool_choice = choice
  if (parallel !== '') fields.parallel_tool_calls = parallel === 'yes'
}

function takeFormat(settings: Settings, fields: JsonObject, problems: Problems): void {
  if (settings.format === 'json_object') fields.response_format = { type: 'json_object' }
  if (settings.format !== 'json_schema') return
  if (settings.schema.trim() === '') {
    problems.schema = 'Enter a JSON schema.'
    return
  }
  const read = readObject(settings.schema, 'A schema must be an object: { "type": "object", … }.')
  if (typeof read === 'string') problems.schema = read
  else fields.response_format = toFormat(read, settings.strict === 'yes')
}

/** Accepts a bare schema, one with a name, or a whole `response_format`. */
function toFormat(json: JsonObject, strict: boolean): object {
  if (json.type === 'json_schema' && asObject(json.json_schema)) return json
  if (asObject(json.schema) && typeof json.name === 'string') return { type: 'json_schema', json_schema: json }
  const title = typeof json.title === 'string' && /^[\w-]{1,64}$/.test(json.title) ? json.title : 'answer'
  return { type: 'json_schema', json_schema: { name: title, schema: json, strict } }
}

/** Fields set elsewhere on the page. */
const TAKEN = new Set(['model', 'messages', 'stream', 'stream_options', 'tools', 'response_format', 'n'])

function takeOthers(typed: string, fields: JsonObject, problems: Problems): void {
  if (typed.trim() === '') return
  const read = readObject(typed, 'Other fields must be an object: { "top_k": 40 }.')
  const taken = typeof read === 'string' ? undefined : Object.keys(read).find((name) => TAKEN.has(name))
  if (typeof read === 'string') problems.others = read
  else if (taken === undefined) Object.assign(fields, read)
  else
    problems.others =
      taken === 'n' ? 'The playground shows one response per model.' : `${taken} is already set on this page.`
}

/** `temperature 0.2, seed 7` */
export function toParametersText(settings: Settings): string {
  const set = [...NUMBERS, ...TEXTS].filter(({ name }) => settings[name].trim() !== '')
  const words = set.map(({ name, label }) => {
    const value = settings[name].trim()
    return name === 'stop' || name === 'others' ? label.toLowerCase() : `${label.toLowerCase()} ${value}`
  })
  return words.join(', ')
}

const TEXTS: readonly { name: Field; label: string }[] = [
  { name: 'reasoning_effort', label: 'Reasoning' },
  { name: 'verbosity', label: 'Verbosity' },
  { name: 'stop', label: 'Stop sequences' },
  { name: 'others', label: 'Other fields' },
]

type ReadJson = { value: unknown } | { problem: string }

/** The browser's message says where the error is. */
function readJson(text: string): ReadJson {
  try {
    return { value: JSON.parse(text) }
  } catch (error) {
    return { problem: `Invalid JSON: ${error instanceof Error ? error.message : ''}.` }
  }
}

/** Returns an error message if it isn't an object. */
function readObject(text: string, otherwise: string): JsonObject | string {
  const read = readJson(text)
  return 'problem' in read ? read.problem : (asObject(read.value) ?? otherwise)
}

interface Tool {
  type: 'function' | 'custom'
  name: string
  json: JsonObject
}

const MAX_TOOLS = 1_024

/** Accepts an array or a single tool; a bare function works too. */
export function readTools(typed: string): { tools: Tool[] } | { problem: string } {
  const read = readJson(typed)
  if ('problem' in read) return read
  const items = Array.isArray(read.value) ? read.value : [read.value]
  if (items.length > MAX_TOOLS) return { problem: `At most ${MAX_TOOLS} tools per request.` }
  const tools: Tool[] = []
  for (const [at, item] of items.entries()) {
    const tool = readTool(item)
    const which = items.length === 1 ? 'The tool' : `Tool ${at + 1}`
    if (typeof tool === 'string') return { problem: `${which} ${tool}.` }
    if (tools.some(({ name }) => name === tool.name)) return { problem: `Two tools have the name ${tool.name}.` }
    tools.push(tool)
  }
  return { tools }
}

function readTool(value: unknown): Tool | string {
  const item = asObject(value)
  if (!item) return 'must be an object'
  // As in the Responses API.
  const json = item.type === undefined && typeof item.name === 'string' ? { type: 'function', function: item } : item
  const { type } = json
  if (type !== 'function' && type !== 'custom') return 'must have the type "function" or "custom"'
  const inside = asObject(json[type])
  if (!inside) return `must have a "${type}" object`
  const { name, parameters } = inside
  if (typeof name !== 'string') return 'must have a name'
  if (!/^[\w-]{1,64}$/.test(name)) return 'has an invalid name: use at most 64 letters, digits, _, and -'
  if (parameters !== undefined && !asObject(parameters)) return `(${name}) has parameters that aren't a JSON schema`
  return { type, name, json }
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
