/**
 * Our wire types compared with those of the official client. `tsc` checks most of this file: a line with `Assignable`
 * stops compiling when one side changes. A test checks that every field of the client's types passes validation.
 */
import { describe, expect, test } from 'bun:test'
import type OpenAI from 'openai'
import type { ChatCompletionCreateParamsBase } from 'openai/resources/chat/completions/completions'
import { type ErrorBody, GatewayError } from '../../../src/domain/error.ts'
import type { AnswerOrigin, FinishReason, Logprobs } from '../../../src/domain/events.ts'
import type { Model } from '../../../src/domain/models.ts'
import type { CanonicalRequest, Message } from '../../../src/domain/request.ts'
import type { ChatCompletion, ChatMessage, Delta, WireUsage } from '../../../src/formats/chat/answer.ts'
import { validate } from '../../../src/formats/chat/request.ts'

/** Compiles only if a `From` is assignable to a `To`. */
type Assignable<From extends To, To> = [From, To]

/** Compiles only if nothing remains. */
type None<Left extends never> = Left

type Params = OpenAI.Chat.ChatCompletionCreateParams
type Base = ChatCompletionCreateParamsBase

// Our responses in the client's types. Annotations and audio are the upstream's own and forwarded unchanged, so we
// type them only as objects.
type Passed = 'annotations' | 'audio'
type Sent = Omit<ChatCompletion, 'choices' | 'moderation'> & {
  choices: (Omit<ChatCompletion['choices'][number], 'message'> & { message: Omit<ChatMessage, Passed> })[]
}
type Frame = Pick<ChatCompletion, 'id' | 'created' | 'model'> &
  Omit<AnswerOrigin, 'moderation'> & {
    object: 'chat.completion.chunk'
    usage?: WireUsage | null
    choices: {
      index: number
      delta: Omit<Delta, Passed>
      finish_reason: FinishReason | null
      logprobs?: Logprobs | null
    }[]
  }

export type Checked = [
  // Responses.
  Assignable<Sent, OpenAI.Chat.ChatCompletion>,
  Assignable<Frame, OpenAI.Chat.ChatCompletionChunk>,
  Assignable<WireUsage, OpenAI.CompletionUsage>,
  Assignable<Model, OpenAI.Model>,
  Assignable<ErrorBody['error'], OpenAI.ErrorObject>,
  // Requests: whole ones, every message, and no unknown parameter.
  Assignable<Params, CanonicalRequest>,
  Assignable<OpenAI.Chat.ChatCompletionMessageParam, Message>,
  None<Exclude<keyof Base, keyof CanonicalRequest>>,
  // A message of ours can be sent back, by the client's types and by ours.
  Assignable<Omit<ChatMessage, Passed>, OpenAI.Chat.ChatCompletionMessageParam>,
  Assignable<Omit<ChatMessage, Passed>, Message>,
]

const text = [{ type: 'text' as const, text: 'x', prompt_cache_breakpoint: { mode: 'explicit' as const } }]
const named = { name: 'weather', description: 'd', parameters: { type: 'object', properties: {} } }

const messages: OpenAI.Chat.ChatCompletionMessageParam[] = [
  { role: 'developer', content: text, name: 'd' },
  { role: 'system', content: text, name: 's' },
  {
    role: 'user',
    name: 'u',
    content: [
      ...text,
      { type: 'image_url', image_url: { url: 'https://example.com/a.png', detail: 'original' } },
      { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
      { type: 'file', file: { filename: 'a.pdf', file_data: 'AAAA', file_id: 'file-1' } },
    ],
  },
  {
    role: 'assistant',
    content: null,
    refusal: null,
    name: 'a',
    audio: { id: 'audio_1' },
    tool_calls: [
      { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{}' } },
      { id: 'call_2', type: 'custom', custom: { name: 'note', input: 'x' } },
    ],
  },
  { role: 'tool', tool_call_id: 'call_1', content: text },
  { role: 'tool', tool_call_id: 'call_2', content: 'x' },
  { role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }] },
  { role: 'assistant', function_call: { name: 'weather', arguments: '{}' } },
  { role: 'function', name: 'weather', content: null },
]

/** Every parameter of the client at once. With `Required`, a new parameter of the client is a compile error. */
const everything: Required<Base> = {
  model: 'a/b',
  messages,
  audio: { format: 'wav', voice: { id: 'voice_1' } },
  frequency_penalty: -2,
  function_call: 'auto',
  functions: [named],
  logit_bias: { '50256': -100 },
  logprobs: true,
  max_completion_tokens: 10,
  max_tokens: null,
  metadata: { team: 'a' },
  modalities: ['text', 'audio'],
  moderation: { model: 'm', policy: { input: { mode: 'score' }, output: null } },
  n: 2,
  parallel_tool_calls: false,
  prediction: { type: 'content', content: text },
  presence_penalty: 2,
  prompt_cache_key: 'k',
  prompt_cache_options: { mode: 'explicit', ttl: '30m' },
  prompt_cache_retention: '24h',
  reasoning_effort: 'xhigh',
  response_format: { type: 'json_schema', json_schema: { name: 'x', schema: named.parameters, strict: null } },
  safety_identifier: 's',
  seed: 1,
  service_tier: 'flex',
  stop: ['a', 'b'],
  store: false,
  stream: true,
  stream_options: { include_usage: true, include_obfuscation: false },
  temperature: 2,
  tool_choice: {
    type: 'allowed_tools',
    allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'weather' } }] },
  },
  tools: [
    { type: 'function', function: { ...named, strict: null } },
    { type: 'custom', custom: { name: 'note', description: 'd', format: { type: 'text' } } },
    {
      type: 'custom',
      custom: { name: 'sum', format: { type: 'grammar', grammar: { definition: '\\d+', syntax: 'regex' } } },
    },
  ],
  top_logprobs: 20,
  top_p: 1,
  user: 'u',
  verbosity: 'low',
  web_search_options: {
    search_context_size: 'low',
    user_location: { type: 'approximate', approximate: { city: 'Oslo', country: 'NO', region: 'O', timezone: 'CET' } },
  },
}

const problemOf = (body: unknown) => {
  const checked = validate(body)
  return checked instanceof GatewayError ? { message: checked.message, param: checked.param } : null
}

describe('a request with all fields of the official client', () => {
  test('passes validation with every parameter and every form of a message', () => {
    expect(problemOf(everything)).toBeNull()
  })

  test("may have null wherever the client's types allow null", () => {
    const { model, ...optional } = everything
    const nulls = Object.fromEntries(Object.keys(optional).map((key) => [key, null]))
    expect(problemOf({ ...nulls, model, messages })).toBeNull()
  })

  test('may have every form of tool_choice', () => {
    const choices: OpenAI.Chat.ChatCompletionToolChoiceOption[] = [
      'none',
      'auto',
      'required',
      { type: 'function', function: { name: 'weather' } },
      { type: 'custom', custom: { name: 'note' } },
    ]
    for (const tool_choice of choices) expect(problemOf({ ...everything, tool_choice })).toBeNull()
  })
})
