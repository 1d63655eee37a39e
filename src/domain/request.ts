/**
 * A request as everything behind the formats sees it: the chat request of OpenAI's API reference, so that nothing is lost
 * between vendors and little has to be translated. A format makes it from a body that it has checked; routing, limits,
 * accounting, the demo and the dialects read it. Null means absent. Fields that no type here names may be there all the
 * same and travel on to upstreams that speak the same format. Types only.
 */

type Optional<T> = T | null

export interface CanonicalRequest {
  model: string
  /** At least one. */
  messages: Message[]
  /** Two names of one cap on what a choice may write, in tokens. */
  max_completion_tokens?: Optional<number>
  max_tokens?: Optional<number>
  temperature?: Optional<number>
  top_p?: Optional<number>
  /** How many choices are asked for; 1 where it is absent. */
  n?: Optional<number>
  stop?: Optional<string | string[]>
  frequency_penalty?: Optional<number>
  presence_penalty?: Optional<number>
  /** From a token's number to -100…100. */
  logit_bias?: Optional<Record<string, number>>
  logprobs?: Optional<boolean>
  top_logprobs?: Optional<number>
  seed?: Optional<number>
  stream?: Optional<boolean>
  stream_options?: Optional<{ include_usage?: Optional<boolean>; include_obfuscation?: Optional<boolean> }>
  tools?: Optional<Tool[]>
  tool_choice?: Optional<ToolChoice>
  parallel_tool_calls?: Optional<boolean>
  /** What `tools` and `tool_choice` were before. */
  functions?: Optional<LegacyFunction[]>
  function_call?: Optional<'none' | 'auto' | Named>
  response_format?: Optional<ResponseFormat>
  reasoning_effort?: Optional<'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max'>
  verbosity?: Optional<'low' | 'medium' | 'high'>
  modalities?: Optional<('text' | 'audio' | 'image')[]>
  audio?: Optional<{
    voice: string | { id: string }
    format: 'wav' | 'aac' | 'mp3' | 'flac' | 'opus' | 'pcm16'
  }>
  prediction?: Optional<{ type: 'content'; content: string | TextPart[] }>
  metadata?: Optional<Record<string, string>>
  store?: Optional<boolean>
  service_tier?: Optional<'auto' | 'default' | 'flex' | 'scale' | 'priority' | 'fast'>
  safety_identifier?: Optional<string>
  prompt_cache_key?: Optional<string>
  prompt_cache_retention?: Optional<'in_memory' | '24h'>
  prompt_cache_options?: Optional<{ ttl?: Optional<'30m'>; mode?: Optional<'implicit' | 'explicit'> }>
  user?: Optional<string>
  moderation?: Optional<{
    model: string
    policy?: Optional<{ input?: Optional<ModerationMode>; output?: Optional<ModerationMode> }>
  }>
  web_search_options?: Optional<{
    user_location?: Optional<UserLocation>
    search_context_size?: Optional<'low' | 'medium' | 'high'>
  }>
}

export type Message = UserMessage | SystemMessage | DeveloperMessage | AssistantMessage | ToolMessage | FunctionMessage

export interface UserMessage {
  role: 'user'
  content: string | (TextPart | ImagePart | AudioPart | FilePart)[]
  name?: Optional<string>
}

export interface SystemMessage {
  role: 'system'
  content: string | TextPart[]
  name?: Optional<string>
}

/** What a system message is called for models that reason. */
export interface DeveloperMessage {
  role: 'developer'
  content: string | TextPart[]
  name?: Optional<string>
}

export interface AssistantMessage {
  role: 'assistant'
  content?: Optional<string | (TextPart | RefusalPart)[]>
  refusal?: Optional<string>
  name?: Optional<string>
  audio?: Optional<{ id: string }>
  tool_calls?: Optional<RequestToolCall[]>
  function_call?: Optional<{ name: string; arguments: string }>
  /** What answers carry, and clients send back with them; the first two are the same text under two names. */
  reasoning?: Optional<string>
  reasoning_content?: Optional<string>
  reasoning_details?: Optional<unknown[]>
  annotations?: Optional<unknown[]>
}

export interface ToolMessage {
  role: 'tool'
  content: string | TextPart[]
  tool_call_id: string
}

/** The result of a legacy function call. */
export interface FunctionMessage {
  role: 'function'
  content: string | null
  name: string
}

/** Where a prompt cache may begin anew. */
interface CacheBreakpoint {
  prompt_cache_breakpoint?: Optional<{ mode: 'explicit' }>
}

export interface TextPart extends CacheBreakpoint {
  type: 'text'
  text: string
}

export interface ImagePart extends CacheBreakpoint {
  type: 'image_url'
  /** `url` may be a `data:` URL. */
  image_url: { url: string; detail?: Optional<'auto' | 'low' | 'high' | 'original'> }
}

export interface AudioPart extends CacheBreakpoint {
  type: 'input_audio'
  /** `data` is base64. */
  input_audio: { data: string; format: 'wav' | 'mp3' }
}

export interface FilePart extends CacheBreakpoint {
  type: 'file'
  file: { filename?: Optional<string>; file_data?: Optional<string>; file_id?: Optional<string> }
}

export interface RefusalPart {
  type: 'refusal'
  refusal: string
}

/** A call that an earlier answer made, as a client sends it back. */
export type RequestToolCall =
  | { id: string; type: 'function'; function: { name: string; arguments: string } }
  | { id: string; type: 'custom'; custom: { name: string; input: string } }

export type Tool = { type: 'function'; function: FunctionTool } | { type: 'custom'; custom: CustomTool }

export interface FunctionTool {
  name: string
  description?: Optional<string>
  /** A JSON Schema. */
  parameters?: Optional<Record<string, unknown>>
  strict?: Optional<boolean>
}

export interface CustomTool {
  name: string
  description?: Optional<string>
  format?: Optional<{ type: 'text' } | { type: 'grammar'; grammar: { definition: string; syntax: 'lark' | 'regex' } }>
}

interface LegacyFunction {
  name: string
  description?: Optional<string>
  parameters?: Optional<Record<string, unknown>>
}

interface Named {
  name: string
}

export type ToolChoice =
  | 'none'
  | 'auto'
  | 'required'
  | { type: 'function'; function: Named }
  | { type: 'custom'; custom: Named }
  | { type: 'allowed_tools'; allowed_tools: { mode: 'auto' | 'required'; tools: Record<string, unknown>[] } }

export type ResponseFormat =
  | { type: 'text' }
  | { type: 'json_object' }
  | { type: 'json_schema'; json_schema: JsonSchemaFormat }

export interface JsonSchemaFormat {
  name: string
  description?: Optional<string>
  schema?: Optional<Record<string, unknown>>
  strict?: Optional<boolean>
}

interface ModerationMode {
  mode: 'score' | 'block'
}

interface UserLocation {
  type: 'approximate'
  approximate: {
    country?: Optional<string>
    region?: Optional<string>
    city?: Optional<string>
    timezone?: Optional<string>
  }
}
