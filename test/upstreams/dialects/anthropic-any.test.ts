/**
 * Whatever an upstream sends in Anthropic's format, in any order, its client gets a response of the API or an error.
 */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { UpstreamError } from '../../../src/domain/error.ts'
import { anthropic } from '../../../src/upstreams/dialects/anthropic/anthropic.ts'
import { toEvent } from '../../support/anthropic-answers.ts'
import { checkStream } from '../../support/contract.ts'
import { inPieces } from '../../support/cuts.ts'
import { playStream, toExpected, toShape } from '../../support/transcript.ts'

const SHAPE = toShape({ includeUsage: true })
const any = fc.jsonValue({ maxDepth: 2 })
const words = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 5 }),
  fc.constantFrom('\ud83c', '\udf89', '{"a":1}', ''),
  any,
)
const kinds = ['text', 'thinking', 'redacted_thinking', 'tool_use', 'server_tool_use', 'compaction', 'x']
const block = fc.record(
  {
    type: fc.oneof(fc.constantFrom(...kinds), any),
    ...{
      text: words,
      thinking: words,
      signature: words,
      data: words,
      id: words,
      name: words,
      input: any,
      citations: any,
    },
  },
  { requiredKeys: ['type'] },
)
const delta = fc.record(
  {
    type: fc.constantFrom(
      ...['text_delta', 'thinking_delta', 'signature_delta', 'input_json_delta', 'citations_delta', 'x'],
    ),
    ...{ text: words, thinking: words, signature: words, partial_json: words, citation: any },
    stop_reason: fc.oneof(fc.constantFrom('end_turn', 'tool_use', 'max_tokens', 'refusal'), any),
    stop_details: any,
  },
  { requiredKeys: ['type'] },
)
const usage = fc.oneof(
  any,
  fc.record({
    ...{ input_tokens: fc.oneof(fc.nat(), any), output_tokens: fc.oneof(fc.nat(), any), cache_creation: any },
    ...{ cache_read_input_tokens: fc.oneof(fc.nat(), any), cache_creation_input_tokens: fc.oneof(fc.nat(), any) },
    ...{ output_tokens_details: any, server_tool_use: any, service_tier: any, speed: any },
    iterations: fc.oneof(
      any,
      fc.array(fc.record({ type: fc.constantFrom('message', 'advisor_message'), input_tokens: any })),
    ),
  }),
)
const event = fc.record(
  {
    type: fc.constantFrom(
      ...[
        'message_start',
        'content_block_start',
        'content_block_delta',
        'content_block_stop',
        'message_delta',
        'ping',
        'x',
      ],
    ),
    ...{ index: fc.oneof(fc.nat(3), any), content_block: block, delta, usage, message: fc.record({ id: any, usage }) },
  },
  { requiredKeys: ['type', 'index', 'content_block', 'delta', 'usage', 'message'] },
)
const START = toEvent({ type: 'message_start', message: { id: 'm', usage: { input_tokens: 1, output_tokens: 1 } } })
const STOP = toEvent({ type: 'message_stop' })

test('a stream', () => {
  let whole = 0
  fc.assert(
    fc.property(fc.array(event, { maxLength: 25 }), fc.array(fc.nat(3_000), { maxLength: 5 }), (events, places) => {
      const bytes = Buffer.from([START, ...events.map((each) => toEvent(each)), STOP].join(''))
      const played = playStream(inPieces(bytes, places), SHAPE, anthropic)
      const { error } = checkStream(played.text, { includeUsage: true })
      expect(error === null).toBe(played.failure === null)
      if (error === null) whole++
    }),
    { numRuns: 1_000 },
  )
  expect(whole).toBeGreaterThan(200)
})

test('a whole response', () => {
  fc.assert(
    fc.property(
      fc.record({ content: fc.oneof(fc.array(fc.oneof(block, any)), any), usage, stop_reason: any }),
      (answer) => {
        try {
          const events = anthropic.whole(answer, toExpected())
          expect(events.at(-1)).toEqual({ kind: 'done' })
          expect(events.filter(({ kind }) => kind === 'finish')).toHaveLength(1)
        } catch (error) {
          expect(error).toBeInstanceOf(UpstreamError)
        }
      },
    ),
    { numRuns: 1_000 },
  )
})
