/**
 * Chat requests for property tests: valid ones of every shape that the contract's sections 1 and 2 know, and ways to
 * break them. Written by hand beside the schema, so that the schema is tested too.
 */
import fc from 'fast-check'

const text = fc.oneof(
  fc.string({ maxLength: 40 }),
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom('\u2028\u2029\u0085', '\ud800', 'data: [DONE]\n\n', '__proto__', '\0', '🧭'),
)
const name = fc.string({ unit: fc.constantFrom(...'abzAZ09_-'), minLength: 1, maxLength: 64 })

/** Null counts as absent. */
const orNull = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: null, freq: 5 })

/** Some of the fields, each as it is or null. */
const some = (fields: Record<string, fc.Arbitrary<unknown>>) =>
  fc.record(Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, orNull(value)])), {
    requiredKeys: [],
  })

const textPart = fc.record({ type: fc.constant('text'), text })
const parts = (part: fc.Arbitrary<unknown>) => fc.oneof(text, fc.array(part, { minLength: 1, maxLength: 2 }))
const userPart = fc.oneof(
  textPart,
  fc.record(
    { type: fc.constant('text'), text, prompt_cache_breakpoint: fc.constant({ mode: 'explicit' }) },
    { noNullPrototype: true },
  ),
  fc.record({
    type: fc.constant('image_url'),
    image_url: fc.record(
      { url: fc.constantFrom('https://example.com/a.png', 'data:image/png;base64,AAAA'), detail: fc.constant('low') },
      { requiredKeys: ['url'] },
    ),
  }),
  fc.constant({ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }),
  fc.constant({ type: 'file', file: { filename: 'a.txt', file_data: 'data:text/plain;base64,AAAA' } }),
)

const speakers = fc.oneof(
  fc.tuple(fc.constant({ role: 'user' }), fc.record({ content: parts(userPart) }), some({ name })),
  fc.tuple(
    fc.constantFrom({ role: 'system' }, { role: 'developer' }),
    fc.record({ content: parts(textPart) }),
    some({ name }),
  ),
  fc.tuple(
    fc.constant({ role: 'assistant' }),
    fc.record({
      content: fc.oneof(
        parts(textPart),
        text.map((refusal) => [{ type: 'refusal', refusal }]),
      ),
    }),
    some({ name, refusal: text, reasoning: text, reasoning_content: text, tool_calls: fc.constant([]) }),
  ),
)

const call = fc.oneof(
  fc.record({ type: fc.constant('function'), function: fc.record({ name, arguments: fc.json({ maxDepth: 1 }) }) }),
  fc.record({ type: fc.constant('custom'), custom: fc.record({ name, input: text }) }),
)
const answer = parts(textPart)

/** An assistant that calls, and everybody who answers, in any order. */
const calling = fc
  .tuple(fc.array(fc.tuple(call, answer), { minLength: 1, maxLength: 3 }), fc.constantFrom({}, { content: null }))
  .chain(([calls, content]) => {
    const numbered = calls.map(([called, replied], at) => ({ called: { id: `call_${at}`, ...called }, replied }))
    const replies = numbered.map(({ called, replied }) => ({
      role: 'tool',
      tool_call_id: called.id,
      content: replied,
    }))
    const asked = { role: 'assistant', ...content, tool_calls: numbered.map(({ called }) => called) }
    return fc
      .shuffledSubarray(replies, { minLength: replies.length })
      .map((shuffled): Record<string, unknown>[] => [asked, ...shuffled])
  })

const legacy = fc
  .tuple(name, fc.json({ maxDepth: 1 }), orNull(text))
  .map(([called, input, content]): Record<string, unknown>[] => [
    { role: 'assistant', content: null, function_call: { name: called, arguments: input } },
    { role: 'function', name: called, content },
  ])

const turn = fc.oneof(
  { weight: 4, arbitrary: speakers.map((fields): Record<string, unknown>[] => [Object.assign({}, ...fields)]) },
  { weight: 2, arbitrary: calling },
  { weight: 1, arbitrary: legacy },
)
const messages = fc.array(turn, { minLength: 1, maxLength: 4 }).map((turns) => turns.flat())

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

