/** Validation of responses with vectors: all requested ones, of numbers, and of equal length. */
import { describe, expect, test } from 'bun:test'
import { EmbeddingsRequest } from '../../../src/domain/task.ts'
import { gemini } from '../../../src/upstreams/dialects/gemini/gemini.ts'
import { openai } from '../../../src/upstreams/dialects/openai/openai.ts'
import { toBase64, vectorOf } from '../../support/embedding-answers.ts'
import { toTarget } from '../../support/snapshot.ts'

const asked = new EmbeddingsRequest('m', ['a', 'b'], null, 'float', null, {})
const right = vectorOf('a')
const all = (embeddings: readonly unknown[]) => embeddings.map((embedding, index) => ({ index, embedding }))

const readOpenAi = (data: unknown, request = asked) => {
  const json = { object: 'list', data }
  return openai.embeddings?.whole(json, request, toTarget(), JSON.stringify(json))
}
const readGemini = (embeddings: unknown, request = asked) =>
  gemini.embeddings?.whole({ embeddings }, request, toTarget(), '')

describe('a response of the OpenAI format is invalid if it has', () => {
  const rows: [string, unknown, RegExp?][] = [
    ['fewer vectors than inputs', all([right]), /1 vectors for 2 inputs/],
    ['more of them', all([right, right, right]), /3 vectors/],
    ['an index twice', [0, 0].map((index) => ({ index, embedding: right })), /indexes/],
    ['an index beyond', [0, 2].map((index) => ({ index, embedding: right })), /indexes/],
    ['an index for some', [{ index: 0, embedding: right }, { embedding: right }], /indexes/],
    ['vectors of several lengths', all([right, right.slice(1)]), /3 numbers instead of 4/],
    ['empty ones', all([[], []])],
    ['something beside numbers', all([right, [1, 2, null, 4]])],
    ['a number beyond 32 bits', all([right, [1, 2, 1e300, 4]])],
    ['not-a-number in base64', all([right, toBase64([1, 2, Number.NaN, 4])])],
    ['base64 that holds no floats', all(['AAAA', 'AAAA'])],
    ['a text that is no base64', all([right, '!!!'])],
    ['no list', { embedding: right }],
  ]
  test.each(rows)('%s', (_, data, why = /vector|embeddings/) => {
    expect(() => readOpenAi(data)).toThrow(why)
  })

  test('vectors of a length other than requested', () => {
    expect(() => readOpenAi(all([right, right]), new EmbeddingsRequest('m', ['a', 'b'], 3, 'float', null, {}))).toThrow(
      /4 numbers instead of 3/,
    )
  })
})

test('an error in a 200 is reported as an error', () => {
  expect(() => openai.embeddings?.whole({ error: { message: 'No.', code: 429 } }, asked, toTarget(), '')).toThrow('No.')
})

test('vectors without any index are in the order of the inputs', () => {
  expect(readOpenAi([{ embedding: [1] }, { embedding: [2] }])?.[0]).toEqual({
    kind: 'embeddings',
    vectors: [[1], [2]],
  })
})

test("Gemini's responses are validated alike", () => {
  const values = [1, 2]
  expect(readGemini([{ values }, { values }])?.map(({ kind }) => kind)).toEqual(['embeddings', 'done'])
  for (const wrong of [[{ values }], [{ values }, { values: [1] }], [{ values }, {}], 'x'])
    expect(() => readGemini(wrong)).toThrow()
})

test('the URL is next to that of chats, even if those have their own path', () => {
  const path = (options: object) => {
    const target = toTarget()
    const upstream = { ...target.upstream, options: { ...target.upstream.options, ...options } }
    return openai.embeddings?.request(asked, { ...target, upstream }).path
  }
  expect(path({})).toBe('/embeddings')
  const deployments = { path: '/deployments/{model}/chat/completions', query: { 'api-version': 'x' } }
  expect(path(deployments)).toBe(`/deployments/${toTarget().upstreamModel}/embeddings?api-version=x`)
})
