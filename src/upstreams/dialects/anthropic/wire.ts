/** The request of the Messages API (platform.claude.com/docs, types of `@anthropic-ai/sdk` 1.12). */
import type { Effort } from '../../../domain/models.ts'

export interface CacheControl {
  type: 'ephemeral'
  ttl?: '5m' | '1h'
}

interface Cached {
  cache_control?: CacheControl
}

export interface TextBlock extends Cached {
  type: 'text'
  text: string
}

export type ImageSource =
  | { type: 'base64'; media_type: 'image/jpeg' | 'image/png' | 'image/gif' | 'image/webp'; data: string }
  | { type: 'url'; url: string }
  | { type: 'file'; file_id: string }

export interface ImageBlock extends Cached {
  type: 'image'
  source: ImageSource
}

export type DocumentSource =
  | { type: 'base64'; media_type: 'application/pdf'; data: string }
  | { type: 'text'; media_type: 'text/plain'; data: string }
  | { type: 'content'; content: string | (TextBlock | ImageBlock)[] }
  | { type: 'url'; url: string }
  | { type: 'file'; file_id: string }

export interface DocumentBlock extends Cached {
  type: 'document'
  source: DocumentSource
  title?: string
  citations?: { enabled: boolean }
}

export interface SearchResultBlock extends Cached {
  type: 'search_result'
  source: string
  title: string
  content: TextBlock[]
}

export interface ToolUseBlock extends Cached {
  type: 'tool_use'
  id: string
  name: string
  input: object
}

export interface ToolResultBlock extends Cached {
  type: 'tool_result'
  tool_use_id: string
  content?: string | SaidBlock[]
  is_error?: true
}

export interface ThinkingBlock {
  type: 'thinking'
  thinking: string
  signature: string
}

export interface RedactedBlock {
  type: 'redacted_thinking'
  data: string
}

export type SaidBlock = TextBlock | ImageBlock | DocumentBlock | SearchResultBlock
export type ThoughtBlock = ThinkingBlock | RedactedBlock
export type Block = SaidBlock | ToolUseBlock | ToolResultBlock | ThoughtBlock

export interface Turn {
  role: 'user' | 'assistant' | 'system'
  content: Block[]
}

export interface FunctionTool extends Cached {
  name: string
  description?: string
  input_schema: { type: 'object'; [keyword: string]: unknown }
  strict?: true
}

export interface WebSearchTool extends Cached {
  type: 'web_search_20250305'
  name: 'web_search'
  user_location?: { type: 'approximate'; city?: string; region?: string; country?: string; timezone?: string }
}

export type WireTool = FunctionTool | WebSearchTool

export type WireToolChoice =
  | { type: 'none' }
  | { type: 'auto' | 'any'; disable_parallel_tool_use?: true }
  | { type: 'tool'; name: string; disable_parallel_tool_use?: true }

export type WireThinking =
  | { type: 'disabled' }
  | { type: 'adaptive'; display: 'summarized' | 'omitted' }
  | { type: 'enabled'; budget_tokens: number }

export interface WireBody {
  model: string
  max_tokens: number
  messages: Turn[]
  system?: TextBlock[]
  tools?: WireTool[]
  tool_choice?: WireToolChoice
  thinking?: WireThinking
  output_config?: { effort?: Effort; format?: { type: 'json_schema'; schema: object } }
  temperature?: number
  top_p?: number
  top_k?: number
  stop_sequences?: string[]
  stream?: true
  metadata?: { user_id: string }
  service_tier?: 'auto' | 'standard_only'
  cache_control?: CacheControl
}
