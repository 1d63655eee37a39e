/**
 * A request to `/v1/messages` as a canonical one. What only Anthropic's API has, such as `context_management`, `container`,
 * `mcp_servers` and whatever the header `anthropic-beta` names, is left out. Pure.
 */
import { type Decision, GatewayError } from '../../domain/error.ts'
import type { CanonicalRequest } from '../../domain/request.ts'
import { UNASKED_THOUGHTS } from '../../domain/task.ts'
import { toThinkingWish } from '../../upstreams/dialects/thinking.ts'
import { checkSchema } from '../../validation/json-schema.ts'
import { checkStrict, createPatternRule } from '../../validation/strict-schema.ts'
import type { CountBody, MessagesBody } from './schema.ts'
import { toTools } from './tools.ts'
import { toMessages } from './turns.ts'
import { invalid } from './validate.ts'

/** Claude Code names an account and a session in it, as a JSON text. */
export const MAX_USER_CHARS = 256

const TIERS: Readonly<Record<string, 'auto' | 'default'>> = { auto: 'auto', standard_only: 'default' }

export function toCanonical(body: MessagesBody): Decision<CanonicalRequest> {
  const prompt = toPromptOnly(body)
  if (prompt instanceof GatewayError) return prompt
  const { stop_sequences: stops, top_k, inference_geo } = body
  const user = body.metadata?.user_id
  const tier = TIERS[body.service_tier ?? '']
  return {
    ...prompt,
    max_tokens: body.max_tokens,
    ...withoutNulls({ temperature: body.temperature, top_p: body.top_p }),
    // Upstreams that take four of them refuse more in their own words: to stop elsewhere than asked would be another answer.
    ...(stops && stops.length > 0 ? { stop: stops } : {}),
    ...(user ? { user: user.slice(0, MAX_USER_CHARS) } : {}),
    ...(tier ? { service_tier: tier } : {}),
    ...(body.stream ? { stream: true } : {}),
    ...withoutNulls({ top_k }),
    // Where data may not go is not ours to forget: routing refuses what it cannot promise.
    ...(inference_geo && inference_geo !== 'global' ? { inference_geo } : {}),
  }
}

/** What of a request a model reads, and how it is to think about it. */
export function toPromptOnly(body: CountBody): Decision<CanonicalRequest> {
  const messages = toMessages(body)
  if (messages instanceof GatewayError) return messages
  const tools = toTools(body)
  if (tools instanceof GatewayError) return tools
  const format = toFormat(body)
  if (format instanceof GatewayError) return format
  const { cache_control } = body
  return {
    model: body.model,
    messages,
    ...tools,
    ...toThinking(body),
    ...(format ? { response_format: format } : {}),
    ...withoutNulls({ cache_control }),
  }
}

/**
 * Tells an effort by the name that most upstreams have for it. A budget stays beside it, for those that count one. Where the
 * model decides how much to think it does so as for `high`, which is what Anthropic's API takes for granted. A client that does not
 * turn thinking on reads no thoughts, as there.
 */
function toThinking({ thinking, output_config: config }: CountBody): object {
  const effort = config?.effort
  if (!thinking) return { [UNASKED_THOUGHTS]: true, ...(effort ? { reasoning_effort: effort } : {}) }
  if (thinking.type === 'disabled') return { [UNASKED_THOUGHTS]: true, thinking: { type: 'disabled' } }
  if (thinking.type === 'enabled') {
    const { isOn, effort: amount } = toThinkingWish({ model: '', messages: [], ...{ thinking } })
    return { thinking, ...(isOn ? { reasoning_effort: effort ?? amount ?? 'high' } : {}) }
  }
  const isHidden = thinking.display === 'omitted'
  return { reasoning_effort: effort ?? 'high', ...(isHidden ? { thinking } : {}) }
}

function toFormat(body: CountBody): Decision<CanonicalRequest['response_format'] | null> {
  const format = body.output_config?.format ?? body.output_format
  if (format?.type !== 'json_schema') return null
  const path = body.output_config?.format ? 'output_config.format.schema' : 'output_format.schema'
  const { schema } = format
  if (!schema) return invalid(path, 'Field required')
  // Answers may be checked against it by the gateway itself, so its patterns have to work here.
  const problem = checkSchema(schema, createPatternRule())
  if (problem) return invalid(path, `${problem.path.join('.').slice(0, 500)}: ${problem.reason}`)
  return {
    type: 'json_schema',
    json_schema: { name: 'answer', schema, ...(checkStrict(schema) === null ? { strict: true } : {}) },
  }
}

/** The fields that say something. */
const withoutNulls = <Fields extends Record<string, unknown>>(fields: Fields) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined)) as {
    [Name in keyof Fields]?: NonNullable<Fields[Name]>
  }
