/** The objects of an answer as clients of Anthropic's API read them, and Tollgate's receipt. Types only. */

export type ContentBlock =
  | { type: 'text'; text: string; citations: null }
  | { type: 'thinking'; thinking: string; signature: string }
  | { type: 'redacted_thinking'; data: string }
  | { type: 'tool_use'; id: string; name: string; input: object; caller: { type: 'direct' } }

export type BlockDelta =
  | { type: 'text_delta'; text: string }
  | { type: 'thinking_delta'; thinking: string }
  | { type: 'signature_delta'; signature: string }
  | { type: 'input_json_delta'; partial_json: string }

export type StopReason = 'end_turn' | 'max_tokens' | 'tool_use' | 'refusal'

/** What is counted outside of each other: `input_tokens` has none that were read from a cache or written to one. */
export interface WireUsage {
  input_tokens: number
  cache_creation_input_tokens: number
  cache_read_input_tokens: number
  cache_creation: { ephemeral_5m_input_tokens: number; ephemeral_1h_input_tokens: number }
  output_tokens: number
  output_tokens_details: { thinking_tokens: number } | null
  server_tool_use: { web_search_requests: number; web_fetch_requests: number } | null
  service_tier: 'standard' | 'priority'
  inference_geo: null
  speed: null
  iterations: null
  fallback_credit: null
}

export interface WireMessage {
  id: string
  type: 'message'
  role: 'assistant'
  model: string
  content: ContentBlock[]
  stop_reason: StopReason | null
  stop_sequence: null
  stop_details: null
  container: null
  context_management: null
  diagnostics: null
}
