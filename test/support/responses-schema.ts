/**
 * The response object and 24 stream events of the Open Responses specification (openresponses.org). Unknown fields are
 * allowed; unknown event and item types are not.
 */
import { type TSchema, Type } from '@sinclair/typebox'

const text = Type.String()
const count = Type.Integer({ minimum: 0 })
const orNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])
const is = (value: string) => Type.Literal(value)
const oneOf = (...values: string[]) => Type.Union(values.map(is))

const Logprob = Type.Object({
  token: text,
  logprob: Type.Number(),
  bytes: Type.Array(Type.Integer()),
  top_logprobs: Type.Array(Type.Object({ token: text, logprob: Type.Number(), bytes: Type.Array(Type.Integer()) })),
})
const Annotation = Type.Object({
  type: is('url_citation'),
  url: text,
  title: text,
  start_index: count,
  end_index: count,
})
const TextPart = Type.Object({
  type: is('output_text'),
  text,
  annotations: Type.Array(Annotation),
  logprobs: Type.Array(Logprob),
})
const RefusalPart = Type.Object({ type: is('refusal'), refusal: text })
const SummaryPart = Type.Object({ type: is('summary_text'), text })
const Part = Type.Union([TextPart, RefusalPart, SummaryPart])

const status = oneOf('in_progress', 'completed', 'incomplete')
const Item = Type.Union([
  Type.Object({
    type: is('message'),
    id: text,
    status,
    role: is('assistant'),
    content: Type.Array(Type.Union([TextPart, RefusalPart])),
  }),
  Type.Object({ type: is('function_call'), id: text, call_id: text, name: text, arguments: text, status }),
  Type.Object({
    type: is('reasoning'),
    id: text,
    summary: Type.Array(SummaryPart),
    encrypted_content: Type.Optional(text),
  }),
])

const FunctionTool = Type.Object({
  type: is('function'),
  name: text,
  description: orNull(text),
  parameters: orNull(Type.Object({})),
  strict: orNull(Type.Boolean()),
})
const JsonSchemaFormat = Type.Object({
  type: is('json_schema'),
  name: text,
  description: orNull(text),
  schema: orNull(Type.Object({})),
  strict: Type.Boolean(),
})
const Usage = Type.Object({
  input_tokens: count,
  output_tokens: count,
  total_tokens: count,
  input_tokens_details: Type.Object({ cached_tokens: count }),
  output_tokens_details: Type.Object({ reasoning_tokens: count }),
})

export const ResponseObject = Type.Object({
  id: Type.String({ pattern: '^resp_[0-9a-f]{32}$' }),
  object: is('response'),
  created_at: count,
  completed_at: orNull(count),
  status: oneOf('in_progress', 'completed', 'incomplete', 'failed'),
  incomplete_details: orNull(Type.Object({ reason: oneOf('max_output_tokens', 'content_filter') })),
  model: text,
  previous_response_id: Type.Null(),
  instructions: orNull(text),
  output: Type.Array(Item),
  error: orNull(Type.Object({ code: text, message: text })),
  tools: Type.Array(FunctionTool),
  tool_choice: Type.Union([oneOf('none', 'auto', 'required'), Type.Object({ type: text })]),
  truncation: oneOf('auto', 'disabled'),
  parallel_tool_calls: Type.Boolean(),
  text: Type.Object({
    format: Type.Union([Type.Object({ type: is('text') }), Type.Object({ type: is('json_object') }), JsonSchemaFormat]),
    verbosity: Type.Optional(oneOf('low', 'medium', 'high')),
  }),
  top_p: Type.Number(),
  presence_penalty: Type.Number(),
  frequency_penalty: Type.Number(),
  top_logprobs: count,
  temperature: Type.Number(),
  reasoning: orNull(Type.Object({ effort: orNull(text), summary: orNull(text) })),
  user: orNull(text),
  usage: orNull(Usage),
  max_output_tokens: orNull(count),
  max_tool_calls: orNull(count),
  store: Type.Boolean(),
  background: Type.Boolean(),
  service_tier: text,
  metadata: Type.Object({}),
  safety_identifier: orNull(text),
  prompt_cache_key: orNull(text),
})

const event = (type: string, fields: Record<string, TSchema>) =>
  [type, Type.Object({ type: is(type), sequence_number: count, ...fields })] as const

const item = { item_id: text, output_index: count }
const within = { ...item, content_index: count }
const summary = { ...item, summary_index: count }
const logprobs = Type.Array(Logprob)

/** By type. */
export const EVENTS: ReadonlyMap<string, TSchema> = new Map<string, TSchema>([
  ...['created', 'queued', 'in_progress', 'completed', 'incomplete', 'failed'].map((name) =>
    event(`response.${name}`, { response: ResponseObject }),
  ),
  event('response.output_item.added', { output_index: count, item: Item }),
  event('response.output_item.done', { output_index: count, item: Item }),
  event('response.content_part.added', { ...within, part: Part }),
  event('response.content_part.done', { ...within, part: Part }),
  event('response.output_text.delta', { ...within, delta: text, logprobs }),
  event('response.output_text.done', { ...within, text, logprobs }),
  event('response.output_text.annotation.added', { ...within, annotation_index: count, annotation: Annotation }),
  event('response.refusal.delta', { ...within, delta: text }),
  event('response.refusal.done', { ...within, refusal: text }),
  event('response.reasoning.delta', { ...within, delta: text }),
  event('response.reasoning.done', { ...within, text }),
  event('response.reasoning_summary_part.added', { ...summary, part: Part }),
  event('response.reasoning_summary_part.done', { ...summary, part: Part }),
  event('response.reasoning_summary_text.delta', { ...summary, delta: text }),
  event('response.reasoning_summary_text.done', { ...summary, text }),
  event('response.function_call_arguments.delta', { ...item, delta: text }),
  event('response.function_call_arguments.done', { ...item, arguments: text }),
  event('error', { error: Type.Object({ type: text, code: orNull(text), message: text, param: orNull(text) }) }),
])
