/**
 * The demo's vectors: each word, and each run of three letters in it, falls on a place and a sign by its hash, and the whole has the
 * length one. So texts with words in common are near each other, and the same text is always the same vector.
 */
import type { EmbeddingInput, EmbeddingRequest } from '../domain/embedding.ts'
import type { AnswerEvent } from '../domain/events.ts'
import { NO_USAGE } from '../domain/usage.ts'
import { countTokens } from './tokens.ts'

const DEFAULT_DIMENSIONS = 256
const WORD = /[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu
/** Three letters say less than a word. */
const PART_WEIGHT = 0.25

export function toEmbeddings({ inputs, dimensions }: EmbeddingRequest): AnswerEvent[] {
  const length = dimensions ?? DEFAULT_DIMENSIONS
  const prompt = inputs.reduce((sum, input) => sum + tokensOf(input), 0)
  return [
    { kind: 'embeddings', vectors: inputs.map((input) => toVector(input, length)) },
    { kind: 'usage', usage: { ...NO_USAGE, prompt } },
    { kind: 'done' },
  ]
}

const tokensOf = (input: EmbeddingInput) => (typeof input === 'string' ? countTokens(input) : input.length)

function toVector(input: EmbeddingInput, length: number): Float32Array {
  const vector = new Float32Array(length)
  for (const word of wordsOf(input)) {
    add(vector, word, 1)
    for (let at = 0; at + 3 <= word.length; at++) add(vector, word.slice(at, at + 3), PART_WEIGHT)
  }
  let squares = 0
  for (const number of vector) squares += number * number
  // Signs may cancel each other out, and blanks have no words.
  if (squares === 0) vector[0] = squares = 1
  const size = Math.sqrt(squares)
  return vector.map((number) => number / size)
}

/** A token's number is a word like any other: nobody here has its vocabulary. */
function wordsOf(input: EmbeddingInput): Iterable<string> {
  return typeof input === 'string' ? (input.toLowerCase().match(WORD) ?? []) : input.map(String)
}

function add(vector: Float32Array, word: string, weight: number): void {
  const hash = Bun.hash.xxHash32(word)
  const at = (hash >>> 1) % vector.length
  vector[at] = (vector[at] ?? 0) + (hash % 2 === 0 ? weight : -weight)
}
