/**
 * Fields and roles that OpenAI, Groq, Mistral, Cerebras and Cohere refuse, by their client libraries (openai 7,
 * groq-python, mistralai, cerebras-cloud-sdk) and the pages that `presets.yaml` names.
 */
import { isObject, type Json, type JsonObject } from './contract-parts.ts'

interface Rules {
  fields: string
  messages: Record<string, string>
  /** Fields of parts beyond the common ones. */
  parts?: string
}

const PART = 'type text refusal image_url input_audio file'
const TOOL = 'type function custom'
const FUNCTION = 'name description parameters strict'
const CALL = 'id index type function custom'

const SHARED =
  'model messages frequency_penalty logprobs max_tokens max_completion_tokens n parallel_tool_calls presence_penalty reasoning_effort response_format seed stop stream stream_options temperature tool_choice tools top_logprobs top_p user'

const OPENAI: Rules = {
  fields: `${SHARED} audio function_call functions logit_bias metadata modalities moderation prediction prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier service_tier store verbosity web_search_options`,
  messages: {
    developer: 'role content name',
    system: 'role content name',
    user: 'role content name',
    assistant: 'role content name refusal audio tool_calls function_call',
    tool: 'role content tool_call_id',
  },
  parts: 'prompt_cache_breakpoint',
}

export const STRICT: Readonly<Record<string, Rules>> = {
  openai: OPENAI,
  azure: OPENAI,
  'azure-deployments': OPENAI,
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
  cohere: {
    fields:
      'model messages stream stream_options reasoning_effort tools tool_choice response_format temperature max_tokens stop seed top_p frequency_penalty presence_penalty logprobs',
    messages: {
      system: 'role content name',
      user: 'role content name',
      assistant: 'role content name tool_calls',
      tool: 'role content tool_call_id',
    },
  },
}

/** The provider's refusal; null if accepted. */
export function findUnknown(body: unknown, { fields, messages, parts = '' }: Rules): string | null {
  if (!isObject(body as Json)) return 'no object'
  const request = body as Record<string, Json>
  const unknown = findOther('', request, fields) ?? findInTools(request.tools)
  if (unknown !== null) return unknown
  const options = request.stream_options
  if (isObject(options ?? null) && Object.keys(options as object).some((name) => name !== 'include_usage'))
    if (!fields.includes('prompt_cache_key')) return "property 'stream_options' has fields that are unsupported"
  for (const [at, message] of (request.messages as Json[]).entries()) {
    if (!isObject(message)) return `messages.${at} is no object`
    const ofRole = messages[String(message.role)]
    if (ofRole === undefined) return `messages.${at}: unknown role '${message.role}'`
    const where = `'messages.${at}' : `
    const found =
      findOther(where, message, ofRole) ??
      findInEach(where, message.content, `${PART} ${parts}`) ??
      findInEach(where, message.tool_calls, CALL)
    if (found !== null) return found
  }
  return null
}

function findOther(where: string, value: JsonObject, known: string): string | null {
  const other = Object.keys(value).find((name) => !known.split(' ').includes(name))
  return other === undefined ? null : `${where}property '${other}' is unsupported`
}

function findInEach(where: string, list: Json | undefined, known: string): string | null {
  for (const each of Array.isArray(list) ? list : []) {
    const found = isObject(each) ? findOther(where, each, known) : null
    if (found !== null) return found
  }
  return null
}

function findInTools(tools: Json | undefined): string | null {
  const functions = (Array.isArray(tools) ? tools : []).map((tool) => (isObject(tool) && tool.function) || null)
  return findInEach('tools: ', tools, TOOL) ?? findInEach('tools: ', functions, FUNCTION)
}
