/** What `response_format` means for one target: upstream request, prompts, and how its response is read. */

import type { DialectName } from '../domain/dialects.ts'
import type { AnswerEvent } from '../domain/events.ts'
import type { AnyRequest, CanonicalRequest, Message } from '../domain/request.ts'
import { dialectOf, type StructuredOutput, type Thinks } from '../upstreams/dialects/dialects.ts'

type Format = CanonicalRequest['response_format']

export interface Able extends Thinks {
  upstream: { dialect: DialectName; local: boolean }
}

export interface Wanted {
  name: string
  description: string | null
  /** Null = any JSON object. */
  schema: Record<string, unknown> | null
  strict: boolean
  /**
   * Whether the upstream enforces the schema, at least in part: then there is no prompt, and the response is delivered
   * even if it can't be validated.
   */
  isHeld: boolean
}

/**
 * - `pass`: native support, or nothing to do.
 * - `verify`: native support on a hosted target; a response that doesn't match the strict schema is marked.
 * - `remind`: native support, but such upstreams may refuse a JSON mode if no message mentions JSON.
 * - `enforce`: the gateway does it.
 */
export type OutputPlan =
  | { kind: 'pass' }
  | { kind: 'verify'; schema: Record<string, unknown> }
  | { kind: 'remind' }
  | { kind: 'enforce'; wanted: Wanted }

const PASS: OutputPlan = { kind: 'pass' }

export function toPlan(body: CanonicalRequest, target: Able): OutputPlan {
  const { response_format: format, messages } = body
  if (!format || format.type === 'text') return PASS
  if (isEnforced(body, target)) return { kind: 'enforce', wanted: toWanted(format, target, body) }
  if (format.type === 'json_schema') {
    const { schema, strict } = format.json_schema
    return schema && strict ? { kind: 'verify', schema } : PASS
  }
  const isReminded = !hasGrammars(target) && !messages.some(speaksOfJson)
  return isReminded ? { kind: 'remind' } : PASS
}

export function isEnforced(body: AnyRequest, target: Able): boolean {
  const { response_format: format } = body
  const { features, upstream } = target
  const { hasJsonMode, heldOf } = dialectOf(upstream).output
  if (format && format.type !== 'text' && refusesJson(body, target)) return true
  if (format?.type === 'json_object') return !hasJsonMode || !features.includes('json_mode')
  if (format?.type !== 'json_schema') return false
  // A local server's grammar may ignore keywords, so its output is validated.
  if (!features.includes('structured_outputs') || hasGrammars(target)) return true
  return heldOf !== null && (upstream.local || toHeldOf(format, heldOf) !== 'all')
}

/**
 * Local engines constrain output by a grammar of any schema (llama-server, Ollama, vLLM, LM Studio). Weak models then
 * succeed where prompting fails three times.
 */
const hasGrammars = ({ upstream }: Able): boolean => upstream.local && dialectOf(upstream).output.hasLocalGrammars

/** Whether a target accepts no format together with tools, callable or not. */
const refusesJson = ({ tools, functions, web_search_options: search }: AnyRequest, target: Able): boolean =>
  Boolean(tools?.length || functions?.length || search) && !dialectOf(target.upstream).output.takesBesideTools(target)

const toHeldOf = (
  { json_schema: { schema } }: Extract<Format, { type: 'json_schema' }>,
  heldOf: NonNullable<StructuredOutput['heldOf']>,
) => (schema ? heldOf(schema) : 'none')

function toWanted(
  format: Exclude<NonNullable<Format>, { type: 'text' }>,
  target: Able,
  body: CanonicalRequest,
): Wanted {
  const { features, upstream } = target
  // A grammar for the response would keep a model from calling tools.
  const isWritten = hasGrammars(target) && !mayCallTools(body)
  if (format.type === 'json_object')
    return { name: 'json_object', description: null, schema: null, strict: false, isHeld: isWritten }
  const { name, description, schema, strict } = format.json_schema
  const lists = features.includes('structured_outputs')
  const { heldOf } = dialectOf(upstream).output
  const isHeld = isWritten || (lists && (heldOf ? toHeldOf(format, heldOf) !== 'none' : hasGrammars(target)))
  return { name, description: description ?? null, schema: schema ?? null, strict: strict === true, isHeld }
}

function speaksOfJson({ content }: Message): boolean {
  if (typeof content === 'string') return /json/i.test(content)
  return content?.some((part) => part.type === 'text' && /json/i.test(part.text)) ?? false
}

/** Some JSON modes require the word JSON in a message. */
export const toReminded = (body: CanonicalRequest): CanonicalRequest => ({
  ...body,
  messages: withInstruction(body.messages, 'Answer with a JSON object.'),
})

