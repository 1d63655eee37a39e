/** Valid conversations for property tests, written independently of the schema so that they test it too. */
import fc from 'fast-check'

export const text = fc.oneof(
  fc.string({ maxLength: 40 }),
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom('\u2028\u2029\u0085', '\ud800', 'data: [DONE]\n\n', '__proto__', '\0', '🧭'),
)
export const name = fc.string({ unit: fc.constantFrom(...'abzAZ09_-'), minLength: 1, maxLength: 64 })

/** Null counts as absent. */
const orNull = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: null, freq: 5 })

export const some = (fields: Record<string, fc.Arbitrary<unknown>>) =>
  fc.record(Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, orNull(value)])), {
    requiredKeys: [],
  })

export const textPart = fc.record({ type: fc.constant('text'), text })
export const parts = (part: fc.Arbitrary<unknown>) => fc.oneof(text, fc.array(part, { minLength: 1, maxLength: 2 }))
const userPart = fc.oneof(
  textPart,
  fc.record({ type: fc.constant('text'), text, prompt_cache_breakpoint: fc.constant({ mode: 'explicit' }) }),
  fc.record({
    type: fc.constant('image_url'),
    image_url: fc.record(
      { url: fc.constantFrom('https://example.com/a.png', 'data:image/png;base64,AAAA'), detail: fc.constant('low') },
      { requiredKeys: ['url'] },
    ),
  }),
  fc.constant({ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }),
  fc.record({ type: fc.constantFrom('video_url', 'thinking'), text: fc.jsonValue({ maxDepth: 2 }), data: text }),
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

/** Calls, and their results in any order. */
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
export const messages = fc.array(turn, { minLength: 1, maxLength: 4 }).map((turns) => turns.flat())
