/** Adapts a chat request to an upstream and model by their settings; other fields are forwarded. */

import type { UpstreamSettings } from '../../../domain/dialects.ts'
import { isPassed, isRouting } from '../../../domain/fields.ts'
import { asObject, asText, type JsonObject } from '../../../domain/json.ts'
import { sourceTextOf } from '../../../domain/json-text.ts'
import type { Effort, RouteSettings } from '../../../domain/models.ts'
import type { CanonicalRequest, ToolChoice } from '../../../domain/request.ts'
import type { Target } from '../../../domain/snapshot.ts'
import type { WireRequest } from '../dialect.ts'
import { toNearestEffort, toReasoningRequest } from '../reasoning.ts'
import { toOwnConversation } from './conversation.ts'
import { toChanged, toChanges } from './field-changes.ts'

function toBody(body: CanonicalRequest, target: Target): Record<string, unknown> {
  const { upstream, upstreamModel, features, options: ofModel } = target
  const { options } = upstream
  const sent: Record<string, unknown> = { ...body, model: upstreamModel }
  sent.messages = toOwnConversation(body.messages, target)
  for (const name in body) if (isRouting(name) && !isPassed(options.pass, name)) sent[name] = undefined
  if (body.metadata) sent.metadata = toLabels(body.metadata, options.pass)
  // `text` is the default; a model without other formats may not know the field.
  const knowsFormats = features.includes('json_mode') || features.includes('structured_outputs')
  if (body.response_format?.type === 'text' && !knowsFormats) sent.response_format = undefined
  if (!options.user) sent.user = undefined
  if (!options.n) sent.n = undefined
  // Always requested: a stream without usage could only be billed by an estimate.
  const isAsked = body.stream && options.stream_options !== false
  sent.stream_options = isAsked ? { ...body.stream_options, include_usage: true } : undefined
  if (ofModel.sampling === false) for (const name of SAMPLING) sent[name] = undefined
  sayThinking(sent, body, ofModel, options.effort_fields)
  if (options.tool_choice === 'auto') leaveChoice(sent, body)
  const own = toChanged(sent, toChanges(options).fields)
  if (options.extra_body) Object.assign(own, options.extra_body)
  const field = options.max_tokens_field
  const cap = body.max_completion_tokens ?? body.max_tokens ?? undefined
  if (field === null || cap === undefined) return own
  own.max_tokens = undefined
  own.max_completion_tokens = undefined
  own[field] = cap
  return own
}

const SAMPLING = ['temperature', 'top_p', 'top_k']

export function toRequestText(body: CanonicalRequest, target: Target): Pick<WireRequest, 'body' | 'rest'> {
  const sent = toBody(body, target)
  const { messages } = sent
  const text = typeof messages === 'object' && messages !== null ? sourceTextOf(messages) : undefined
  if (text === undefined) return { body: JSON.stringify(sent) }
  return { body: `${JSON.stringify({ ...sent, messages: undefined }).slice(0, -1)},"messages":`, rest: [text, '}'] }
}

/** Some gateways read more than labels from metadata; strings are labels. */
function toLabels(metadata: Record<string, unknown>, pass: readonly string[]): Record<string, unknown> {
  const isLabel = ([name, value]: [string, unknown]) =>
    typeof value === 'string' || !isRouting(name) || isPassed(pass, name)
  return Object.fromEntries(Object.entries(metadata).filter(isLabel))
}

type EffortFields = NonNullable<UpstreamSettings['effort_fields']>

/**
 * Sets the reasoning effort in the provider's fields. Without `effort_fields` the client's own fields are sent, since the upstream may know
 * them.
 * @param sent a copy of the request's fields, which is changed.
 */
function sayThinking(
  sent: JsonObject,
  body: CanonicalRequest,
  route: RouteSettings,
  words: EffortFields | undefined,
): void {
  const { reasoning_effort: effort, reasoning, thinking } = sent
  if (effort === undefined && reasoning === undefined && thinking === undefined) return
  if (words) translateThinking(sent, body, route, words)
  else if (body.reasoning_effort) sent.reasoning_effort = toKnown(body.reasoning_effort, route)
}

function translateThinking(sent: JsonObject, body: CanonicalRequest, route: RouteSettings, words: EffortFields): void {
  const { isOn, effort } = toReasoningRequest(body)
  const { reasoning_effort: said, reasoning, thinking } = sent
  sent.reasoning_effort = undefined
  sent.reasoning = undefined
  sent.thinking = undefined
  const isTheirs = isSwitch(thinking) && Object.values(words).some((fields) => 'thinking' in fields)
  if (isTheirs && route.thinking !== 'none') sent.thinking = thinking
  if (isOn === null || (isTheirs && !said && !reasoning)) return
  // OpenRouter's default for `enabled`, too.
  const known = toKnown(isOn ? (effort ?? 'medium') : 'none', route)
  if (known === undefined) return
  const fields = words[known] ?? { reasoning_effort: known }
  for (const name in fields) sent[name] ??= fields[name]
}

/** Some providers have the field themselves, with these two types. */
function isSwitch(thinking: unknown): boolean {
  const type = asObject(thinking)?.type
  return type === 'enabled' || type === 'disabled'
}

function toKnown(
  effort: Effort | 'none',
  { thinking, efforts, thinking_off: off }: RouteSettings,
): Effort | 'none' | undefined {
  if (thinking === 'none') return undefined
  if (effort === 'none' && off !== false) return effort
  if (efforts) return toNearestEffort(effort, efforts)
  return effort === 'none' ? undefined : effort
}

/**
 * For an upstream that rejects `tool_choice`: sends only the allowed tools, and requests a required call in words.
 * @param sent a copy of the request's fields, which is changed.
 */
function leaveChoice(sent: JsonObject, { tools, tool_choice: choice }: CanonicalRequest): void {
  sent.tool_choice = undefined
  if (!choice || choice === 'auto') return
  const names = choice === 'required' ? null : namesIn(choice)
  const allowed = tools?.filter((tool) => names === null || names.has(nameOf(tool))) ?? []
  sent.tools = allowed.length > 0 ? allowed : undefined
  if (allowed.length === 0 || !isForced(choice)) return
  const words =
    allowed.length === 1 ? `You must call the tool ${nameOf(allowed[0])}.` : 'You must call one of the tools.'
  sent.messages = [{ role: 'system', content: words }, ...(sent.messages as unknown[])]
}

const isForced = (choice: ToolChoice) =>
  typeof choice === 'string'
    ? choice === 'required'
    : choice.type !== 'allowed_tools' || choice.allowed_tools.mode === 'required'

function namesIn(choice: ToolChoice): ReadonlySet<string> {
  if (typeof choice === 'string') return new Set()
  return new Set((choice.type === 'allowed_tools' ? choice.allowed_tools.tools : [choice]).map(nameOf))
}

function nameOf(value: unknown): string {
  const tool = asObject(value)
  return asText((asObject(tool?.function) ?? asObject(tool?.custom) ?? tool)?.name)
}
