/**
 * Translates a request for Ollama's `/api/chat`. Without `truncate` an overlong history is refused, and without `shift` a response ends at
 * the context limit, instead of losing the beginning.
 */
import { asObject, asText } from '../../../domain/json.ts'
import type { AssistantMessage, CanonicalRequest, Message } from '../../../domain/request.ts'
import type { Target } from '../../../domain/snapshot.ts'
import type { WireRequest } from '../dialect.ts'
import { unsupportedField, unsupportedValue } from '../errors.ts'
import { toReasoningRequest } from '../reasoning.ts'
import { toArguments } from '../tool-calls.ts'

export function toWireRequest(body: CanonicalRequest, target: Target): WireRequest {
  if (body.logit_bias && Object.keys(body.logit_bias).length > 0)
    throw unsupportedField('logit_bias', 'its API has no equivalent.')
  if (body.audio) throw unsupportedField('audio', 'it has no audio output.')
  const tools = toTools(body)
  const think = toThink(body, target)
  const format = toFormat(body)
  return {
    path: '/api/chat',
    body: JSON.stringify({
      model: target.upstreamModel,
      messages: toMessages(body.messages),
      stream: body.stream === true,
      truncate: false,
      shift: false,
      ...(tools.length > 0 ? { tools } : {}),
      ...(think === undefined ? {} : { think }),
      ...(format === undefined ? {} : { format }),
      options: toOptions(body, target),
    }),
  }
}

function toOptions(body: CanonicalRequest, { contextLength, options }: Target): Record<string, unknown> {
  const { stop } = body
  const sampled = options.sampling !== false
  const all = {
    num_ctx: contextLength,
    num_predict: body.max_completion_tokens ?? body.max_tokens,
    ...(sampled ? { temperature: body.temperature, top_p: body.top_p, top_k: toNumber(body.top_k) } : {}),
    min_p: toNumber(body.min_p),
    seed: body.seed,
    stop: typeof stop === 'string' ? [stop] : stop,
    frequency_penalty: body.frequency_penalty,
    presence_penalty: body.presence_penalty,
  }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined && value !== null))
}

const toNumber = (value: unknown) => (typeof value === 'number' ? value : undefined)

/** Undefined for the model's default. Only gpt-oss has efforts; every reasoning model accepts true and false. */
function toThink(body: CanonicalRequest, { features, upstreamModel, options }: Target): boolean | string | undefined {
  if (!features.includes('reasoning') || options.thinking === 'none') return undefined
  const { isOn, effort } = toReasoningRequest(body)
  if (isOn === null) return undefined
  if (!/gpt-oss/i.test(upstreamModel)) return isOn
  if (!isOn || effort === 'minimal') return 'low'
  return effort === null || effort === 'medium' ? 'medium' : effort === 'low' ? 'low' : 'high'
}

function toFormat({ response_format: format }: CanonicalRequest): 'json' | Record<string, unknown> | undefined {
  if (format?.type === 'json_object') return 'json'
  return format?.type === 'json_schema' ? (format.json_schema.schema ?? 'json') : undefined
}

/** Only the allowed tools. Ollama can't require a call, so a required tool is the only one sent. */
function toTools({
  tools = [],
  functions = [],
  tool_choice: choice,
  function_call: legacy,
}: CanonicalRequest): object[] {
  const wanted = choice ?? legacy
  if (wanted === 'none') return []
  const all = [
    ...(tools ?? []).map((tool, at) => {
      if (tool.type === 'function') return tool.function
      throw unsupportedValue(`tools[${at}].type`, 'only function tools are supported.')
    }),
    ...(functions ?? []),
  ]
  const names = toNames(wanted)
  return all
    .filter(({ name }) => names === null || names.has(name))
    .map(({ name, description, parameters }) => ({
      type: 'function',
      function: { name, description: description ?? '', parameters: parameters ?? { type: 'object', properties: {} } },
    }))
}

function toNames(
  wanted: CanonicalRequest['tool_choice'] | CanonicalRequest['function_call'],
): ReadonlySet<unknown> | null {
  if (!wanted || typeof wanted === 'string') return null
  if ('name' in wanted) return new Set([wanted.name])
  if (wanted.type === 'function') return new Set([wanted.function.name])
  if (wanted.type === 'custom') return null
  return new Set(wanted.allowed_tools.tools.map((tool) => asObject(tool.function)?.name))
}

/** Conversation in Ollama's form: text, base64 images, and calls with objects as arguments. */
export interface OllamaMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string
  thinking?: string
  images?: string[]
  tool_calls?: { id?: string; function: { name: string; arguments: object } }[]
  tool_name?: string
  tool_call_id?: string
}

/** Throws an UpstreamError `status` 400 for an unsupported part. */
export function toMessages(messages: readonly Message[]): OllamaMessage[] {
  const names = new Map<string, string>()
  return messages.map((message, index) => {
    const { content, images } = toContent(message, index)
    const said = { content, ...(images.length > 0 ? { images } : {}) }
    switch (message.role) {
      case 'assistant':
        return toAnswer(message, said, names)
      case 'tool': {
        const { tool_call_id: id } = message
        const name = names.get(id)
        return { role: 'tool', ...said, ...(name === undefined ? {} : { tool_name: name }), tool_call_id: id }
      }
      case 'function':
        return { role: 'tool', ...said, tool_name: message.name }
      case 'user':
        return { role: 'user', ...said }
      default:
        return { role: 'system', ...said }
    }
  })
}

function toAnswer(
  message: AssistantMessage,
  said: Pick<OllamaMessage, 'content' | 'images'>,
  names: Map<string, string>,
): OllamaMessage {
  const thinking = message.reasoning ?? message.reasoning_content ?? ''
  const calls: NonNullable<OllamaMessage['tool_calls']> = []
  for (const call of message.tool_calls ?? []) {
    const { name, args } =
      call.type === 'function'
        ? { name: call.function.name, args: toArguments(call.function.arguments) }
        : { name: call.custom.name, args: { input: call.custom.input } }
    names.set(call.id, name)
    calls.push({ id: call.id, function: { name, arguments: args } })
  }
  const { function_call: legacy } = message
  if (legacy) calls.push({ function: { name: legacy.name, arguments: toArguments(legacy.arguments) } })
  return {
    role: 'assistant',
    ...said,
    content: said.content || (message.refusal ?? ''),
    ...(thinking === '' ? {} : { thinking }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  }
}

const PICTURE = /^data:[^,]*;base64,/i

function toContent({ content }: Message, index: number): { content: string; images: string[] } {
  if (typeof content === 'string' || !content) return { content: content ?? '', images: [] }
  const texts: string[] = []
  const images: string[] = []
  for (const [at, part] of content.entries()) {
    const param = `messages[${index}].content[${at}]`
    if (part.type === 'text') texts.push(part.text)
    else if (part.type === 'refusal') texts.push(part.refusal)
    else if (part.type === 'image_url') {
      const { url } = part.image_url
      if (!PICTURE.test(url)) throw unsupportedValue(`${param}.image_url.url`, 'images must be base64 data: URLs.')
      images.push(url.slice(url.indexOf(',') + 1))
    } else throw unsupportedValue(param, `content must be text or images (got '${asText(part.type)}').`)
  }
  return { content: texts.join('\n'), images }
}
