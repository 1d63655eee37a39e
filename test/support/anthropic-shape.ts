/** The shape of a Messages request: unknown fields are refused, as by the real service. */
import { z } from 'zod'

const cache_control = z.strictObject({ type: z.literal('ephemeral'), ttl: z.enum(['5m', '1h']).optional() }).optional()
const text = z.strictObject({
  type: z.literal('text'),
  text: z.string().regex(/\S/, 'text content blocks must contain non-whitespace text'),
  cache_control,
})
const base64 = z.string().regex(/^[A-Za-z0-9+/]+={0,2}$/)
const url = z.strictObject({ type: z.literal('url'), url: z.url() })
const file = z.strictObject({ type: z.literal('file'), file_id: z.string() })
const image = z.strictObject({
  type: z.literal('image'),
  source: z.discriminatedUnion('type', [
    z.strictObject({
      type: z.literal('base64'),
      media_type: z.enum(['image/jpeg', 'image/png', 'image/gif', 'image/webp']),
      data: base64,
    }),
    url,
    file,
  ]),
  cache_control,
})
const document = z.strictObject({
  type: z.literal('document'),
  source: z.discriminatedUnion('type', [
    z.strictObject({ type: z.literal('base64'), media_type: z.literal('application/pdf'), data: base64 }),
    z.strictObject({ type: z.literal('text'), media_type: z.literal('text/plain'), data: z.string() }),
    z.strictObject({ type: z.literal('content'), content: z.array(z.discriminatedUnion('type', [text, image])) }),
    url,
    file,
  ]),
  title: z.string().optional(),
  citations: z.strictObject({ enabled: z.boolean() }).optional(),
  cache_control,
})
const id = z.string().regex(/^[a-zA-Z0-9_-]+$/)
const name = z.string().regex(/^[a-zA-Z0-9_-]{1,128}$/)
const said = z.discriminatedUnion('type', [text, image, document])
const toolResult = z.strictObject({
  type: z.literal('tool_result'),
  tool_use_id: id,
  content: z.union([z.string(), z.array(said)]).optional(),
  is_error: z.boolean().optional(),
  cache_control,
})
const toolUse = z.strictObject({
  type: z.literal('tool_use'),
  id,
  name,
  input: z.record(z.string(), z.unknown()),
  cache_control,
})
const thinking = z.strictObject({ type: z.literal('thinking'), thinking: z.string(), signature: z.string().min(1) })
const redacted = z.strictObject({ type: z.literal('redacted_thinking'), data: z.string().min(1) })

const filled = <T extends z.ZodType>(block: T) => z.union([z.string().min(1), z.array(block).min(1)])
const message = z.discriminatedUnion('role', [
  z.strictObject({
    role: z.literal('user'),
    content: filled(z.discriminatedUnion('type', [text, image, document, toolResult])),
  }),
  z.strictObject({
    role: z.literal('assistant'),
    content: filled(z.discriminatedUnion('type', [text, thinking, redacted, toolUse])),
  }),
  z.strictObject({ role: z.literal('system'), content: filled(text) }),
])

const tool = z.union([
  z.strictObject({
    name,
    description: z.string().optional(),
    input_schema: z.looseObject({ type: z.literal('object') }),
    strict: z.boolean().optional(),
    eager_input_streaming: z.boolean().optional(),
    cache_control,
  }),
  z.strictObject({
    type: z.literal('web_search_20250305'),
    name: z.literal('web_search'),
    user_location: z.looseObject({ type: z.literal('approximate') }).optional(),
  }),
])
const disable_parallel_tool_use = z.boolean().optional()
const tool_choice = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('none') }),
  z.strictObject({ type: z.enum(['auto', 'any']), disable_parallel_tool_use }),
  z.strictObject({ type: z.literal('tool'), name, disable_parallel_tool_use }),
])
const display = z.enum(['summarized', 'omitted']).optional()

export const MessagesBody = z.strictObject({
  model: z.string().min(1),
  max_tokens: z.int().min(1),
  messages: z.array(message).min(1),
  system: z.union([z.string(), z.array(text)]).optional(),
  tools: z.array(tool).optional(),
  tool_choice: tool_choice.optional(),
  thinking: z
    .discriminatedUnion('type', [
      z.strictObject({ type: z.literal('disabled') }),
      z.strictObject({ type: z.literal('adaptive'), display }),
      z.strictObject({ type: z.literal('enabled'), budget_tokens: z.int().min(1024), display }),
    ])
    .optional(),
  output_config: z
    .strictObject({
      effort: z.string().optional(),
      format: z.strictObject({ type: z.literal('json_schema'), schema: z.looseObject({}) }).optional(),
    })
    .optional(),
  temperature: z.number().min(0).max(1).optional(),
  top_p: z.number().min(0).max(1).optional(),
  top_k: z.int().min(0).optional(),
  stop_sequences: z.array(z.string().regex(/\S/)).optional(),
  stream: z.boolean().optional(),
  metadata: z.strictObject({ user_id: z.string().max(256) }).optional(),
  service_tier: z.enum(['auto', 'standard_only']).optional(),
  /** Only accepted with its beta header. */
  context_management: z.looseObject({ edits: z.array(z.looseObject({ type: z.string() })).optional() }).optional(),
  cache_control,
})

export type MessagesBody = z.infer<typeof MessagesBody>
