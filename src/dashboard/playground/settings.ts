/** What goes along with every request, as it is typed, and as the API takes it. Pure. */
import { asObject, type JsonObject } from '../../domain/json.ts'

export const NO_SETTINGS = {
  ...{ system: '', tools: '', tool_choice: '', parallel_tool_calls: '' },
  ...{ format: '', schema: '', strict: 'yes' },
  ...{ temperature: '', top_p: '', max_completion_tokens: '', seed: '', stop: '', reasoning_effort: '', verbosity: '' },
  ...{ frequency_penalty: '', presence_penalty: '', others: '' },
}

export type Settings = typeof NO_SETTINGS
export type Field = keyof Settings

/** Each field that is wrong, in a sentence. */
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
  { name: 'max_completion_tokens', label: 'Most tokens', least: 1, most: Number.MAX_SAFE_INTEGER, isWhole: true },
  { name: 'seed', label: 'Seed', least: Number.MIN_SAFE_INTEGER, most: Number.MAX_SAFE_INTEGER, isWhole: true },
  { name: 'frequency_penalty', label: 'Frequency penalty', least: -2, most: 2 },
  { name: 'presence_penalty', label: 'Presence penalty', least: -2, most: 2 },
]

export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']
export const VERBOSITIES = ['low', 'medium', 'high']
const MAX_STOPS = 4

interface ReadSettings {
  /** Of the body of a request; without those that are wrong. */
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
  if (stops.length > MAX_STOPS) problems.stop = `At most ${MAX_STOPS}, one a line.`
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
  // 1,000 and 1.000 would be taken for 1.
  if (Number.isNaN(number) || (isWhole && (text.includes('.') || !Number.isSafeInteger(number))))
    return `${label} is a ${isWhole ? 'whole ' : ''}number.`
  if (number >= least && number <= most) return number
  return most === Number.MAX_SAFE_INTEGER ? `${label}: ${least} or more.` : `${label} is from ${least} to ${most}.`
}

/** One a line; `\n` stands for the end of a line. */
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
    problems.schema = 'The schema is missing: the form that the answer has.'
    return
  }
  const read = readObject(settings.schema, 'A schema is an object: { "type": "object", … }.')
  if (typeof read === 'string') problems.schema = read
  else fields.response_format = toFormat(read, settings.strict === 'yes')
}

/** A schema alone, or as it stands in requests: with its name, or as the whole of `response_format`. */
function toFormat(json: JsonObject, strict: boolean): object {
  if (json.type === 'json_schema' && asObject(json.json_schema)) return json
  if (asObject(json.schema) && typeof json.name === 'string') return { type: 'json_schema', json_schema: json }
  const title = typeof json.title === 'string' && /^[\w-]{1,64}$/.test(json.title) ? json.title : 'answer'
  return { type: 'json_schema', json_schema: { name: title, schema: json, strict } }
}

/** What a request has from elsewhere on this page. */
const TAKEN = new Set(['model', 'messages', 'stream', 'stream_options', 'tools', 'response_format', 'n'])

function takeOthers(typed: string, fields: JsonObject, problems: Problems): void {
  if (typed.trim() === '') return
  const read = readObject(typed, 'Other fields are an object: { "top_k": 40 }.')
  const taken = typeof read === 'string' ? undefined : Object.keys(read).find((name) => TAKEN.has(name))
  if (typeof read === 'string') problems.others = read
  else if (taken === undefined) Object.assign(fields, read)
  else problems.others = taken === 'n' ? 'This page shows one answer of each model.' : `${taken} is set on this page.`
}

/** Which of the folded parts are used, in words: `temperature 0.2, seed 7`. */
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
  { name: 'stop', label: 'Stops' },
  { name: 'others', label: 'Other fields' },
]

type ReadJson = { value: unknown } | { problem: string }

/** What is wrong with it is in the browser's words, which say where. */
function readJson(text: string): ReadJson {
  try {
    return { value: JSON.parse(text) }
  } catch (error) {
    return { problem: `This is no JSON: ${error instanceof Error ? error.message : ''}.` }
  }
}

/** Returns what is wrong with it where it is none. */
function readObject(text: string, otherwise: string): JsonObject | string {
  const read = readJson(text)
  return 'problem' in read ? read.problem : (asObject(read.value) ?? otherwise)
}

interface Tool {
  type: 'function' | 'custom'
  name: string
  /** As it goes into a request. */
  json: JsonObject
}

const MAX_TOOLS = 1_024

/** A list of tools, or one alone; a function without what stands around it will do. */
export function readTools(typed: string): { tools: Tool[] } | { problem: string } {
  const read = readJson(typed)
  if ('problem' in read) return read
  const items = Array.isArray(read.value) ? read.value : [read.value]
  if (items.length > MAX_TOOLS) return { problem: `A request has ${MAX_TOOLS} tools at most.` }
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

function readTool(value: unknown): Tool | string {
  const item = asObject(value)
  if (!item) return 'is no object'
  // As other APIs have it, and as a function's own source gives it.
  const json = item.type === undefined && typeof item.name === 'string' ? { type: 'function', function: item } : item
  const { type } = json
  if (type !== 'function' && type !== 'custom') return 'has no type: "function" or "custom"'
  const inside = asObject(json[type])
  if (!inside) return `has nothing under "${type}"`
  const { name, parameters } = inside
  if (typeof name !== 'string') return 'has no name'
  if (!/^[\w-]{1,64}$/.test(name))
    return 'has a name with more than letters, digits, _ and -, or of more than 64 of them'
  if (parameters !== undefined && !asObject(parameters)) return `(${name}) has parameters that are no JSON schema`
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
