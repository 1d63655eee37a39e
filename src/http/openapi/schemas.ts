/** Response schemas of the public API, used only for its description. */
import { Type } from '@sinclair/typebox'
import { Count, describes, orNull, Text, TextOrNull, wordOf } from '../../documents/fields.ts'
import { PublicModel } from '../../documents/model.ts'
import type { ErrorBody as WireError } from '../../domain/error.ts'
import type { AnswerOrigin, Logprobs as WireLogprobs } from '../../domain/events.ts'
import type {
  ChatMessage,
  Choice,
  Delta,
  ChatCompletion as WireCompletion,
  ToolCall as WireToolCall,
  WireUsage,
} from '../../formats/chat/answer.ts'

const Things = Type.Array(Type.Object({}))
const finish_reason = wordOf(['stop', 'length', 'tool_calls', 'content_filter', 'function_call'] as const)

const Logprob = Type.Object({ token: Text, logprob: Type.Number(), bytes: orNull(Type.Array(Count)) })
const Tokens = orNull(Type.Array(Type.Object({ ...Logprob.properties, top_logprobs: Type.Array(Logprob) })))
const Logprobs = describes<WireLogprobs>()(Type.Object({ content: Tokens, refusal: Tokens }))

const FunctionCall = Type.Object({ name: Text, arguments: Type.String({ description: 'JSON.' }) })
const CustomCall = Type.Object({ name: Text, input: Text })
const ToolCall = describes<WireToolCall>()(
  Type.Union([
    Type.Object({ id: Text, type: Type.Literal('function'), function: FunctionCall }),
    Type.Object({ id: Text, type: Type.Literal('custom'), custom: CustomCall }),
  ]),
)

const Beside = {
  reasoning: Type.Optional(Text),
  reasoning_content: Type.Optional(Type.String({ description: 'The same text as `reasoning`.' })),
  reasoning_details: Type.Optional(Things),
  audio: Type.Optional(Type.Object({})),
  images: Type.Optional(
    Type.Array(Type.Object({}), { description: 'Images that the model generated, as parts of type `image_url`.' }),
  ),
}

const Message = describes<ChatMessage>()(
  Type.Object({
    role: Type.Literal('assistant'),
    content: TextOrNull,
    refusal: TextOrNull,
    annotations: Things,
    ...Beside,
    tool_calls: Type.Optional(Type.Array(ToolCall)),
    function_call: Type.Optional(FunctionCall),
  }),
)

const Origin = {
  service_tier: Type.Optional(wordOf(['auto', 'default', 'flex', 'scale', 'priority', 'fast'] as const)),
  system_fingerprint: Type.Optional(Text),
  moderation: Type.Optional(Type.Object({})),
}
describes<AnswerOrigin>()(Type.Object(Origin))

/** Absent in passed-through responses. */
export const Costs = {
  cost_nano_usd: Type.Optional(
    Type.Integer({
      description: 'Cost in nano-dollars. Absent if `x-tollgate-passthrough` is `true`.',
    }),
  ),
  cost: Type.Optional(Type.Number({ description: 'Cost in USD.' })),
}

const some = Type.Optional(Count)
export const ChatUsage = describes<WireUsage>()(
  Type.Object({
    prompt_tokens: Count,
    completion_tokens: Count,
    total_tokens: Count,
    prompt_tokens_details: Type.Object({
      ...{ cached_tokens: Count, cache_write_tokens: some, audio_tokens: some, image_tokens: some },
    }),
    completion_tokens_details: Type.Object({ reasoning_tokens: Count, audio_tokens: some, image_tokens: some }),
    cost_nano_usd: Type.Integer({ description: 'Cost in nano-dollars.' }),
    cost: Type.Number({ description: 'Cost in USD.' }),
  }),
)

const Envelope = { id: Text, created: Type.Integer({ description: 'Seconds since 1970.' }), model: Text, ...Origin }

export const ChatCompletion = describes<WireCompletion>()(
  Type.Object({
    ...Envelope,
    object: Type.Literal('chat.completion'),
    choices: Type.Array(
      describes<Choice>()(Type.Object({ index: Count, message: Message, logprobs: orNull(Logprobs), finish_reason })),
    ),
    usage: ChatUsage,
  }),
)

const ToolCallDelta = Type.Object({
  index: Count,
  id: Type.Optional(Text),
  type: Type.Optional(wordOf(['function', 'custom'] as const)),
  function: Type.Optional(Type.Partial(FunctionCall)),
  custom: Type.Optional(Type.Partial(CustomCall)),
})

export const ChatCompletionChunk = Type.Object({
  ...Envelope,
  object: Type.Literal('chat.completion.chunk'),
  choices: Type.Array(
    Type.Object({
      index: Count,
      delta: describes<Delta>()(
        Type.Object({
          role: Type.Optional(Type.Literal('assistant')),
          content: Type.Optional(TextOrNull),
          refusal: Type.Optional(TextOrNull),
          annotations: Type.Optional(Things),
          ...Beside,
          tool_calls: Type.Optional(Type.Array(ToolCallDelta)),
          function_call: Type.Optional(Type.Partial(FunctionCall)),
        }),
      ),
      logprobs: Type.Optional(orNull(Logprobs)),
      finish_reason: orNull(finish_reason),
    }),
  ),
  usage: Type.Optional(orNull(ChatUsage)),
})

export const ModelList = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(PublicModel),
  has_more: Type.Literal(false),
  first_id: TextOrNull,
  last_id: TextOrNull,
})

export const ApiError = describes<WireError>()(
  Type.Object({
    error: Type.Object({
      message: Text,
      type: Text,
      param: orNull(Type.String({ description: 'The invalid field.' })),
      code: TextOrNull,
    }),
  }),
)

export const Health = Type.Object({
  status: wordOf(['ok', 'degraded', 'starting', 'draining', 'ledger_unavailable'] as const),
})
