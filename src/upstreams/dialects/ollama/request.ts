/**
 * A request as Ollama's `/api/chat` takes it. A history that does not fit is refused there (`truncate`), and an answer that reaches the
 * end of the context ends (`shift`), where it would else go on without its beginning. Pure.
 */
import { asObject } from '../../../domain/json.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { toThinkingWish } from '../../../domain/thinking.ts'
import type { WireRequest } from '../../backend.ts'
import { unsupportedField, unsupportedValue } from '../refuse.ts'
import { toMessages } from './messages.ts'

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
  const more = (name: string) => {
    const value: unknown = Reflect.get(body, name)
    return typeof value === 'number' ? value : undefined
  }
  const { stop } = body
  const sampled = options.sampling !== false
  const all = {
    num_ctx: contextLength,
    num_predict: body.max_completion_tokens ?? body.max_tokens,
    ...(sampled ? { temperature: body.temperature, top_p: body.top_p, top_k: more('top_k') } : {}),
    min_p: more('min_p'),
    seed: body.seed,
    stop: typeof stop === 'string' ? [stop] : stop,
    frequency_penalty: body.frequency_penalty,
    presence_penalty: body.presence_penalty,
  }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined && value !== null))
}

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
