/**
 * What `response_format` means for one target: what the upstream is sent, what it is told in words because it does not know
 * the field, what is read of its answer (one choice, as events), and what it is told when that was not good enough. Pure;
 * `enforce.ts` acts on it, and `fanout.ts` asks whether it will.
 */

import type { DialectName } from '../domain/dialects.ts'
import type { AnswerEvent } from '../domain/events.ts'
import type { AnyRequest, CanonicalRequest, Message } from '../domain/request.ts'
import { dialectOf, type StructuredOutput, type Thinks } from '../upstreams/dialects/dialects.ts'

type Format = CanonicalRequest['response_format']

/** What of a target decides it. */
export interface Able extends Thinks {
  upstream: { dialect: DialectName; local: boolean }
}

/** What an answer has to be, where the gateway sees to it. */
export interface Wanted {
  name: string
  description: string | null
  /** The JSON Schema; null = any JSON object. */
  schema: Record<string, unknown> | null
  strict: boolean
  /**
   * Whether its upstream holds the model to the schema, or to part of it: then it is sent that, and no words, and its answer is
   * delivered where it cannot be checked.
   */
  isHeld: boolean
}

/**
 * - `pass`: the target does it by itself, or there is nothing to do.
 * - `verify`: a hosted target does it by itself. Its answer is delivered as it is; one that does not meet the strict schema is marked.
 * - `remind`: it does, but some such upstreams refuse a JSON mode that no message speaks of.
 * - `enforce`: the gateway does.
 */
export type OutputPlan =
  | { kind: 'pass' }
  | { kind: 'verify'; schema: Record<string, unknown> }
  | { kind: 'remind' }
  | { kind: 'enforce'; wanted: Wanted }

const PASS: OutputPlan = { kind: 'pass' }

/** Decides what is to be done about a request's `response_format` on a target with these features. */
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

/** Whether the gateway has to see to it that answers are what `response_format` asks for. */
export function isEnforced(body: AnyRequest, target: Able): boolean {
  const { response_format: format } = body
  const { features, upstream } = target
  const { hasJsonMode, heldOf } = dialectOf(upstream).output
  if (format && format.type !== 'text' && refusesJson(body, target)) return true
  if (format?.type === 'json_object') return !hasJsonMode || !features.includes('json_mode')
  if (format?.type !== 'json_schema') return false
  // A grammar of a server of one's own may lack keywords: what is written by it is checked.
  if (!features.includes('structured_outputs') || hasGrammars(target)) return true
  return heldOf !== null && (upstream.local || toHeldOf(format, heldOf) !== 'all')
}

/**
 * Whether a target is an engine of one's own, which writes by a grammar made of any schema, whatever its model: llama-server and Ollama
 * do, vLLM and LM Studio, too. Weak models write right at once what they fail at thrice in words.
 */
const hasGrammars = ({ upstream }: Able): boolean => upstream.local && dialectOf(upstream).output.hasLocalGrammars

/** Whether a target takes no format beside the tools of a request, whether or not the model may call them. */
const refusesJson = ({ tools, functions, web_search_options: search }: AnyRequest, target: Able): boolean =>
  Boolean(tools?.length || functions?.length || search) && !dialectOf(target.upstream).output.takesBesideTools(target)

/** How much of a schema is held to by upstreams that know a part of the language. */
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
  // Of a model that may call tools, a grammar of the answer would keep it from that.
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

/** Builds the request with the reminder that a JSON mode needs. */
export const toReminded = (body: CanonicalRequest): CanonicalRequest => ({
  ...body,
  messages: withInstruction(body.messages, 'Answer with a JSON object.'),
})

/** Builds the request for a target that does not do it by itself: whole, and instructed in words. */
export function toInstructed(body: CanonicalRequest, wanted: Wanted, target: Able): CanonicalRequest {
  const { response_format: format, stream: _, stream_options: __, ...rest } = body
  if (wanted.isHeld && format) return { ...rest, response_format: format }
  const tools = mayCallTools(body)
  // A JSON mode helps a weak model along, but it may also keep one from calling tools, and it knows objects only.
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

/** The words for a model that knows neither the field nor the schema. */
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

/**
 * Adds to the system message that a conversation begins with, or begins it with one: many chat templates take one
 * system message, at the start, and no other.
 */
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

/** A corrected answer is asked for with this much of the wrong one. */
const MAX_QUOTED_CHARS = 32_000

/** Builds the request that shows a model its last answer and what was wrong with it. */
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

/** Whether an answer is delivered as it is: it was cut short, it is a refusal, or it calls a tool. */
export const isFinal = (events: readonly AnswerEvent[]): boolean =>
  events.some(
    (event) =>
      event.kind === 'refusal' || event.kind === 'tool' || (event.kind === 'finish' && FINAL.has(event.reason)),
  )

/** Marks an answer that is all there: its first choice does not meet the schema. */
export const withUnmet = (events: readonly AnswerEvent[], choice = 0): AnswerEvent[] => {
  const at = events.at(-1)?.kind === 'done' ? -1 : events.length
  return events.toSpliced(at, 0, { kind: 'unmet', choice })
}

/** What it says. */
export const textOf = (events: readonly AnswerEvent[]): string =>
  events.map((event) => (event.kind === 'text' ? event.text : '')).join('')

/** Takes the thinking off the beginning of a text, also where only its closing tag was written. */
export function splitThinking(content: string): { thinking: string; answer: string } {
  const text = content.trimStart()
  const opened = text.startsWith('<think>')
  const from = opened ? '<think>'.length : 0
  const to = text.indexOf('</think>')
  if (opened && to === -1) return { thinking: text.slice(from).trim(), answer: '' }
  // What begins as JSON has no thinking before it, whatever tags its texts may hold.
  if (to === -1 || (!opened && /^[{["`]/.test(text))) return { thinking: '', answer: content }
  return { thinking: text.slice(from, to).trim(), answer: text.slice(to + '</think>'.length) }
}

/** Puts the JSON that was found in place of what was written, and the thinking before it where it belongs. */
export function withJson(events: readonly AnswerEvent[], json: string, thinking: string): AnswerEvent[] {
  if (textOf(events) === json) return [...events]
  const isKnown = thinking === '' || events.some((event) => event.kind === 'reasoning' && event.text !== '')
  const thought: AnswerEvent[] = isKnown ? [] : [{ kind: 'reasoning', choice: 0, text: thinking }]
  // Without its log probabilities: they are of the tokens that were written.
  const said: AnswerEvent = { kind: 'text', choice: 0, text: json }
  const at = events.findIndex(({ kind }) => kind === 'text')
  const rest = events.filter(({ kind }) => kind !== 'text')
  return [...rest.slice(0, Math.max(0, at)), ...thought, said, ...rest.slice(Math.max(0, at))]
}
