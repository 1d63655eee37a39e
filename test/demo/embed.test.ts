/** The demo's vectors: equal for equal texts, of length one, and close for similar texts. */
import { describe, expect, test } from 'bun:test'
import { toEmbeddings } from '../../src/demo/demo.ts'
import { type EmbeddingInput, EmbeddingsRequest } from '../../src/domain/task.ts'

function embed(inputs: EmbeddingInput[], dimensions: number | null = null): number[][] {
  const [said] = toEmbeddings(new EmbeddingsRequest('m', inputs, dimensions, 'float', null, {}))
  return said?.kind === 'embeddings' ? said.vectors.map((vector) => [...vector]) : []
}

const dot = (a: readonly number[] = [], b: readonly number[] = []) =>
  a.reduce((sum, number, at) => sum + number * (b[at] ?? 0), 0)

test.each([
  [null, 256],
  [3, 3],
  [1, 1],
  [4_096, 4_096],
])('dimensions %p give %p numbers', (dimensions, length) => {
  const [vector = []] = embed(['Hello, world'], dimensions)
  expect(vector).toHaveLength(length)
  expect(dot(vector, vector)).toBeCloseTo(1, 5)
})

describe('texts', () => {
  test('have the same vector each time, in any case', () => {
    expect(embed(['The cat sleeps'])).toEqual(embed(['the CAT sleeps']))
  })

  test('that are similar have closer vectors than others', () => {
    const [cat, cats, money] = embed([
      'A cat sleeps on the mat',
      'Cats sleep on a mat',
      'Interest rates rose by a point',
    ])
    expect(dot(cat, cats)).toBeGreaterThan(dot(cat, money) + 0.2)
  })

  test('without words have a vector, too', () => {
    expect(embed([' '])[0]?.[0]).toBe(1)
  })
})

test('token IDs count as words', () => {
  const [a, b, c] = embed([
    [1, 2, 3],
    [1, 2, 4],
    [700, 800],
  ])
  expect(dot(a, b)).toBeGreaterThan(dot(a, c))
})

test('the input is counted, and there is no output', () => {
  const asked = new EmbeddingsRequest('m', ['Hello world', [1, 2, 3]], null, 'float', null, {})
  expect(toEmbeddings(asked)[1]).toMatchObject({
    usage: { prompt: 2 + 3, completion: 0 },
  })
})
