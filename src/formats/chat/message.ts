/**
 * A message of a chat request, by its role, as OpenAI's API reference has it. What messages must be to each other is in
 * `conversation.ts`. Fields that are not named here are allowed and travel on.
 */
import { Type } from '@sinclair/typebox'
import { oneOf, optional, text, textOr } from './schema.ts'

const breakpoint = { prompt_cache_breakpoint: optional(Type.Object({ mode: oneOf('explicit') })) }

export const TextPart = Type.Object({ type: Type.Literal('text'), text: text(), ...breakpoint })
const ImagePart = Type.Object({
  type: Type.Literal('image_url'),
  image_url: Type.Object({ url: text(), detail: optional(oneOf('auto', 'low', 'high', 'original')) }),
  ...breakpoint,
})
const AudioPart = Type.Object({
  type: Type.Literal('input_audio'),
  input_audio: Type.Object({ data: text(), format: oneOf('wav', 'mp3') }),
  ...breakpoint,
})
const FilePart = Type.Object({
  type: Type.Literal('file'),
  file: Type.Object({ filename: optional(text()), file_data: optional(text()), file_id: optional(text()) }),
  ...breakpoint,
})
const RefusalPart = Type.Object({ type: Type.Literal('refusal'), refusal: text() })

const FunctionCall = Type.Object({ name: text(), arguments: text() })
const ToolCall = Type.Union([
  Type.Object({ id: text(), type: Type.Literal('function'), function: FunctionCall }),
  Type.Object({ id: text(), type: Type.Literal('custom'), custom: Type.Object({ name: text(), input: text() }) }),
])

const UserMessage = Type.Object({
  role: Type.Literal('user'),
  content: textOr(TextPart, ImagePart, AudioPart, FilePart),
  name: optional(text()),
})
const SystemMessage = Type.Object({
  role: Type.Literal('system'),
  content: textOr(TextPart),
  name: optional(text()),
})
const DeveloperMessage = Type.Object({
  role: Type.Literal('developer'),
  content: textOr(TextPart),
  name: optional(text()),
})
const AssistantMessage = Type.Object({
  role: Type.Literal('assistant'),
  content: optional(textOr(TextPart, RefusalPart)),
  refusal: optional(text()),
  name: optional(text()),
  audio: optional(Type.Object({ id: text() })),
  tool_calls: optional(Type.Array(ToolCall, { maxItems: 128 })),
  function_call: optional(FunctionCall),
  // What answers carry, and clients send back with them.
  reasoning: optional(text()),
  reasoning_content: optional(text()),
  reasoning_details: optional(Type.Array(Type.Unknown())),
  annotations: optional(Type.Array(Type.Unknown())),
})
const ToolMessage = Type.Object({
  role: Type.Literal('tool'),
  content: textOr(TextPart),
  tool_call_id: text(),
})
const FunctionMessage = Type.Object({
  role: Type.Literal('function'),
  content: Type.Union([text(), Type.Null()]),
  name: text(),
})

export const MessageSchema = Type.Union([
  UserMessage,
  SystemMessage,
  DeveloperMessage,
  AssistantMessage,
  ToolMessage,
  FunctionMessage,
])
