/** The maximum tokens of a prompt: by its bytes, and by a count. */
import { afterAll, describe, expect, test } from 'bun:test'
import type { CanonicalRequest } from '../../src/domain/request.ts'
import { createCounter, tokensOn, toOther } from '../../src/tokens/count.ts'
import { bytesOfExtras, measurePrompt } from '../../src/tokens/estimate.ts'

const counter = createCounter({ timeoutMs: 30_000 })
afterAll(() => counter.close())

const ask = (content: string, more: Partial<CanonicalRequest> = {}): CanonicalRequest => ({
  model: 'm',
  messages: [{ role: 'user', content }],
  ...more,
})
/** By OpenAI's formula, and the maximum. */
const [FRAME, MAX_FRAME] = [4 + 3, 8]

describe('by its bytes', () => {
  test('a prompt counts a token per byte and eight per message, with everything that a model reads', () => {
    const tools = [{ type: 'function' as const, function: { name: 'f', parameters: { type: 'object' } } }]
    const body = ask('中文 abc', { tools })
    expect(measurePrompt(body).maxPromptTokens).toBe(10 + JSON.stringify(tools).length + 8)
  })

  test("a file that isn't text counts a token per byte, and at least the tokens of a file", () => {
    const pdf = (bytes: number): CanonicalRequest => ({
      model: 'm',
      messages: [
        {
          role: 'user',
          content: [{ type: 'file', file: { filename: 'a.pdf', file_data: Buffer.alloc(bytes).toString('base64') } }],
        },
      ],
    })
    expect([100, 9_000].map((bytes) => measurePrompt(pdf(bytes)).maxPromptTokens)).toEqual([5_008, 9_008])
  })

  test('a document in an unknown part counts a token per byte, and a video counts like any video', () => {
    const most = (type: string, mediaType: string) => {
      const part = { type, url: `data:${mediaType};base64,${Buffer.alloc(900_000).toString('base64')}` }
      const body = { model: 'm', messages: [{ role: 'user', content: [part] }] } as unknown as CanonicalRequest
      return measurePrompt(body).maxPromptTokens - 8 - `type${type}url`.length
    }
    expect(most('document', 'application/pdf')).toBe(900_000)
    expect(most('video_url', '')).toBe(9_000)
    expect(most('media', 'video/mp4')).toBe(9_000)
  })
})

test('extra bytes are parts that only some upstreams read: unknown fields, and reasoning of earlier turns', () => {
  const said = (more: object) => ({ role: 'assistant' as const, content: 'Hi', ...more })
  const user = { role: 'user' as const, content: 'Hello' }
  const of = (messages: CanonicalRequest['messages'], more = {}) => bytesOfExtras({ model: 'm', messages, ...more })
  expect(of([user, said({ reasoning: 'so' })], { temperature: 1, metadata: { a: 'b' } })).toBe(0)
  expect(of([user], { documents: ['é'] })).toBe(Buffer.byteLength('["é"]'))
  expect(of([said({ reasoning: 'so', note: 12 }), user])).toBe('"so"'.length + '12'.length)
})

test('an image counts the maximum of all models; by count, the figure of its own model', async () => {
  const url = 'https://a.example/a.png'
  const content = ['low', 'high'].map((detail) => ({ type: 'image_url', image_url: { url, detail } }))
  const body = { model: 'm', messages: [{ role: 'user', content }] } as unknown as CanonicalRequest
  const ours = 85 + 85 + 6 * 170
  const mini = 2_833 + 2_833 + 6 * 5_667
  expect(measurePrompt(body).maxPromptTokens).toBeGreaterThanOrEqual(mini)
  const bound = await counter.bound('key', body)
  const on = (model: string) => (bound === null ? 0 : tokensOn(model, bound))
  expect(on('gpt-4o')).toBe(ours + FRAME)
  expect(on('openai/gpt-4o-mini')).toBeGreaterThanOrEqual(mini)
  expect(on('openai/gpt-4o-mini')).toBeLessThan(1.02 * mini)
  expect(on('gpt-5-nano')).toBeGreaterThan(2 * 3_779)
  expect(on('claude-opus')).toBeGreaterThan(2 * 4_784)
  expect(bound?.tokens).toBe(ours + FRAME)
})

describe('by a count', () => {
  test('is exact for the counted vocabulary, and higher for others', async () => {
    const text = 'Once upon a time there was a fox. '.repeat(1_000)
    const exact = await counter.prompt('key', ask(text))
    const bound = await counter.bound('key', ask(text))
    expect(bound?.o200k).toBe(exact as number)
    expect(bound?.tokens).toBe(bound?.o200k as number)
    expect(bound?.other).toBeGreaterThanOrEqual(1.5 * ((bound?.o200k as number) - FRAME) + MAX_FRAME)
    expect(bound?.other).toBeLessThan(text.length / 2)
  })

  test('beyond a megabyte, each byte is a token', async () => {
    const short = 'Once upon a time there was a fox. '.repeat(31_000)
    const bytes = 100_000
    const [one, more] = [
      await counter.bound('key', ask(short)),
      await counter.bound('key', ask(short + ' '.repeat(bytes))),
    ]
    expect((more?.o200k as number) - (one?.o200k as number)).toBeGreaterThan(0.9 * bytes)
  })

  test("is null if the prompt can't be counted", async () => {
    const closed = createCounter()
    closed.close()
    expect(await closed.bound('key', ask('Hello'))).toBeNull()
  })

  test("only OpenAI's models since gpt-4o use the counted vocabulary", () => {
    const [known, other] = [
      [
        'gpt-4o',
        'openai/gpt-4.1-mini',
        'gpt-5',
        'gpt-oss:120b',
        'o3-mini',
        'ft:gpt-4o-mini:acme',
        'openai.gpt-oss-20b-1:0',
      ],
      ['gpt-4', 'gpt-3.5-turbo', 'claude-opus-4', 'o200', 'my-o1x', 'foo1', 'qwen3', 'gpt-4-turbo'],
    ]
    const of = (model: string) => tokensOn(model, { tokens: 0, o200k: 1, other: 2, images: { images: 0, pictures: 0 } })
    expect(known.map(of)).toEqual(known.map(() => 1))
    expect(other.map(of)).toEqual(other.map(() => 2))
  })

  test.each([
    ['letters and single blanks: three a token', 'one two ', 2, 3],
    ['anything else: a token a byte', '12345', 2, 5],
    ['blanks in a row, too', '      ', 1, 6],
    ['characters beyond ASCII', 'é中', 2, 5],
    ['half as many again as were counted', 'abcdef', 4, 6],
    ['never more than there are bytes', 'abcdef', 6, 6],
  ])('another vocabulary makes of %s', (_, text, tokens, most) => {
    expect(toOther({ texts: [text], bytes: Buffer.byteLength(text) }, tokens)).toBe(most)
  })
})
