/**
 * Any request to Anthropic's API, valid or not: every vendor accepts what it gets, and no error is Tollgate's fault.
 */
import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { encodeState } from '../../src/upstreams/dialects/reasoning-state.ts'
import { toSignature } from '../support/anthropic-answers.ts'
import { forAllTests } from '../support/lifetime.ts'
import { checkError, checkMessage, checkMessageStream } from '../support/messages-contract.ts'
import { startVendors, VENDORS } from './vendors.ts'

let key = ''
const vendors = forAllTests(() => startVendors(undefined, 'passthrough: false'))
beforeAll(() => {
  key = vendors.app.key()
})
beforeEach(() => vendors.play())

type Json = Record<string, unknown>

const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }).filter((each) => each.trim() !== '')
const maybe = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined })
const marks = { cache_control: maybe(fc.constantFrom({ type: 'ephemeral' }, { type: 'ephemeral', ttl: '1h' }, null)) }
const block = (type: string, fields: Record<string, fc.Arbitrary<unknown>> = {}) =>
  fc.record({ type: fc.constant(type), ...fields })

const png = { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' }
const pdf = { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' }
const words = block('text', { text, ...marks })
const said = fc.oneof(
  words,
  block('image', { source: fc.constant(png), ...marks }),
  block('document', { source: fc.constantFrom({ type: 'text', data: 'Words' }, pdf), title: maybe(text), ...marks }),
  block('search_result', { source: text, title: text, content: fc.constant([{ type: 'text', text: 'Found' }]) }),
  block('text', { text: fc.constant('') }),
  block('hologram', { light: fc.anything() }),
)
const sealed = fc.array(fc.record({ type: fc.constantFrom('reasoning.text', 'reasoning.encrypted', 'x'), data: text }))
const thought = fc.oneof(
  block('thinking', {
    thinking: maybe(text),
    signature: maybe(
      fc.oneof(
        fc.constantFrom('', 'tg1.', 'tg1.W10'),
        sealed.map((each) => encodeState(each)),
      ),
    ),
  }),
  // Signed by Claude, outside this server.
  text.map((thinking) => ({ type: 'thinking', thinking, signature: toSignature(thinking) })),
  block('redacted_thinking', {
    data: fc.oneof(
      fc.constantFrom('EqQB', 'tg1.%'),
      sealed.map((each) => encodeState(each)),
    ),
  }),
)
const input = fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 2 })

const tooled = (from: number, count: number) =>
  fc
    .record({
      before: fc.array(fc.oneof(thought, words), { maxLength: 3 }),
      inputs: fc.array(input, { minLength: count, maxLength: count }),
      results: fc.array(maybe(fc.oneof(text, fc.array(said, { maxLength: 2 }))), {
        minLength: count,
        maxLength: count,
      }),
      failed: maybe(fc.boolean()),
      after: fc.array(said, { maxLength: 2 }),
    })
    .map(({ before, inputs, results, failed, after }) => [
      {
        role: 'assistant',
        content: [
          ...before,
          { type: 'server_tool_use', id: 's', name: 'web_search', input: {} },
          ...inputs.map((each, at) => ({ type: 'tool_use', id: `toolu_${from}_${at}`, name: 'weather', input: each })),
        ],
      },
      {
        role: 'user',
        content: [
          ...results.map((content, at) => ({
            ...{ type: 'tool_result', tool_use_id: `toolu_${from}_${at}`, content, is_error: failed },
          })),
          ...after,
        ],
      },
    ])

const user = fc.record({
  role: fc.constantFrom('user', 'user', 'ctx'),
  content: fc.oneof(text, fc.array(said, { maxLength: 3 })),
})
const system = fc.record({
  role: fc.constant('system'),
  content: fc.oneof(text, fc.array(words, { minLength: 1, maxLength: 2 })),
})
const spoken = fc.array(fc.oneof(thought, words), { maxLength: 3 }).map((content) => ({ role: 'assistant', content }))
const first = fc.record({
  role: fc.constant('user'),
  content: fc.oneof(
    text,
    words.map((each) => [each]),
  ),
})

const conversation = fc
  .tuple(
    first,
    fc.array(
      fc.oneof(
        fc.tuple(user),
        fc.tuple(system),
        fc.tuple(spoken, first),
        fc.tuple(fc.nat(1e9), fc.integer({ min: 1, max: 3 })).chain(([from, count]) => tooled(from, count)),
      ),
      { maxLength: 4 },
    ),
  )
  .map(([begin, rest]) => [begin, ...rest.flat(), { role: 'user', content: 'Go on.' }] as Json[])

