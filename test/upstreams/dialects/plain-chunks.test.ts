/**
 * The fast path for plain chunks: it reads the same as JSON.parse, and leaves chunks with more than text to the slow
 * path.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { AnswerEvent } from '../../../src/domain/events.ts'
import { openai } from '../../../src/upstreams/dialects/openai/openai.ts'
import { SseReader } from '../../../src/upstreams/framing.ts'
import { inPieces } from '../../support/cuts.ts'
import { toFrames } from '../../support/frames.ts'
import { createWriter, decodeStream, type Shape, toExpected, toShape } from '../../support/transcript.ts'

/** A JSON style of chunks: returns the JSON of a chunk with this text. */
type Make = (content: string) => string

const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_763_726_400, model: 'gpt' }
const choiceOf = (delta: object) => ({ index: 0, delta, logprobs: null, finish_reason: null })

/** Like Python's `json.dumps`. */
const inAscii = (json: string) =>
  json.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)

const MAKES: Record<string, Make> = {
  plain: (content) => JSON.stringify({ ...head, choices: [choiceOf({ content })] }),
  'with its content at the end': (content) =>
    JSON.stringify({ ...head, choices: [{ finish_reason: null, index: 0, delta: { role: 'assistant', content } }] }),
  'with its choices first': (content) => JSON.stringify({ choices: [choiceOf({ content, refusal: null })], ...head }),
  'with usage and nulls': (content) =>
    JSON.stringify({ ...head, usage: null, system_fingerprint: null, choices: [choiceOf({ role: null, content })] }),
  'with spaces': (content) => JSON.stringify({ ...head, choices: [choiceOf({ content })] }).replace('":[', '" : [ '),
  'in ASCII': (content) => inAscii(JSON.stringify({ ...head, choices: [choiceOf({ content })] })),
  'with slashes escaped': (content) =>
    JSON.stringify({ ...head, choices: [choiceOf({ content })] }).replaceAll('/', '\\/'),
  'with the content said twice': (content) => JSON.stringify({ echo: 'Hi', ...head, choices: [choiceOf({ content })] }),
  'with a key that comes twice': (content) =>
    JSON.stringify({ ...head, choices: [choiceOf({ content })] }).replace('"content":', '"content":"Hi","content":'),
}

const toData = (chunks: readonly string[]) => chunks.map((chunk) => `data: ${chunk}\n\n`).join('')
const toBytes = (chunks: readonly string[]) => Buffer.from(`${toData(chunks)}data: [DONE]\n\n`)
const textOf = (events: readonly AnswerEvent[]) =>
  events.map((event) => (event.kind === 'text' ? event.text : '')).join('')
const quick = (events: readonly AnswerEvent[]) =>
  events.filter((event) => event.kind === 'text' && event.json !== undefined).length

const shape = toShape({ logprobs: false })

/** Any content: any code units, escapes, text that looks like a part of a chunk, and line separators. */
const content = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.string({ unit: fc.nat(0xffff).map((code) => String.fromCharCode(code)), maxLength: 6 }),
  fc
    .array(
      fc.constantFrom(
        ...['"', '\\', '\\"', '\\n', '\n', '\r', '\t', '\0', '/', '\u0085', '\u2028', '\u2029', '\ud83e', '\udd8a'],
        ...['data: ', '\n\n', '[DONE]', 'Hi', ' ', 'é', '🦊', '\u007f', '\ufeff', 'tollgate', '\\u0041', '\\', 'null'],
      ),
      { maxLength: 6 },
    )
    .map((parts) => parts.join('')),
  fc.constantFrom(
    'content',
    'assistant',
    'chatcmpl-1',
    'gpt',
    'choices',
    '"},"logprobs":null',
    '{"content":"',
    'role',
    ':',
  ),
)

describe.each(Object.entries(MAKES))('chunks %s', (_, make) => {
  test('have the text that JSON.parse reads, in frames of one line, wherever they are split', () => {
    const cuts = fc.array(fc.nat(6_000), { maxLength: 6 })
    fc.assert(
      fc.property(fc.array(content, { maxLength: 16 }), cuts, (contents, places) => {
        const chunks = ['Hi', ...contents].map(make)
        const parsed = chunks.map((chunk) => JSON.parse(chunk).choices[0].delta.content).join('')
        const bytes = toBytes(chunks)
        const one = [...chunks.map((chunk) => Buffer.from(toData([chunk]))), toBytes([])]
        for (const pieces of [[bytes], inPieces(bytes, places), one]) {
          const events = decodeStream(pieces, shape)
          expect(events.at(-1)).toEqual({ kind: 'done' })
          expect(textOf(events)).toBe(parsed.toWellFormed())
          const frames = createWriter().take(events)
          expect(frames).not.toMatch(/[\u0085\u2028\u2029\r]/)
          expect(toFrames(frames).content).toBe(textOf(events))
        }
      }),
      { numRuns: 150 },
    )
  })
})

