/** What a client of the Responses API has asked for beyond the canonical request: by it the answer is written. */
import { toLine } from '../../domain/json.ts'
import type { Task } from '../../domain/task.ts'
import type { ResponsesRequest } from './schema.ts'
import type { ToolNames } from './tool-names.ts'

export class Asked {
  /** What every response object repeats of its request: fields as JSON, written once for all events that have them. */
  readonly echoJson: string
  readonly names: ToolNames
  /** Whether it wants to read what the model thinks, to send it back, and the log probabilities of tokens. */
  readonly wantsSummary: boolean
  readonly wantsSealed: boolean
  readonly wantsLogprobs: boolean

  /** @param tools those that were not left out. */
  constructor(request: ResponsesRequest, tools: readonly object[], names: ToolNames) {
    const { include, reasoning, top_logprobs: top } = request
    this.names = names
    this.wantsSummary = (reasoning?.summary ?? 'none') !== 'none' && reasoning?.effort !== 'none'
    this.wantsSealed = include?.includes('reasoning.encrypted_content') === true
    this.wantsLogprobs = include?.includes('message.output_text.logprobs') === true || (top ?? 0) > 0
    this.echoJson = toLine(toEcho(request, tools)).slice(1, -1)
  }
}

/** All fields are there, as typed clients require; what was not said has the API's default. */
const toEcho = (request: ResponsesRequest, tools: readonly object[]) => ({
  access_programs: null,
  background: false,
  frequency_penalty: request.frequency_penalty ?? 0,
  instructions: request.instructions ?? null,
  max_output_tokens: request.max_output_tokens ?? null,
  max_tool_calls: request.max_tool_calls ?? null,
  metadata: request.metadata ?? {},
  parallel_tool_calls: request.parallel_tool_calls ?? true,
  presence_penalty: request.presence_penalty ?? 0,
  previous_response_id: null,
  prompt_cache_key: request.prompt_cache_key ?? null,
  reasoning: { effort: request.reasoning?.effort ?? null, summary: request.reasoning?.summary ?? null },
  safety_identifier: request.safety_identifier ?? null,
  store: false,
  temperature: request.temperature ?? 1,
  text: {
    format: toFormat(request.text?.format),
    ...(request.text?.verbosity ? { verbosity: request.text.verbosity } : {}),
  },
  tool_choice: request.tool_choice ?? 'auto',
  tools,
  top_logprobs: request.top_logprobs ?? 0,
  top_p: request.top_p ?? 1,
  // What does not fit is refused, whatever was asked for.
  truncation: 'disabled',
  user: request.user ?? null,
})

function toFormat(format: NonNullable<ResponsesRequest['text']>['format']): object {
  if (format?.type !== 'json_schema') return format ?? { type: 'text' }
  return { ...format, description: format.description ?? null, strict: format.strict ?? false }
}

/** Of a task that this format has made. */
export function askedOf({ own }: Task): Asked {
  if (own instanceof Asked) return own
  throw new TypeError('the task was made by another format')
}
