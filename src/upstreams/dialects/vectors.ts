/** Reads the vectors that an upstream answers with, and holds them to what was asked: what is wrong about one is no answer. Pure. */
import type { EmbeddingRequest, Vector } from '../../domain/embedding.ts'
import { UpstreamError } from '../../domain/error.ts'

/**
 * @param values one an input, in their order: a list of numbers each, or the base64 of little-endian 32-bit floats.
 * Throws an UpstreamError `broken` where they are others, or of other lengths, than were asked for.
 */
export function toVectors(values: readonly unknown[], { inputs, dimensions }: EmbeddingRequest): Vector[] {
  if (values.length !== inputs.length)
    throw broken(`answered with ${values.length} vectors, and was sent ${inputs.length} inputs`)
  const vectors = values.map(toVector)
  const length = dimensions ?? vectors[0]?.length
  const other = vectors.find((vector) => vector.length !== length)
  if (other) throw broken(`answered with a vector of ${other.length} numbers where it should have ${length}`)
  return vectors
}

function toVector(value: unknown): Vector {
  const vector = typeof value === 'string' ? fromBase64(value) : Array.isArray(value) ? value : null
  if (vector === null || vector.length === 0) throw broken('answered with something that is no vector')
  for (let at = 0; at < vector.length; at++) {
    const number: unknown = vector[at]
    if (typeof number !== 'number' || !Number.isFinite(Math.fround(number)))
      throw broken('answered with a vector that has something in it that is no number')
  }
  return vector
}

/** Null for what is no whole number of floats. */
function fromBase64(text: string): Float32Array | null {
  const bytes = Buffer.from(text, 'base64')
  const { length } = bytes
  const isWhole = text.length === 4 * Math.ceil(length / 3) || text.length === Math.ceil((4 * length) / 3)
  if (!isWhole || length % 4 !== 0) return null
  // Short ones come out of a buffer that they share.
  const own = bytes.byteOffset % 4 === 0 && bytes.buffer.byteLength === length ? bytes : new Uint8Array(bytes)
  return new Float32Array(own.buffer, own.byteOffset, length / 4)
}

const broken = (what: string) => new UpstreamError('broken', what)
