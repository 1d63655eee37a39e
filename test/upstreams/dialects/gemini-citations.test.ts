/** Citations of Gemini's responses, and a limit on the search for them. */
import { expect, test } from 'bun:test'
import { toCitations } from '../../../src/upstreams/dialects/gemini/candidate.ts'

const groundingChunks = [{ web: { uri: 'https://a.example/', title: 'A' } }]
const support = (text: string) => ({ segment: { text }, groundingChunkIndices: [0] })
const cite = (words: string[], text: string) =>
  toCitations({ groundingChunks, groundingSupports: words.map(support) }, text).length

test('segments that are not in the text are searched for up to a limit', () => {
  const text = `${'a '.repeat(5_000)}It snows.`
  const missing = (count: number) => Array.from({ length: count }, (_, at) => `what nobody said ${at}`)
  expect(cite([...missing(100), 'It snows.'], text)).toBe(1)
  expect(cite([...missing(1_000), 'It snows.'], text)).toBe(0)
})

test('a long text whose segments are in order has the maximum number of citations', () => {
  const words = Array.from({ length: 1_200 }, (_, at) => `${'Snow '.repeat(20)}${at}.`)
  expect(cite(words, words.join(' ').repeat(10))).toBe(1_000)
})
