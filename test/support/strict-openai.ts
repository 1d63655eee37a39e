/**
 * What OpenAI, Groq, Mistral and Cerebras refuse of a chat request: fields that they do not know, at the top and in messages, and
 * roles. By the request types of their own client libraries (openai 7, groq-python, mistralai, cerebras-cloud-sdk) and the pages that
 * `presets.yaml` names.
 */
import { isObject, type Json } from './contract-parts.ts'

interface Rules {
  fields: string
  /** Fields of a message, by its role. */
  messages: Record<string, string>
}

const SHARED =
  'model messages frequency_penalty logprobs max_tokens max_completion_tokens n parallel_tool_calls presence_penalty reasoning_effort response_format seed stop stream stream_options temperature tool_choice tools top_logprobs top_p user'

export const STRICT: Readonly<Record<string, Rules>> = {
  openai: {
    fields: `${SHARED} audio function_call functions logit_bias metadata modalities moderation prediction prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier service_tier store verbosity web_search_options`,
    messages: {
      developer: 'role content name',
      system: 'role content name',
      user: 'role content name',
      assistant: 'role content name refusal audio tool_calls function_call',
      tool: 'role content tool_call_id',
    },
  },
  groq: {
    fields: `${SHARED.replace('logprobs ', '').replace('top_logprobs ', '')} include_reasoning reasoning_format service_tier`,
    messages: {
      system: 'role content',
      user: 'role content',
      assistant: 'role content tool_calls reasoning',
      tool: 'role content tool_call_id',
    },
  },
  mistral: {
    fields:
      'model messages temperature top_p max_tokens stream stop random_seed metadata response_format tools tool_choice presence_penalty frequency_penalty n prediction parallel_tool_calls prompt_mode reasoning_effort safe_prompt',
    messages: {
      system: 'role content',
      user: 'role content',
      assistant: 'role content tool_calls prefix',
      tool: 'role content tool_call_id name',
    },
  },
  cerebras: {
    fields: `${SHARED.replace('frequency_penalty ', '').replace('presence_penalty ', '')} clear_thinking disable_reasoning reasoning_format service_tier`,
    messages: {
      system: 'role content name',
      user: 'role content name',
      assistant: 'role content name tool_calls reasoning',
      tool: 'role content tool_call_id name',
    },
  },
}

/** What a provider would say is wrong with a request; null where it is taken. */
export function findUnknown(body: unknown, { fields, messages }: Rules): string | null {
  if (!isObject(body as Json)) return 'no object'
  const request = body as Record<string, Json>
  const known = fields.split(' ')
  for (const name of Object.keys(request)) if (!known.includes(name)) return `property '${name}' is unsupported`
  const options = request.stream_options
  if (isObject(options ?? null) && Object.keys(options as object).some((name) => name !== 'include_usage'))
    if (!fields.includes('prompt_cache_key')) return "property 'stream_options' has fields that are unsupported"
  for (const [at, message] of (request.messages as Json[]).entries()) {
    if (!isObject(message)) return `messages.${at} is no object`
    const ofRole = messages[String(message.role)]
    if (ofRole === undefined) return `messages.${at}: unknown role '${message.role}'`
    for (const name of Object.keys(message))
      if (!ofRole.split(' ').includes(name)) return `'messages.${at}' : property '${name}' is unsupported`
  }
  return null
}
