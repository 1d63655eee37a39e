/** What goes along with every request, as it is typed, and as the API takes it. Pure. */
import { isObject, readJson } from './json-text.ts'
import { readTools } from './tools.ts'

export const NO_SETTINGS = {
  ...{ system: '', tools: '', tool_choice: '', parallel_tool_calls: '' },
  ...{ format: '', schema: '', strict: 'yes' },
  ...{ temperature: '', top_p: '', max_completion_tokens: '', seed: '', stop: '', reasoning_effort: '', verbosity: '' },
  ...{ frequency_penalty: '', presence_penalty: '', others: '' },
}

export type Settings = typeof NO_SETTINGS
export type Field = keyof Settings

/** Each field that is wrong, in a sentence. */
export type Problems = Partial<Record<Field, string>>

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
const MOST_STOPS = 4

interface ReadSettings {
  /** Of the body of a request; without those that are wrong. */
  fields: Record<string, unknown>
  problems: Problems
}

export function readSettings(settings: Settings): ReadSettings {
  const fields: Record<string, unknown> = {}
  const problems: Problems = {}
  for (const field of NUMBERS) {
    const read = readNumber(settings[field.name], field)
    if (typeof read === 'string') problems[field.name] = read
    else if (read !== null) fields[field.name] = read
  }
  const stops = toStops(settings.stop)
  if (stops.length > MOST_STOPS) problems.stop = `At most ${MOST_STOPS}, one a line.`
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

function takeTools(settings: Settings, fields: Record<string, unknown>, problems: Problems): void {
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

function takeFormat(settings: Settings, fields: Record<string, unknown>, problems: Problems): void {
  if (settings.format === 'json_object') fields.response_format = { type: 'json_object' }
  if (settings.format !== 'json_schema') return
  const read = readJson(settings.schema)
  if (settings.schema.trim() === '') problems.schema = 'The schema is missing: the form that the answer has.'
  else if ('problem' in read) problems.schema = `This is no JSON: ${read.problem}.`
  else if (!isObject(read.value)) problems.schema = 'A schema is an object: { "type": "object", … }.'
  else fields.response_format = toFormat(read.value, settings.strict === 'yes')
}

/** A schema alone, or as it stands in requests: with its name, or as the whole of `response_format`. */
function toFormat(json: Record<string, unknown>, strict: boolean): object {
  if (json.type === 'json_schema' && isObject(json.json_schema)) return json
  if (isObject(json.schema) && typeof json.name === 'string') return { type: 'json_schema', json_schema: json }
  const title = typeof json.title === 'string' && /^[\w-]{1,64}$/.test(json.title) ? json.title : 'answer'
  return { type: 'json_schema', json_schema: { name: title, schema: json, strict } }
}

/** What a request has from elsewhere on this page. */
const TAKEN = new Set(['model', 'messages', 'stream', 'stream_options', 'tools', 'response_format', 'n'])

function takeOthers(typed: string, fields: Record<string, unknown>, problems: Problems): void {
  if (typed.trim() === '') return
  const read = readJson(typed)
  if ('problem' in read) problems.others = `This is no JSON: ${read.problem}.`
  else if (!isObject(read.value)) problems.others = 'Other fields are an object: { "top_k": 40 }.'
  else {
    const taken = Object.keys(read.value).find((name) => TAKEN.has(name))
    if (taken === undefined) Object.assign(fields, read.value)
    else problems.others = taken === 'n' ? 'This page shows one answer of each model.' : `${taken} is set on this page.`
  }
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
