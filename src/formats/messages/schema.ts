/**
 * The request of `POST /v1/messages` (platform.claude.com/docs/en/api/messages), as far as used here. Unknown fields, tools and blocks are
 * allowed and dropped, since every client release adds some. Null means absent.
 */
import { type Static, type TSchema, Type } from '@sinclair/typebox'

const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))
const text = () => Type.String()
const JsonObject = Type.Record(Type.String(), Type.Unknown())
const cached = { cache_control: optional(JsonObject) }

const KNOWN = 'text image document search_result tool_use tool_result thinking redacted_thinking'.split(' ')

/** Typed as an impossible literal, so that known types can be distinguished. */
interface OtherBlock {
  type: '(other)'
}
const OtherBlock = Type.Unsafe<OtherBlock>(
  Type.Object({ type: Type.String({ pattern: `^(?!(?:${KNOWN.join('|')})$)` }) }),
)

const TextBlock = Type.Object({ type: Type.Literal('text'), text: text(), ...cached })

/** Bytes, a URL, a stored file, text or blocks, by `type`; everything else is optional. */
const Source = Type.Object({
  type: text(),
  media_type: optional(text()),
  data: optional(text()),
  url: optional(text()),
  file_id: optional(text()),
  content: optional(
    Type.Union([
      text(),
      Type.Array(Type.Object({ type: text(), text: optional(text()), source: optional(JsonObject) })),
    ]),
  ),
})
const ImageBlock = Type.Object({ type: Type.Literal('image'), source: Source, ...cached })
const DocumentBlock = Type.Object({
  type: Type.Literal('document'),
  source: Source,
  title: optional(text()),
  context: optional(text()),
  ...cached,
})
const SearchResultBlock = Type.Object({
  type: Type.Literal('search_result'),
  source: optional(text()),
  title: optional(text()),
  content: Type.Array(Type.Object({ text: optional(text()) })),
  ...cached,
})
const SaidBlocks = [TextBlock, ImageBlock, DocumentBlock, SearchResultBlock] as const

const ToolUseBlock = Type.Object({
  type: Type.Literal('tool_use'),
  id: text(),
  name: text(),
  input: Type.Unknown(),
  ...cached,
})
const ToolResultBlock = Type.Object({
  type: Type.Literal('tool_result'),
  tool_use_id: text(),
  content: optional(Type.Union([text(), Type.Array(Type.Union([...SaidBlocks, OtherBlock]))])),
  is_error: optional(Type.Boolean()),
  ...cached,
})
// Empty or missing if thinking is not displayed.
const ThinkingBlock = Type.Object({
  type: Type.Literal('thinking'),
  thinking: optional(text()),
  signature: optional(text()),
})
const RedactedBlock = Type.Object({ type: Type.Literal('redacted_thinking'), data: text() })

const Block = Type.Union([...SaidBlocks, ToolUseBlock, ToolResultBlock, ThinkingBlock, RedactedBlock, OtherBlock])

/** Any role other than assistant and system is the user. */
const Message = Type.Object({ role: text(), content: Type.Union([text(), Type.Array(Block)]) })

const Tool = Type.Object({
  type: optional(text()),
  name: optional(text()),
  description: optional(text()),
  input_schema: optional(JsonObject),
  strict: optional(Type.Boolean()),
  user_location: optional(JsonObject),
  ...cached,
})

const ToolChoice = Type.Object({
  type: text(),
  name: optional(text()),
  disable_parallel_tool_use: optional(Type.Boolean()),
})

const Format = Type.Object({ type: text(), schema: optional(JsonObject) })

const prompt = {
  model: Type.String({ minLength: 1 }),
  messages: Type.Array(Message, { minItems: 1 }),
  system: optional(Type.Union([text(), Type.Array(Type.Union([TextBlock, OtherBlock]))])),
  tools: optional(Type.Array(Tool)),
  tool_choice: optional(ToolChoice),
  thinking: optional(
    Type.Object({ type: text(), budget_tokens: optional(Type.Integer({ minimum: 0 })), display: optional(text()) }),
  ),
  output_config: optional(Type.Object({ effort: optional(text()), format: optional(Format) })),
  // The former `output_config.format`.
  output_format: optional(Format),
  cache_control: optional(JsonObject),
}

export const CountSchema = Type.Object(prompt)

export const MessagesSchema = Type.Object({
  ...prompt,
  max_tokens: Type.Integer({ minimum: 1 }),
  temperature: optional(Type.Number({ minimum: 0, maximum: 1 })),
  top_p: optional(Type.Number({ minimum: 0, maximum: 1 })),
  top_k: optional(Type.Integer({ minimum: 0 })),
  // Far more than any client sends; some upstreams search for each of them.
  stop_sequences: optional(Type.Array(text(), { maxItems: 256 })),
  stream: optional(Type.Boolean()),
  metadata: optional(Type.Object({ user_id: optional(text()) })),
  service_tier: optional(text()),
  inference_geo: optional(text()),
})

export type CountBody = Static<typeof CountSchema>
export type MessagesBody = Static<typeof MessagesSchema>
export type SaidBlock = Static<(typeof SaidBlocks)[number]> | OtherBlock
export type Block = Static<typeof Block>
export type ToolResultBlock = Static<typeof ToolResultBlock>
export type Source = Static<typeof Source>