test('after the first chunk the fast path is used, until a chunk in another style comes, and with that again', () => {
  for (const [name, make] of Object.entries(MAKES)) {
    const words = ['Well', ' this', ' is', ' "quoted', ' é🦊', '\n', ' and', ' so', ' on']
    const events = decodeStream(
      words.map((word) => Buffer.from(toData([make(word)]))),
      shape,
    )
    // `" quoted` has a quote, and in ASCII two more words have escapes, which take the careful path.
    expect({ name, count: quick(events) }).toEqual({ name, count: name === 'in ASCII' ? 6 : 7 })
  }
  const [one, other] = [MAKES.plain, MAKES['with usage and nulls']] as [Make, Make]
  const chunks = [one('a'), one('b'), other('c'), other('d'), one('e'), one('f')]
  expect(quick(decodeStream([toBytes(chunks)], shape))).toBe(0)
  expect(
    quick(
      decodeStream(
        chunks.map((chunk) => Buffer.from(toData([chunk]))),
        shape,
      ),
    ),
  ).toBe(3)
})

describe('a chunk that has', () => {
  const plain = MAKES.plain as Make
  const change = (from: string, to: string) => plain('b').replace(from, to)
  const called = { tool_calls: [{ index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] }
  const CHANGES: [name: string, chunk: string, kinds: string[]][] = [
    ['a finish', change('"finish_reason":null', '"finish_reason":"stop"'), ['text', 'finish', 'done']],
    ['another index', change('"index":0', '"index":1'), ['text', 'finish', 'finish', 'done']],
    [
      'usage',
      change(']}', '],"usage":{"prompt_tokens":1,"completion_tokens":1}}'),
      ['text', 'usage', 'finish', 'done'],
    ],
    ['an error', change(']}', '],"error":{"message":"m"}}'), ['failure']],
    ['an error for a finish', change('"finish_reason":null', '"finish_reason":"error"'), ['failure']],
    ['a tool call beside it', change('"content":"b"', `"content":"b",${JSON.stringify(called).slice(1, -1)}`), []],
    ['a tool call instead', change('"content":"b"', JSON.stringify(called).slice(1, -1)), []],
    ['a refusal', change('"content":"b"', '"content":"b","refusal":"no"'), ['text', 'refusal', 'finish', 'done']],
    ['reasoning', change('"content":"b"', '"content":"b","reasoning":"hm"'), ['reasoning', 'text', 'finish', 'done']],
    ['content that comes twice', change('"content":"b"', '"content":"b","content":"c"'), ['text', 'finish', 'done']],
    ['a tier', change('"id"', '"service_tier":"flex","id"'), ['mode', 'origin', 'text', 'finish', 'done']],
    ['more after it', `${plain('b')}x`, ['failure']],
    ['two lines', plain('b').replace(',"choices"', ',\ndata: "choices"'), ['text', 'finish', 'done']],
  ]
  test.each(CHANGES)('%s takes the slow path', (name, chunk, kinds) => {
    const before = [plain('a'), plain('a')].map((one) => Buffer.from(toData([one])))
    const events = decodeStream([...before, toBytes([chunk])], toShape({ choices: 2 }))
    expect(quick(events)).toBe(1)
    const after = events.slice(2)
    if (kinds.length > 0) expect(after.map(({ kind }) => kind) as string[]).toEqual(kinds)
    if (name.startsWith('a tool call'))
      expect(after).toContainEqual(expect.objectContaining({ kind: 'tool', name: 'f' }))
    // Nor is its style learned: the next chunks are read as before.
    const again = decodeStream(
      [...before, Buffer.from(toData([chunk, plain('z')])), toBytes([])],
      toShape({ choices: 2 }),
    )
    if (after[0]?.kind !== 'failure') expect(textOf(again)).toEndWith('z')
  })

  test('log probabilities takes the slow path, if they were requested', () => {
    const token = { token: 'b', logprob: -1, bytes: null, top_logprobs: [] }
    const chunks = ['a', 'b', 'c'].map((word) =>
      plain(word).replace('"logprobs":null', `"logprobs":${JSON.stringify({ content: [token] })}`),
    )
    const pieces = chunks.map((chunk) => Buffer.from(toData([chunk])))
    const events = decodeStream(pieces, toShape({ logprobs: true }))
    expect(quick(events)).toBe(0)
    expect(events.filter((event) => event.kind === 'text' && event.logprobs)).toHaveLength(3)
  })

  test('the beginning of a reasoning tag is held back, and content after it takes the fast path', () => {
    const words = ['<thi', 'nk>', 'hm', '</think>', 'a', 'b', 'c', '<think>']
    const pieces = [...words.map((word) => Buffer.from(toData([plain(word)]))), toBytes([])]
    const events = decodeStream(pieces, toShape({ thinkTags: true }))
    expect(textOf(events)).toBe('abc<think>')
    expect(quick(events)).toBeGreaterThan(0)
  })

  test('half of a character is sent with the next half', () => {
    const words = ['a', 'b', 'c\ud83e', '\udd8ad', '\ud83e', 'e']
    const pieces = [...words.map((word) => Buffer.from(toData([plain(word)]))), toBytes([])]
    expect(textOf(decodeStream(pieces, shape))).toBe('abc🦊d\ufffde')
  })
})

test("a style learned from an event with two lines is not used for one whose second line isn't data", () => {
  const plain = MAKES.plain as Make
  const two = plain('a').replace(',"choices"', ',\ndata:"choices"')
  const broken = plain('b').replace(',"choices"', ',\n"choices"')
  const events = decodeStream(
    [two, broken].map((chunk) => Buffer.from(toData([chunk]))),
    shape,
  )
  expect(events.map(({ kind }) => kind)).toEqual(['text', 'failure'])
})

/** The events of a stream that only takes the slow path. */
function decodeSlowly(text: string, shape: Shape): AnswerEvent[] {
  const decoder = openai.decoder(toExpected(shape))
  const sse = new SseReader(1_000_000)
  const events: AnswerEvent[] = []
  for (const event of [...sse.feed(text), ...sse.end()]) decoder.event(event, events)
  decoder.end(events)
  return events
}

const withoutJson = (events: readonly AnswerEvent[]) => events.map((event) => ({ ...event, json: undefined }))

test('any stream has the same events on either path', () => {
  const plain = MAKES.plain as Make
  const chunk = fc
    .tuple(fc.constantFrom(...Object.values(MAKES)), fc.oneof(content, fc.constantFrom('a', 'b')))
    .map(([make, text]) => make(text))
  const part = fc.oneof(
    { weight: 6, arbitrary: chunk.map((json) => `data: ${json}\n\n`) },
    { weight: 6, arbitrary: fc.constantFrom('a', 'b', 'c"').map((word) => `data: ${plain(word)}\n\n`) },
    fc.constantFrom(
      ...[
        ': comment\n',
        ': comment\n\n',
        '\n',
        '\r\n',
        'event: error\n',
        'event: message\n',
        'id: 7\n',
        'data: [DONE]\n\n',
      ],
      ...[
        'data:',
        'data: ',
        'data',
        '\ufeff',
        `data: ${plain('x').slice(0, 90)}`,
        `data: ${plain('x').slice(0, 90)}\n`,
        '\r',
      ],
    ),
  )
  const edits = fc.array(fc.tuple(fc.nat(3_000), fc.constantFrom('', '\n', '\r', '"', '\\', ',', '}', 'x', '\n\n')), {
    maxLength: 3,
  })
  const cuts = fc.array(fc.nat(4_000), { maxLength: 8 })
  fc.assert(
    fc.property(fc.array(part, { maxLength: 14 }), edits, cuts, fc.boolean(), (parts, changes, places, thinkTags) => {
      let text = `data: ${plain('Hi')}\n\n${parts.join('')}`
      for (const [at, put] of changes) text = text.slice(0, at) + put + text.slice(at + 1)
      const bytes = Buffer.from(text)
      const shape = toShape({ thinkTags })
      const slow = withoutJson(decodeSlowly(bytes.toString(), shape))
      const events = bytes.toString().match(/[\s\S]*?\n\n|[\s\S]+$/g) ?? []
      for (const pieces of [inPieces(bytes, places), events.map((each) => Buffer.from(each))]) {
        expect(withoutJson(decodeStream(pieces, shape))).toEqual(slow)
      }
    }),
    { numRuns: 1_000 },
  )
})
