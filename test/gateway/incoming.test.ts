/** Any form of usage and any cut of the bytes is billed and reported alike, streamed or not. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { toFrames } from '../support/frames.ts'
import { costOf, HELLO_COUNTED, startGateway, usageOf } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { obliging } from '../support/upstream.ts'
import { streamAnswer, toDelta, wholeAnswer } from '../support/upstream-answers.ts'

let rows = 0
const gateway = forAllTests(startGateway)
beforeEach(async () => {
  gateway.upstream.script(obliging)
  rows = await gateway.app.count()
})

const lastRow = async () => (await gateway.app.settled(rows + 1)).at(-1)

describe('usage', () => {
  const cached = { prompt_tokens: 100, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 80 } }
  const lying = { prompt_tokens: 5, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 9_999 } }
  const TABLE = [
    { name: 'with cached tokens', usage: cached, tokens: [100, 2, 80], estimated: 0 },
    { name: 'with more cached tokens than tokens', usage: lying, tokens: [5, 1, 5], estimated: 0 },
    { name: 'that is missing', usage: null, tokens: [HELLO_COUNTED, 11, 0], estimated: 1 },
    {
      name: 'of texts',
      usage: { prompt_tokens: '5', completion_tokens: '1' },
      tokens: [5, 1, 0],
      estimated: 0,
    },
    {
      name: 'below zero',
      usage: { prompt_tokens: -5, completion_tokens: 1 },
      tokens: [HELLO_COUNTED, 11, 0],
      estimated: 1,
    },
  ]
  const CASES = TABLE.flatMap((row) => [false, true].map((stream) => ({ ...row, stream })))

  test.each(CASES)('$name is billed the same, stream: $stream', async ({ usage, tokens, estimated, stream }) => {
    const [prompt = 0, completion = 0, read = 0] = tokens
    const answer = { usage: usage as typeof cached | null }
    gateway.upstream.script(stream ? streamAnswer(answer) : wholeAnswer(answer))
    const response = await gateway.chat(stream ? { stream, stream_options: { include_usage: true } } : {})
    const text = await response.text()
    const told = stream ? toFrames(text).frames.at(-1)?.usage : JSON.parse(text).usage
    expect(told).toEqual(usageOf(prompt, completion, read))
    expect(await lastRow()).toMatchObject({
      status: 'ok',
      prompt_tokens: prompt,
      completion_tokens: completion,
      cached_tokens: read,
      estimated,
      cost_nano_usd: costOf(prompt, completion, read),
    })
  })
})

describe('a stream arrives complete', () => {
  const words = ['déjà ', 'vu — ', '\u2028', '"quoted"\n', '🦊'.repeat(20)]
  const big = ['x'.repeat(1_000_000)]
  test.each([
    ['one byte at a time', streamAnswer({ tokens: words, bytesPerWrite: 1 }), words],
    ['compressed', streamAnswer({ tokens: words, gzip: true }), words],
    ['with a huge event', streamAnswer({ tokens: big }), big],
    ['without a last blank line', streamAnswer({ tokens: words, end: 'eof' }), words],
    ['with [DONE] but no finish', streamAnswer({ tokens: words, finish: null }), words],
  ])('%s', async (_, script, tokens) => {
    gateway.upstream.script(script)
    const { content, done, frames } = toFrames(await (await gateway.chat({ stream: true })).text())
    expect(content).toBe(tokens.join(''))
    expect(done).toBe(true)
    expect(frames.at(-1)?.choices[0]).toEqual({ index: 0, delta: {}, finish_reason: 'stop' })
    expect(await lastRow()).toMatchObject({ status: 'ok', completion_tokens: tokens.length, estimated: 0 })
  })

  test('with a finish reason in the same chunk as its last text, and CRLF line ends', async () => {
    const frame = (step: unknown) => `data: ${JSON.stringify(step)}\r\n\r\n`
    gateway.upstream.script({
      kind: 'stream',
      steps: [': hello\r\n\r\n', frame(toDelta({ content: 'a' })), frame(toDelta({ content: 'b' }, 'length'))],
    })
    const { content, frames } = toFrames(await (await gateway.chat({ stream: true })).text())
    expect(content).toBe('ab')
    expect(frames.map((each) => each.choices[0]?.finish_reason)).toEqual([null, null, null, 'length'])
  })
})

test('a whole compressed response arrives, without claiming to be compressed', async () => {
  gateway.upstream.script(wholeAnswer({ tokens: ['déjà vu'], gzip: true }))
  const response = await gateway.chat()
  expect(response.headers.get('content-encoding')).toBeNull()
  expect(await response.json()).toMatchObject({ choices: [{ message: { content: 'déjà vu' } }] })
})
