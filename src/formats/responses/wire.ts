/** The objects of an answer as clients of the Responses API read them. Types only. */

export type Status = 'in_progress' | 'completed' | 'incomplete'

/** Its bytes are those of the token in UTF-8; none where they are not known. */
interface Logprob {
  token: string
  logprob: number
  bytes: number[]
}

export interface TokenLogprob extends Logprob {
  top_logprobs: Logprob[]
}

export interface TextPart {
  type: 'output_text'
  text: string
  annotations: object[]
  logprobs: TokenLogprob[]
}

export interface RefusalPart {
  type: 'refusal'
  refusal: string
}

export interface SummaryPart {
  type: 'summary_text'
  text: string
}

export type OutputItem =
  | { type: 'message'; id: string; status: Status; role: 'assistant'; content: (TextPart | RefusalPart)[] }
  | { type: 'reasoning'; id: string; summary: SummaryPart[]; encrypted_content?: string }
  | {
      type: 'function_call'
      id: string
      call_id: string
      name: string
      namespace?: string
      arguments: string
      status: Status
    }
  | {
      type: 'custom_tool_call'
      id: string
      call_id: string
      name: string
      namespace?: string
      input: string
      status: Status
    }
  | { type: 'local_shell_call'; id: string; call_id: string; action: object; status: Status }
  | { type: 'image_generation_call'; id: string; status: Status; result: string | null }
