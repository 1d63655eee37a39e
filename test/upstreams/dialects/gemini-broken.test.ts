/** Whatever an upstream sends in Gemini's format, a client gets a response of the contract, or an error. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { UpstreamError } from '../../../src/domain/error.ts'
import type { AnswerEvent } from '../../../src/domain/events.ts'
import { NO_USAGE } from '../../../src/domain/usage.ts'
import { toGatewayError } from '../../../src/gateway/delivery.ts'
import { gemini } from '../../../src/upstreams/dialects/gemini/gemini.ts'
import { checkStream, checkWhole } from '../../support/contract.ts'
import { toTarget } from '../../support/snapshot.ts'
import { createWriter, toShape, writeWhole } from '../../support/transcript.ts'

const odd = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom('', '\ud83d', '__proto__', -1, 0.5, 1e300, [], {}, null, 'constructor'),
)
const orOdd = (value: fc.Arbitrary<unknown>) => fc.oneof({ weight: 6, arbitrary: value }, { weight: 1, arbitrary: odd })
const some = (fields: Record<string, fc.Arbitrary<unknown>>) =>
  orOdd(
    fc.record(Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, orOdd(value)])), {
      requiredKeys: [],
    }),
  )

const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 8 }), fc.constantFrom('a', '', '🌍', '\u2028', '\ud83d'))
const pieces = fc.array(
  some({
    jsonPath: fc.constantFrom('$.a', '$.a[0].b', '$', '$.__proto__.x'),
    stringValue: text,
    numberValue: fc.double(),
  }),
  { maxLength: 3 },
)
const call = some({
  name: fc.constantFrom('clock', 'weather'),
  id: fc.constantFrom('1', '2', ''),
  args: fc.dictionary(text, fc.jsonValue({ maxDepth: 1 })),
  willContinue: fc.boolean(),
  partialArgs: pieces,
})
const part = some({
  text,
  thought: fc.boolean(),
  thoughtSignature: fc.constantFrom('c2ln', ''),
  functionCall: call,
  inlineData: some({ mimeType: fc.constantFrom('image/png', 'audio/wav'), data: fc.constant('AAAA') }),
})
const token = some({ token: text, logProbability: fc.double() })
const candidate = some({
  index: fc.integer({ min: -1, max: 3 }),
  content: some({ role: fc.constant('model'), parts: fc.array(part, { maxLength: 4 }) }),
  finishReason: fc.constantFrom('STOP', 'MAX_TOKENS', 'SAFETY', 'MALFORMED_FUNCTION_CALL', 'NEW'),
  logprobsResult: some({
    chosenCandidates: fc.array(token, { maxLength: 3 }),
    topCandidates: fc.array(some({ candidates: fc.array(token, { maxLength: 2 }) }), { maxLength: 3 }),
  }),
  groundingMetadata: some({
    groundingChunks: fc.array(some({ web: some({ uri: text, title: text }) }), { maxLength: 2 }),
    groundingSupports: fc.array(some({ segment: some({ text }), groundingChunkIndices: fc.array(fc.nat(3)) }), {
      maxLength: 3,
    }),
    webSearchQueries: fc.array(text),
  }),
})
const count = fc.integer({ min: -1, max: 100 })
const chunk = some({
  candidates: fc.array(candidate, { maxLength: 3 }),
  promptFeedback: some({ blockReason: fc.constantFrom('SAFETY', '') }),
  usageMetadata: some({
    ...{ promptTokenCount: count, candidatesTokenCount: count, thoughtsTokenCount: count, totalTokenCount: count },
    ...{ cachedContentTokenCount: count, toolUsePromptTokenCount: count, serviceTier: text },
  }),
  error: some({ code: count, message: text, status: text }),
})

const shape = toShape({ choices: 2, includeUsage: true })
const expected = {
  ...{ target: toTarget({ dialect: 'gemini' }), choices: 2, logprobs: true, callId: '0199-1' },
  body: { web_search_options: {} },
}
const asked = { choices: 2, includeUsage: true }

function usageOf(events: readonly AnswerEvent[]) {
  const last = events.findLast((event) => event.kind === 'usage')
  return { usage: last?.kind === 'usage' ? last.usage : NO_USAGE, costNanoUsd: 0, durationMs: 0 }
}

test('a stream of any shape ends as a response or as an error', () => {
  const ends = { done: 0, failure: 0 }
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 5 }), (chunks) => {
      const events: AnswerEvent[] = []
      const decoder = gemini.decoder(expected)
      for (const one of chunks) decoder.event({ name: null, data: JSON.stringify(one) }, events)
      decoder.end(events)
      const writer = createWriter(shape)
      const body = writer.take(events)
      const last = events.at(-1)
      if (last?.kind === 'failure') checkStream(body + writer.failure(toGatewayError(last.error, 'paid')), asked)
      else checkStream(body + writer.tail(usageOf(events)), asked)
      expect(last?.kind === 'done' || last?.kind === 'failure').toBeTrue()
      ends[last?.kind as keyof typeof ends]++
    }),
    { numRuns: 2_000 },
  )
  expect(Math.min(ends.done, ends.failure)).toBeGreaterThan(50)
})

test('so does a whole response', () => {
  fc.assert(
    fc.property(chunk, (answer) => {
      try {
        const events = gemini.whole(answer, expected)
        checkWhole(writeWhole(events, usageOf(events)), { choices: 2 })
      } catch (error) {
        expect(error).toBeInstanceOf(UpstreamError)
      }
    }),
    { numRuns: 2_000 },
  )
})