export function toInstructed(body: CanonicalRequest, wanted: Wanted, target: Able): CanonicalRequest {
  const { response_format: format, stream: _, stream_options: __, ...rest } = body
  if (wanted.isHeld && format) return { ...rest, response_format: format }
  const tools = mayCallTools(body)
  // A JSON mode helps a weak model, but may keep it from calling tools, and only allows objects.
  const hasMode = target.features.includes('json_mode') && !refusesJson(body, target)
  const helped = hasMode && !tools && asksForObject(wanted.schema)
  return {
    ...rest,
    ...(helped ? { response_format: { type: 'json_object' } } : {}),
    messages: withInstruction(body.messages, toInstruction(wanted, tools)),
  }
}

const mayCallTools = ({ tools, tool_choice, functions, function_call }: CanonicalRequest) =>
  Boolean((tools?.length && tool_choice !== 'none') || (functions?.length && function_call !== 'none'))

function asksForObject(schema: Wanted['schema']): boolean {
  if (schema === null || schema.type === 'object') return true
  return schema.type === undefined && 'properties' in schema
}

export function toInstruction({ name, description, schema }: Wanted, tools: boolean): string {
  const when = tools
    ? 'You may call tools as usual. Whenever you answer in words instead of calling a tool, your whole answer must be'
    : 'Your whole answer must be'
  const alone = 'and nothing else: no explanation before or after it, no Markdown, no code fence.'
  if (schema === null) return `${when} one JSON object, ${alone}`
  const purpose = description === null ? '' : ` (${description})`
  return [
    `${when} one JSON value that is valid against the JSON Schema "${name}"${purpose}, ${alone}`,
    'Write the value itself, not the schema. This is the JSON Schema:',
    JSON.stringify(schema),
  ].join('\n')
}

/** Extends the first system message, or adds one: many chat templates take a single system message, at the start. */
function withInstruction(messages: readonly Message[], instruction: string): Message[] {
  const [first, ...rest] = messages
  if (!first || (first.role !== 'system' && first.role !== 'developer')) {
    return [{ role: 'system', content: instruction }, ...messages]
  }
  const content =
    typeof first.content === 'string'
      ? `${first.content}\n\n${instruction}`
      : [...first.content, { type: 'text' as const, text: instruction }]
  return [{ ...first, content }, ...rest]
}

const MAX_QUOTED_CHARS = 32_000

export function toCorrecting(instructed: CanonicalRequest, answer: string, problem: string): CanonicalRequest {
  const quoted = answer.slice(0, MAX_QUOTED_CHARS).trim()
  return {
    ...instructed,
    messages: [
      ...instructed.messages,
      { role: 'assistant', content: quoted === '' ? '(an empty answer)' : quoted },
      {
        role: 'user',
        content: `That answer was not accepted: ${problem}. Answer again, with the whole corrected JSON and nothing else.`,
      },
    ],
  }
}

const FINAL = new Set<unknown>(['length', 'content_filter', 'tool_calls', 'function_call'])

/** Whether a response is delivered unchanged: truncated, a refusal, or a tool call. */
export const isFinal = (events: readonly AnswerEvent[]): boolean =>
  events.some(
    (event) =>
      event.kind === 'refusal' || event.kind === 'tool' || (event.kind === 'finish' && FINAL.has(event.reason)),
  )

/** Marks a complete response: this choice doesn't match the schema. */
export const withUnmet = (events: readonly AnswerEvent[], choice = 0): AnswerEvent[] => {
  const at = events.at(-1)?.kind === 'done' ? -1 : events.length
  return events.toSpliced(at, 0, { kind: 'unmet', choice })
}

export const textOf = (events: readonly AnswerEvent[]): string =>
  events.map((event) => (event.kind === 'text' ? event.text : '')).join('')

/** Splits off leading reasoning, even if only its closing tag was written. */
export function splitThinking(content: string): { thinking: string; answer: string } {
  const text = content.trimStart()
  const opened = text.startsWith('<think>')
  const from = opened ? '<think>'.length : 0
  const to = text.indexOf('</think>')
  if (opened && to === -1) return { thinking: text.slice(from).trim(), answer: '' }
  // Text that starts as JSON has no reasoning before it, whatever tags it contains.
  if (to === -1 || (!opened && /^[{["`]/.test(text))) return { thinking: '', answer: content }
  return { thinking: text.slice(from, to).trim(), answer: text.slice(to + '</think>'.length) }
}

/** Moves reasoning to its own event. */
export function withJson(events: readonly AnswerEvent[], json: string, thinking: string): AnswerEvent[] {
  if (textOf(events) === json) return [...events]
  const isKnown = thinking === '' || events.some((event) => event.kind === 'reasoning' && event.text !== '')
  const thought: AnswerEvent[] = isKnown ? [] : [{ kind: 'reasoning', choice: 0, text: thinking }]
  // Without log probabilities, which belong to the original tokens.
  const said: AnswerEvent = { kind: 'text', choice: 0, text: json }
  const at = events.findIndex(({ kind }) => kind === 'text')
  const rest = events.filter(({ kind }) => kind !== 'text')
  return [...rest.slice(0, Math.max(0, at)), ...thought, said, ...rest.slice(Math.max(0, at))]
}
