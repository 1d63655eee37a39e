/**
 * The request of OpenAI's Responses API (platform.openai.com/docs/api-reference/responses/create), as far as used here; anything unknown is
 * dropped. Loaded only to explain refusals.
 */
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { RequestSchema } from '../../domain/request.ts'

/** Null means absent. */
const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))
const oneOf = <T extends string>(...values: T[]) => Type.Union(values.map((value) => Type.Literal(value)))
const text = () => Type.String()
const JsonObject = Type.Record(Type.String(), Type.Unknown())

/** Typed as an impossible literal, so that known types can be distinguished. */
function other(known: readonly TSchema[]) {
  const names = known.map(({ properties }) => properties.type.const).join('|')
  return Type.Unsafe<{ type: '(other)' }>(Type.Object({ type: Type.String({ pattern: `^(?!(?:${names})$)` }) }))
}

const PARTS = [
  Type.Object({ type: Type.Literal('input_text'), text: text() }),
  Type.Object({ type: Type.Literal('output_text'), text: text() }),
  Type.Object({ type: Type.Literal('text'), text: text() }),
  Type.Object({ type: Type.Literal('refusal'), refusal: text() }),
  Type.Object({
    type: Type.Literal('input_image'),
    image_url: optional(text()),
    file_id: optional(text()),
    detail: optional(oneOf('auto', 'low', 'high', 'original')),
  }),
  Type.Object({
    type: Type.Literal('input_file'),
    filename: optional(text()),
    file_data: optional(text()),
    file_url: optional(text()),
    file_id: optional(text()),
  }),
  Type.Object({
    type: Type.Literal('input_audio'),
    input_audio: Type.Object({ data: text(), format: oneOf('wav', 'mp3') }),
  }),
] as const
const Part = Type.Union([...PARTS, other(PARTS)])
const Content = Type.Union([text(), Type.Array(Part)])

const Thought = Type.Object({ text: text() })
const ITEMS = [
  Type.Object({
    type: Type.Literal('message'),
    role: oneOf('user', 'assistant', 'system', 'developer'),
    content: Content,
  }),
  Type.Object({
    type: Type.Literal('function_call'),
    call_id: text(),
    name: text(),
    arguments: text(),
    namespace: optional(text()),
  }),
  Type.Object({ type: Type.Literal('function_call_output'), call_id: text(), output: Content }),
  Type.Object({
    type: Type.Literal('custom_tool_call'),
    call_id: text(),
    name: text(),
    input: text(),
    namespace: optional(text()),
  }),
  Type.Object({ type: Type.Literal('custom_tool_call_output'), call_id: text(), output: Content }),
  Type.Object({
    type: Type.Literal('local_shell_call'),
    id: optional(text()),
    call_id: optional(text()),
    action: JsonObject,
  }),
  Type.Object({
    type: Type.Literal('local_shell_call_output'),
    id: optional(text()),
    call_id: optional(text()),
    output: Content,
  }),
  Type.Object({
    type: Type.Literal('reasoning'),
    summary: optional(Type.Array(Thought)),
    content: optional(Type.Array(Thought)),
    encrypted_content: optional(text()),
  }),
  Type.Object({ type: Type.Literal('item_reference'), id: text() }),
] as const
const Item = Type.Union([...ITEMS, other(ITEMS)])

const FunctionTool = Type.Object({
  type: Type.Literal('function'),
  name: Type.String({ minLength: 1 }),
  description: optional(text()),
  parameters: optional(JsonObject),
  strict: optional(Type.Boolean()),
})
const CustomTool = Type.Object({
  type: Type.Literal('custom'),
  name: Type.String({ minLength: 1 }),
  description: optional(text()),
  format: optional(Type.Object({ type: text(), syntax: optional(text()), definition: optional(text()) })),
})
const CALLED = [FunctionTool, CustomTool] as const
const TOOLS = [
  ...CALLED,
  Type.Object({
    type: Type.Literal('namespace'),
    name: Type.String({ minLength: 1, maxLength: 256 }),
    description: optional(text()),
    tools: Type.Array(Type.Union([...CALLED, other(CALLED)])),
  }),
  Type.Object({ type: Type.Literal('local_shell') }),
] as const
const Tool = Type.Union([...TOOLS, other(TOOLS)])

const ToolChoice = Type.Union([
  oneOf('none', 'auto', 'required'),
  Type.Object({
    type: text(),
    name: optional(text()),
    namespace: optional(text()),
    mode: optional(oneOf('auto', 'required')),
    tools: optional(Type.Array(Type.Object({ type: text(), name: optional(text()), namespace: optional(text()) }))),
  }),
])

const TextFormat = Type.Union([
  Type.Object({ type: Type.Literal('text') }),
  Type.Object({ type: Type.Literal('json_object') }),
  Type.Object({
    type: Type.Literal('json_schema'),
    name: Type.String({ maxLength: 64, pattern: '^[a-zA-Z0-9_-]+$' }),
    description: optional(text()),
    schema: JsonObject,
    strict: optional(Type.Boolean()),
  }),
])

const chat = RequestSchema.properties

export const ResponsesSchema = Type.Object({
  model: chat.model,
  input: Type.Union([text(), Type.Array(Item)]),
  instructions: optional(text()),
  stream: chat.stream,
  max_output_tokens: chat.max_completion_tokens,
  temperature: chat.temperature,
  top_p: chat.top_p,
  presence_penalty: chat.presence_penalty,
  frequency_penalty: chat.frequency_penalty,
  top_logprobs: chat.top_logprobs,
  include: optional(Type.Array(text())),
  tools: optional(Type.Array(Tool)),
  tool_choice: optional(ToolChoice),
  parallel_tool_calls: chat.parallel_tool_calls,
  max_tool_calls: optional(Type.Integer()),
  text: optional(Type.Object({ format: optional(TextFormat), verbosity: chat.verbosity })),
  reasoning: optional(Type.Object({ effort: chat.reasoning_effort, summary: optional(text()) })),
  service_tier: chat.service_tier,
  truncation: optional(oneOf('auto', 'disabled')),
  metadata: chat.metadata,
  user: chat.user,
  safety_identifier: chat.safety_identifier,
  prompt_cache_key: chat.prompt_cache_key,
  prompt_cache_retention: chat.prompt_cache_retention,
  store: chat.store,
  background: optional(Type.Boolean()),
})

export type ResponsesRequest = Static<typeof ResponsesSchema>
export type Item = Static<typeof Item>
export type Content = Static<typeof Content>
export type Part = Static<typeof Part>
export type Tool = Static<typeof Tool>
export type FunctionTool = Static<typeof FunctionTool>
export type CustomTool = Static<typeof CustomTool>
export type ToolChoice = Static<typeof ToolChoice>
