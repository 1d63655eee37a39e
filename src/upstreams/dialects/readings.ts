/** Reads counts, limits, modalities and vectors of any dialect, whose values may be anything. */
import { toDefined } from '../../domain/changes.ts'
import { UpstreamError } from '../../domain/error.ts'
import { asObject } from '../../domain/json.ts'
import { MODALITIES, type Modality } from '../../domain/models.ts'
import type { EmbeddingsRequest, Vector } from '../../domain/task.ts'

const MAX_COUNT = 1e9

export const asCount = (value: unknown): number | null =>
  typeof value === 'number' && value >= 0 && value <= MAX_COUNT ? Math.round(value) : null

/** OpenAI's value for a token outside the most likely ones. */
const OFF_THE_LIST = -9999

export const toLogprobFigure = (value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value) ? value : OFF_THE_LIST

/** Faster than any model. A higher value is invalid. */
const MAX_PER_SECOND = 100_000

export const toSpeed = (value: unknown): number | undefined =>
  typeof value === 'number' && value > 0 && value <= MAX_PER_SECOND ? value : undefined

/** More than any context. A higher value is invalid. */
const MAX_TOKENS = 100_000_000

/** A number of tokens; undefined if missing or invalid, and the latter is added to `oddities`. */
export function toTokens(value: unknown, what: string, oddities: string[]): number | undefined {
  // Several providers write 0 or null for unknown.
  if (value === undefined || value === null || value === 0) return undefined
  if (typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= MAX_TOKENS) return value
  oddities.push(`${what} ${JSON.stringify(value).slice(0, 40)} is not a valid number of tokens`)
  return undefined
}

export function toModalities(words: unknown): Modality[] | undefined {
  if (!Array.isArray(words)) return undefined
  const said = new Set(words.map((word) => (word === 'pdf' ? 'file' : word)))
  const known = MODALITIES.filter((modality) => said.has(modality))
  return known.length === 0 ? undefined : known
}

/** A model's size as stated by its server; only short plain words are kept. */
export const toSize = (said: { parameters?: unknown; quantization?: unknown; bytes?: unknown }) =>
  toDefined({
    parameters: toWord(said.parameters),
    quantization: toWord(said.quantization),
    sizeBytes:
      typeof said.bytes === 'number' && Number.isSafeInteger(said.bytes) && said.bytes > 0 ? said.bytes : undefined,
  })

const toWord = (value: unknown) => (typeof value === 'string' && /^[\w .+-]{1,32}$/.test(value) ? value : undefined)

export function toSupport(value: unknown): boolean | undefined {
  const supported = asObject(value)?.supported
  return typeof supported === 'boolean' ? supported : undefined
}

export const toTitle = (value: unknown): string | undefined =>
  typeof value === 'string' && value.trim() !== '' ? value.trim().slice(0, 200) : undefined

/**
 * @param values one per input, in order: a list of numbers, or base64 of little-endian 32-bit floats. Throws an UpstreamError `broken` if
 * they don't match the request.
 */
export function toVectors(values: readonly unknown[], { inputs, dimensions }: EmbeddingsRequest): Vector[] {
  if (values.length !== inputs.length)
    throw brokenVector(`returned ${values.length} vectors for ${inputs.length} inputs`)
  const vectors = values.map(toVector)
  const length = dimensions ?? vectors[0]?.length
  const other = vectors.find((vector) => vector.length !== length)
  if (other) throw brokenVector(`returned a vector of ${other.length} numbers instead of ${length}`)
  return vectors
}

function toVector(value: unknown): Vector {
  const vector = typeof value === 'string' ? fromBase64(value) : Array.isArray(value) ? value : null
  if (vector === null || vector.length === 0) throw brokenVector('returned an invalid vector')
  for (let at = 0; at < vector.length; at++) {
    const number: unknown = vector[at]
    if (typeof number !== 'number' || !Number.isFinite(Math.fround(number)))
      throw brokenVector('returned a vector with an invalid number')
  }
  return vector
}

function fromBase64(text: string): Float32Array | null {
  const bytes = Buffer.from(text, 'base64')
  const { length } = bytes
  const isWhole = text.length === 4 * Math.ceil(length / 3) || text.length === Math.ceil((4 * length) / 3)
  if (!isWhole || length % 4 !== 0) return null
  // Small buffers share memory, and may be unaligned.
  const own = bytes.byteOffset % 4 === 0 && bytes.buffer.byteLength === length ? bytes : new Uint8Array(bytes)
  return new Float32Array(own.buffer, own.byteOffset, length / 4)
}

const brokenVector = (what: string) => new UpstreamError('broken', what)
