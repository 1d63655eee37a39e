/**
 * Properties over generated responses: for any style of an upstream, and wherever its bytes are cut, a client reads the
 * same response, and each frame is valid. A failure prints its seed.
 */
import { expect, setDefaultTimeout, test } from 'bun:test'
import fc from 'fast-check'
import { readTranscript, STREAMED } from '../../fixtures/quirks/index.ts'
import { checkStream, checkWhole, type Report } from '../../support/contract.ts'
import { inBytes, inPieces } from '../../support/cuts.ts'
import { type Manners, type Said, toTranscript, toWholeAnswer } from '../../support/sloppy.ts'
import { playStream, playWhole, playWholeAsStream, toShape } from '../../support/transcript.ts'

// Single bytes take a while on a busy machine.
setDefaultTimeout(60_000)

/** Any text of whole characters, often with ambiguous content. */
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 24 }),
  fc.string({ unit: 'grapheme', maxLength: 12 }),
  fc
    .array(
      fc.constantFrom('<', 'think', '>', '</', 'data: ', '[DONE]', '\n\n', 'NaN', '"', '\\', '🦊', '\u2028', '{'),
      { maxLength: 8 },
    )
    .map((words) => words.join('')),
)

const call = fc.record({
  name: fc.stringMatching(/^[a-zA-Z_][a-zA-Z0-9_-]{0,10}$/),
  arguments: fc
    .dictionary(fc.string({ maxLength: 4 }), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 })
    .map((value) => JSON.stringify(value)),
})

const said: fc.Arbitrary<Said> = fc.record({
  reasoning: text,
  content: text,
  calls: fc.array(call, { maxLength: 3 }),
  finish: fc.constantFrom('stop', 'stop', 'length', 'content_filter'),
})

const manners: fc.Arbitrary<Manners> = fc.record({
  lineEnd: fc.constantFrom('\n', '\r\n', '\r'),
  noise: fc.constantFrom('none', 'comments', 'blank lines', 'event lines', 'data lines'),
  pieceUnits: fc.integer({ min: 1, max: 12 }),
  role: fc.constantFrom('once', 'always', 'null', 'never'),
  reasoning: fc.constantFrom('reasoning', 'reasoning_content', 'both', 'tags'),
  index: fc.constantFrom('right', 'none', 'zero', 'from seven', 'drifting'),
  ids: fc.constantFrom('once', 'always'),
  finish: fc.constantFrom('right', 'stop', 'on the last words', 'twice', 'empty', 'never'),
  usage: fc.constantFrom('never', 'always', 'last', 'with the finish'),
  escaped: fc.boolean(),
  done: fc.boolean(),
})

/** Reasoning in tags can't contain its own closing tag, and blanks around it have no meaning. */
function toSayable(answer: Said, { reasoning, finish }: Manners): Said {
  const said = finish === 'empty' || finish === 'never' ? { ...answer, finish: 'stop' as const } : answer
  if (reasoning !== 'tags') return said
  const thought = said.reasoning.replaceAll('<', '').trim()
  return {
    ...said,
    reasoning: thought,
    content: thought === '' ? said.content.replaceAll('<', '').trim() : said.content.trim(),
  }
}

/** The content that a client must have read at the end. */
const toRead = (answers: readonly Said[]) =>
  answers.map(({ reasoning, content, calls, finish }, index) => ({
    reasoning,
    content,
    calls: calls.map((each, at) => [`call_${index}_${at}`, each.name, each.arguments]),
    finish: calls.length > 0 && finish === 'stop' ? 'tool_calls' : finish,
  }))

const read = ({ choices }: Report) =>
  choices.map(({ reasoning, content, toolCalls, finish }) => ({
    reasoning,
    content,
    calls: toolCalls.map((each) =>
      each.type === 'function' ? [each.id, each.function.name, each.function.arguments] : [],
    ),
    finish,
  }))