/** Tools, and what may be said about them. */
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
  metadata: fc.dictionary(fc.string({ maxLength: 64 }), fc.string({ maxLength: 512 }), { maxKeys: 16 }),
  store: fc.boolean(),
  service_tier: fc.constantFrom('auto', 'default', 'flex', 'scale', 'priority', 'fast'),
  safety_identifier: fc.string({ maxLength: 64 }),
  prompt_cache_key: text,
  prompt_cache_retention: fc.constantFrom('in_memory', '24h'),
  prompt_cache_options: fc.constantFrom({}, { ttl: '30m' }, { mode: 'explicit' }),
  user: text,
  moderation: fc.constant({ model: 'm', policy: { input: { mode: 'score' } } }),
  web_search_options: fc.constantFrom({}, { search_context_size: 'low' }),
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

/** Fields that the contract does not know: other servers' extensions. Null is a value there. */
const unknown = fc.dictionary(
  fc.oneof(
    fc.constantFrom('top_k', 'min_p', 'chat_template_kwargs', 'provider', '__proto__'),
    name.map((key) => `x_${key}`),
  ),
  fc.jsonValue({ maxDepth: 2 }),
  { maxKeys: 3 },
)

/** A request that is valid for a model that can do everything. */
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

/** Pieces of JSON text that parsers, checkers and writers trip over. */
const HOSTILE = [
  '1e400',
  '-1e400',
  '1e-400',
  '-0',
  '9007199254740993',
  '123456789012345678901234567890',
  '0.1e1',
  '2.0',
  '"\\ud800"',
  '"\\u0000"',
  '{"a":1,"a":{}}',
  '{"__proto__":{"model":1}}',
  '{"constructor":{"prototype":{}}}',
  '{"toJSON":1,"length":-1,"then":true}',
  `"${'x'.repeat(100_000)}"`,
  `[${'0,'.repeat(5_000)}0]`,
  ...[50, 3_000, 20_000].flatMap((depth) => [
    `${'['.repeat(depth)}${']'.repeat(depth)}`,
    `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`,
  ]),
]

interface Mutation {
  at: number
  how: 'drop' | 'replace' | 'insert'
  key: string
  /** JSON text. */
  value: string
}

const mutation: fc.Arbitrary<Mutation> = fc.record({
  at: fc.nat({ max: 10_000 }),
  how: fc.constantFrom('drop', 'replace', 'insert'),
  key: fc.constantFrom(
    'role',
    'content',
    'type',
    'function',
    'tools',
    'stream',
    'n',
    'strict',
    '$ref',
    'properties',
    'x',
  ),
  value: fc.oneof(
    fc.constantFrom(...HOSTILE),
    fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify(value)),
    fc.constantFrom('null', 'true', '""', '[]', '{}', '-1', '0', '129', '"auto"', '"assistant"', '{"type":"object"}'),
  ),
})

/** The JSON text of a request that was valid before parts of it were dropped, replaced or added to. */
export const anyBrokenText = (model: string): fc.Arbitrary<string> =>
  fc.tuple(anyRequest(model), fc.array(mutation, { minLength: 1, maxLength: 4 })).map(([request, mutations]) => {
    const pieces: string[] = []
    const root: Record<string, unknown> = structuredClone(request)
    for (const { at, how, key, value } of mutations) {
      const places = [...placesIn(root)]
      const place = places[at % places.length]
      if (!place) continue
      const [holder, name] = place
      // Hostile text is no value of ours: it takes its place once everything else is written.
      const mark = `@@${pieces.push(value) - 1}@@`
      if (how === 'drop') Reflect.deleteProperty(holder, name)
      else if (how === 'replace') Reflect.set(holder, name, mark)
      else if (Array.isArray(holder)) holder.push(mark)
      else Reflect.set(holder, key, mark)
    }
    return JSON.stringify(root).replace(/"@@(\d+)@@"/g, (_, index) => pieces[Number(index)] ?? 'null')
  })

/** Every place in a value, as what holds it and the name that it has there. */
function* placesIn(holder: object): Generator<[object, string]> {
  for (const [name, value] of Object.entries(holder)) {
    yield [holder, name]
    if (typeof value === 'object' && value !== null) yield* placesIn(value)
  }
}
