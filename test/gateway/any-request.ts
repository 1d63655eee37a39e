/** Valid chat requests for property tests, written independently of the schema so that they test it too. */
import fc from 'fast-check'
import { messages, name, parts, some, text, textPart } from './any-messages.ts'

const LOOSE = { type: 'object', properties: { city: { type: 'string', minLength: 1 } }, 'x-note': [null, 1] }
const STRICT = {
  type: 'object',
  properties: { city: { type: ['string', 'null'] }, kind: { enum: ['a', 'b'] } },
  required: ['city', 'kind'],
  additionalProperties: false,
}

const described = some({ description: text })
const functionTool = (named: string) =>
  fc
    .tuple(
      described,
      fc.constantFrom(
        {},
        { parameters: null },
        { parameters: LOOSE },
        { parameters: LOOSE, strict: false },
        { parameters: STRICT, strict: true },
      ),
    )
    .map(([more, schema]) => ({ type: 'function', function: { name: named, ...more, ...schema } }))
const customTool = (named: string) =>
  fc
    .tuple(
      described,
      some({
        format: fc.constantFrom(
          { type: 'text' },
          { type: 'grammar', grammar: { definition: '[a-z]+', syntax: 'regex' } },
        ),
      }),
    )
    .map((more) => ({ type: 'custom', custom: Object.assign({ name: named }, ...more) }))

const tooled = fc
  .uniqueArray(name, { minLength: 1, maxLength: 3 })
  .chain((names) => fc.tuple(...names.map((named) => fc.oneof(functionTool(named), customTool(named)))))
  .chain((tools) => {
    const choices = tools.map((tool) =>
      'custom' in tool
        ? { type: 'custom', custom: { name: tool.custom.name } }
        : { type: 'function', function: { name: tool.function.name } },
    )
    const allowed = { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: choices } }
    const tool_choice = fc.constantFrom('none', 'auto', 'required', ...choices, allowed)
    return some({ tool_choice, parallel_tool_calls: fc.boolean() }).map((more) => ({ tools, ...more }))
  })

const functions = fc
  .record({ functions: fc.constant([{ name: 'weather', description: 'd', parameters: LOOSE }]) })
  .chain((given) =>
    some({ function_call: fc.constantFrom('none', 'auto', { name: 'weather' }) }).map((more) => ({
      ...given,
      ...more,
    })),
  )

const format = fc.constantFrom(
  {},
  { response_format: { type: 'text' } },
  { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: LOOSE } } },
  { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: STRICT, strict: true } } },
  { response_format: null },
)

const streaming = fc.oneof(
  some({ stream: fc.constant(false) }),
  some({ stream_options: fc.dictionary(fc.constantFrom('include_usage', 'include_obfuscation'), fc.boolean()) }).map(
    (more) => ({ stream: true, ...more }),
  ),
)

const number = (min: number, max: number) => fc.double({ min, max, noNaN: true })
const parameters = some({
  temperature: number(0, 2),
  top_p: number(0, 1),
  n: fc.integer({ min: 1, max: 4 }),
  stop: fc.oneof(text, fc.array(text, { minLength: 1, maxLength: 4 })),
  frequency_penalty: number(-2, 2),
  presence_penalty: number(-2, 2),
  logit_bias: fc.dictionary(fc.nat().map(String), fc.integer({ min: -100, max: 100 })),
  seed: fc.maxSafeInteger(),
  reasoning_effort: fc.constantFrom('none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'),
  verbosity: fc.constantFrom('low', 'medium', 'high'),
  prediction: parts(textPart).map((content) => ({ type: 'content', content })),
  metadata: fc.dictionary(
    name.map((key) => `x_${key}`),
    fc.jsonValue({ maxDepth: 1 }),
    { maxKeys: 5 },
  ),
  store: fc.boolean(),
  service_tier: fc.constantFrom('auto', 'default', 'flex'),
  safety_identifier: fc.string({ maxLength: 64 }),
  prompt_cache_key: text,
  prompt_cache_retention: fc.constantFrom('in_memory', '24h'),
  prompt_cache_options: fc.constantFrom({}, { ttl: '30m' }, { mode: 'explicit' }),
  user: text,
  moderation: fc.constant({ model: 'm', policy: { input: { mode: 'score' } } }),
})

const exclusive = fc.tuple(
  fc.oneof(some({ max_tokens: fc.integer({ min: 1, max: 1000 }) }), some({ max_completion_tokens: fc.constant(7) })),
  fc.oneof(
    some({ logprobs: fc.boolean() }),
    some({ top_logprobs: fc.integer({ min: 0, max: 20 }) }).map((more) => ({ logprobs: true, ...more })),
  ),
  fc.constantFrom(
    {},
    { modalities: ['text'] },
    { modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } },
    { audio: null, modalities: null },
  ),
  fc.oneof(fc.constantFrom({}, { tools: null }, { tools: [] }), tooled, functions),
)

/** Other servers' extensions, other gateways' routing fields, and variants of the contract's names. */
export const EXTENSIONS = ['top_k', 'min_p', 'chat_template_kwargs', '__proto__']
export const LEFT_OUT = ['provider', 'fallbacks', 'extra_body', 'apiBase', 'Model', 'MAX_TOKENS', 'Service-Tier']

/** In unknown fields, null counts as a value. */
const unknown = fc.dictionary(
  fc.oneof(
    fc.constantFrom(...EXTENSIONS, ...LEFT_OUT),
    name.map((key) => `x_${key}`),
  ),
  fc.jsonValue({ maxDepth: 2 }),
  { maxKeys: 3 },
)

export const anyRequest = (model: string): fc.Arbitrary<Record<string, unknown>> =>
  fc
    .tuple(unknown, parameters, exclusive, format, streaming, messages)
    .map(([extra, more, others, wanted, streamed, said]) => ({
      ...extra,
      ...more,
      ...Object.assign({}, ...others),
      ...wanted,
      ...streamed,
      model,
      messages: said,
    }))