const example = fc
  .tuple(fc.array(said, { minLength: 1, maxLength: 3 }), manners)
  .map(([answers, how]) => ({ answers: answers.map((answer) => toSayable(answer, how)), how }))
const cuts = fc.array(fc.nat(4_000), { maxLength: 30 })

const shapeOf = (answers: readonly Said[], { reasoning }: Manners, includeUsage: boolean) =>
  toShape({ includeUsage, choices: answers.length, thinkTags: reasoning === 'tags' })

test("any response, in any server's style and cut anywhere, is read correctly", () => {
  fc.assert(
    fc.property(example, cuts, fc.boolean(), ({ answers, how }, places, includeUsage) => {
      const bytes = toTranscript(answers, how)
      const shape = shapeOf(answers, how, includeUsage)
      for (const pieces of [[bytes], inPieces(bytes, places), inBytes(bytes)]) {
        const { text: streamed, failure, usage } = playStream(pieces, shape)
        expect(failure).toBeNull()
        expect(read(checkStream(streamed, { includeUsage, choices: answers.length }))).toEqual(toRead(answers))
        expect(usage?.completion ?? null).toBe(how.usage === 'never' ? null : 7)
      }
    }),
    { numRuns: 40 },
  )
})

test('a whole response is read like its stream', () => {
  fc.assert(
    fc.property(example, ({ answers, how }) => {
      const body = toWholeAnswer(answers, how)
      const shape = shapeOf(answers, how, true)
      const asked = { includeUsage: true, choices: answers.length }
      expect(read(checkWhole(playWhole(body, shape).text, asked))).toEqual(toRead(answers))
      expect(read(checkStream(playWholeAsStream(body, shape).text, asked))).toEqual(toRead(answers))
    }),
    { numRuns: 120 },
  )
})

test('any transcript of the corpus reads the same in any pieces, with any ending', () => {
  const transcripts = STREAMED.map((quirk) => ({ quirk, bytes: readTranscript(quirk.name, 'sse') }))
  fc.assert(
    fc.property(fc.constantFrom(...transcripts), fc.nat(4_000), cuts, ({ quirk, bytes }, end, places) => {
      const shape = toShape({ ...quirk.asked, includeUsage: true })
      const asked = { includeUsage: true, choices: shape.choices }
      const cut = bytes.subarray(0, end)
      const whole = playStream([cut], shape)
      const pieces = playStream(inPieces(cut, places), shape)
      expect(pieces.failure?.message).toBe(whole.failure?.message)
      expect(checkStream(pieces.text, asked)).toMatchObject({ choices: checkStream(whole.text, asked).choices })
    }),
    { numRuns: 300 },
  )
})

test('any bytes end in a valid stream', () => {
  const json = fc.jsonValue({ maxDepth: 4 })
  const wild = fc.oneof(
    fc.record({
      choices: fc.array(
        fc.record(
          {
            index: json,
            delta: fc.record({ content: json, tool_calls: json, reasoning: json }),
            finish_reason: json,
            logprobs: json,
          },
          { requiredKeys: [] },
        ),
      ),
    }),
    fc.record({ choices: json, usage: json, error: json, service_tier: json }, { requiredKeys: [] }),
    json,
  )
  const line = fc.oneof(
    wild.map((value) => `data: ${JSON.stringify(value)}\n\n`),
    fc.string().map((value) => `${value}\n`),
    fc.constantFrom('data: [DONE]\n\n', '\n', 'event: error\n'),
  )
  fc.assert(
    fc.property(
      fc.array(line, { maxLength: 8 }),
      fc.integer({ min: 1, max: 3 }),
      fc.boolean(),
      (lines, choices, thinkTags) => {
        const { text: streamed } = playStream(
          [Buffer.from(lines.join(''))],
          toShape({ includeUsage: true, choices, thinkTags }),
        )
        checkStream(streamed, { includeUsage: true, choices })
      },
    ),
    { numRuns: 500 },
  )
})
