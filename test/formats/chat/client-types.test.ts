/**
 * Our wire types beside those of the official client. Most of this file is checked by `tsc`: a line that says
 * `Assignable` stops compiling when one side moves. What only running code can show, that every field the client has
 * a type for passes validation, is a test.
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

/** Compiles only where a `From` may stand wherever a `To` is expected. */
type Assignable<From extends To, To> = [From, To]

/** Compiles only where nothing is left over. */
type None<Left extends never> = Left

type Params = OpenAI.Chat.ChatCompletionCreateParams
type Base = ChatCompletionCreateParamsBase

// What we send, as a client has it typed. Annotations and audio are the upstream's own, passed on as they came: we
// know them as objects and no more.
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
  // From us to the client.
  Assignable<Sent, OpenAI.Chat.ChatCompletion>,
  Assignable<Frame, OpenAI.Chat.ChatCompletionChunk>,
  Assignable<WireUsage, OpenAI.CompletionUsage>,
  Assignable<Model, OpenAI.Model>,
  Assignable<ErrorBody['error'], OpenAI.ErrorObject>,
  // From the client to us: whole requests, every message, and no parameter that we have not heard of.
  Assignable<Params, CanonicalRequest>,
  Assignable<OpenAI.Chat.ChatCompletionMessageParam, Message>,
  None<Exclude<keyof Base, keyof CanonicalRequest>>,
  // And round again: a message that we sent may be sent back, by the client's types and by ours.
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

/** Every parameter of the client at once. `Required` makes a new one of theirs a compile error here. */
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

describe('what the official client has a type for', () => {
  test('passes validation, every parameter and every shape of a message at once', () => {
    expect(problemOf(everything)).toBeNull()
  })

  test('may be null wherever the client may say null', () => {
    const { model, ...optional } = everything
    const nulls = Object.fromEntries(Object.keys(optional).map((key) => [key, null]))
    expect(problemOf({ ...nulls, model, messages })).toBeNull()
  })

  test('may say every form of a choice of tools', () => {
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