const tool = fc.record({
  name: fc.constantFrom('weather', 'clock', 'mcp__files__read'),
  description: maybe(text),
  input_schema: fc.constantFrom(
    { type: 'object', properties: { city: { type: 'string', minLength: 1 } }, required: ['city'] },
    {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: {},
      additionalProperties: false,
    },
  ),
  strict: maybe(fc.boolean()),
  ...marks,
})
const tools = fc
  .uniqueArray(tool, { selector: ({ name }) => name, maxLength: 3 })
  .map((own) => [...own, { type: 'computer_20250124', name: 'computer' }, { type: 'tomorrow' }])

const request = fc.record({
  messages: conversation,
  max_tokens: fc.integer({ min: 2_000, max: 100_000 }),
  system: maybe(
    fc.oneof(fc.string(), fc.array(fc.oneof(words, block('text', { text: fc.constant('') })), { maxLength: 3 })),
  ),
  tools: maybe(tools),
  tool_choice: maybe(
    fc.constantFrom({ type: 'auto' }, { type: 'any' }, { type: 'none' }, { type: 'tool', name: 'clock' }, null),
  ),
  thinking: maybe(
    fc.constantFrom(
      { type: 'adaptive' },
      { type: 'enabled', budget_tokens: 1_500 },
      { type: 'disabled' },
      { type: 'x' },
      null,
    ),
  ),
  output_config: maybe(fc.constantFrom({ effort: 'low' }, { effort: 'max' }, {}, null)),
  temperature: maybe(fc.constantFrom(0, 0.5, 1, null)),
  top_p: maybe(fc.constantFrom(0.9, null)),
  top_k: maybe(fc.constantFrom(5, null)),
  stop_sequences: maybe(fc.constantFrom([], ['END'])),
  metadata: maybe(fc.constantFrom({ user_id: 'u' }, {}, null)),
  service_tier: maybe(fc.constantFrom('auto', 'standard_only')),
  context_management: maybe(fc.anything()),
  stream: maybe(fc.boolean()),
})

async function send(body: Json, path = '/messages'): Promise<{ status: number; text: string }> {
  const response = await fetch(`${vendors.app.baseUrl}${path}`, {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { status: response.status, text: await response.text() }
}

describe.each(VENDORS)('for %s', (vendor) => {
  test('any valid request is accepted, and its response keeps the contract', async () => {
    await fc.assert(
      fc.asyncProperty(request, async (asked) => {
        const body: Json = { ...asked, model: `${vendor}/${vendor}` }
        const refused = vendors.refused[`${vendor}-1`] as string[]
        refused.length = 0
        const { status, text } = await send(body)
        expect({ status, text, refused }).toMatchObject({ status: 200, refused: [] })
        const message = body.stream ? checkMessageStream(text).message : checkMessage(text)
        expect(message.content.length).toBeGreaterThan(0)
      }),
      { numRuns: 150 },
    )
  })
})

const spoiled = fc
  .tuple(request, fc.infiniteStream(fc.nat(1_000)), fc.oneof(fc.jsonValue({ maxDepth: 1 }), fc.constant(undefined)))
  .map(([asked, chance, value]) => {
    const body = JSON.parse(JSON.stringify({ ...asked, model: 'openai/openai' }))
    let holder: Json = body
    for (;;) {
      const names = Object.keys(holder)
      const name = names[(chance.next().value ?? 0) % names.length] ?? 'x'
      const held = holder[name]
      const goesIn = typeof held === 'object' && held !== null && Object.keys(held).length > 0
      if (!goesIn || (chance.next().value ?? 0) % 4 === 0) {
        holder[name] = value
        return body as Json
      }
      holder = held as Json
    }
  })

test('any mutated request gets a response or an invalid-request error, and never a server error', async () => {
  const seen = { answered: 0, refused: 0 }
  await fc.assert(
    fc.asyncProperty(spoiled, async (body) => {
      for (const path of ['/messages', '/messages/count_tokens']) {
        const { status, text } = await send(body, path)
        if (status === 200) seen.answered += 1
        else {
          seen.refused += 1
          expect({ status: status < 500 ? 'theirs' : status, text }).toMatchObject({ status: 'theirs' })
          checkError(text)
        }
      }
    }),
    { numRuns: 300 },
  )
  expect(seen.answered > 50 && seen.refused > 50 ? 'both' : seen).toBe('both')
})
