/** The demo's vectors: the same for the same text, of length one, and near each other where texts are alike. */
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
  test('are the same vector each time, whatever their case', () => {
    expect(embed(['The cat sleeps'])).toEqual(embed(['the CAT sleeps']))
  })

  test('that are alike are nearer than others', () => {
    const [cat, cats, money] = embed([
      'A cat sleeps on the mat',
      'Cats sleep on a mat',
      'Interest rates rose by a point',
    ])
    expect(dot(cat, cats)).toBeGreaterThan(dot(cat, money) + 0.2)
  })

  test('without a word have a vector, too', () => {
    expect(embed([' '])[0]?.[0]).toBe(1)
  })
})

test('numbers of tokens are words as well', () => {
  const [a, b, c] = embed([
    [1, 2, 3],
    [1, 2, 4],
    [700, 800],
  ])
  expect(dot(a, b)).toBeGreaterThan(dot(a, c))
})

test('what is read is counted, and nothing is written', () => {
  const asked = new EmbeddingsRequest('m', ['Hello world', [1, 2, 3]], null, 'float', null, {})
  expect(toEmbeddings(asked)[1]).toMatchObject({
    usage: { prompt: 2 + 3, completion: 0 },
  })
})
