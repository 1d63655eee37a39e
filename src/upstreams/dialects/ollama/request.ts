/**
 * A request as Ollama's `/api/chat` takes it. A history that does not fit is refused there (`truncate`), and an answer that reaches the
 * end of the context ends (`shift`), where it would else go on without its beginning. Pure.
 */
import { asObject, asText } from '../../../domain/json.ts'
import type { AssistantMessage, CanonicalRequest, Message } from '../../../domain/request.ts'
import type { Target } from '../../../domain/snapshot.ts'
import type { WireRequest } from '../dialect.ts'
import { unsupportedField, unsupportedValue } from '../errors.ts'
import { toThinkingWish } from '../thinking.ts'
import { toArguments } from '../tool-calls.ts'

/** Throws an UpstreamError `status` 400 for what Ollama has no place for. */
export function toWireRequest(body: CanonicalRequest, target: Target): WireRequest {
  if (body.logit_bias && Object.keys(body.logit_bias).length > 0)
    throw unsupportedField('logit_bias', 'its API has nothing like it.')
  if (body.audio) throw unsupportedField('audio', 'its answers are not spoken.')
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

/** Undefined where the model is left to itself. Only gpt-oss knows efforts; any model that thinks takes yes and no. */
function toThink(body: CanonicalRequest, { features, upstreamModel, options }: Target): boolean | string | undefined {
  if (!features.includes('reasoning') || options.thinking === 'none') return undefined
  const { isOn, effort } = toThinkingWish(body)
  if (isOn === null) return undefined
  if (!/gpt-oss/i.test(upstreamModel)) return isOn
  if (!isOn || effort === 'minimal') return 'low'
  return effort === null || effort === 'medium' ? 'medium' : effort === 'low' ? 'low' : 'high'
}

function toFormat({ response_format: format }: CanonicalRequest): 'json' | Record<string, unknown> | undefined {
  if (format?.type === 'json_object') return 'json'
  return format?.type === 'json_schema' ? (format.json_schema.schema ?? 'json') : undefined
}

/**
 * Those that may be called. That one has to be called, it cannot be told: where it is one, or a few, they are all that it is given.
 */
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
      throw unsupportedValue(`tools[${at}].type`, 'it calls functions only.')
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

/** A conversation as Ollama takes it: text, pictures beside it in base64, calls with objects for arguments. Pure. */
export interface OllamaMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string
  thinking?: string
  /** In base64. */
  images?: string[]
  tool_calls?: { id?: string; function: { name: string; arguments: object } }[]
  tool_name?: string
  tool_call_id?: string
}

/** Throws an UpstreamError `status` 400 for a part that has no place there. */
export function toMessages(messages: readonly Message[]): OllamaMessage[] {
  /** What was called, by the ids of calls. */
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
      if (!PICTURE.test(url))
        throw unsupportedValue(`${param}.image_url.url`, 'it takes pictures as data: URLs in base64 only.')
      images.push(url.slice(url.indexOf(',') + 1))
    } else throw unsupportedValue(param, `it takes text and pictures, and no ${asText(part.type)}.`)
  }
  return { content: texts.join('\n'), images }
}
