/**
 * What every dialect reads alike of an answer or a list of models, whose values are anything until they are looked at: counts, limits,
 * modalities, vectors. Pure.
 */
import { toDefined } from '../../domain/changes.ts'
import { UpstreamError } from '../../domain/error.ts'
import { asObject } from '../../domain/json.ts'
import { MODALITIES, type Modality } from '../../domain/models.ts'
import type { EmbeddingsRequest, Vector } from '../../domain/task.ts'

const MAX_COUNT = 1e9

/** A count of tokens, or of anything that is charged, as an upstream tells it; null where it is none. Pure. */
export const asCount = (value: unknown): number | null =>
  typeof value === 'number' && value >= 0 && value <= MAX_COUNT ? Math.round(value) : null

/** OpenAI's figure for a token that is not among the likeliest. */
const OFF_THE_LIST = -9999

/** A log probability; of what is none, the figure for a token that is not among the likeliest. */
export const toLogprobFigure = (value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value) ? value : OFF_THE_LIST

/** No model writes faster; a larger number is a slip. */
const MAX_PER_SECOND = 100_000

/** Reads a number of tokens a second; undefined where it is none. */
export const toSpeed = (value: unknown): number | undefined =>
  typeof value === 'number' && value > 0 && value <= MAX_PER_SECOND ? value : undefined

/** No model takes more tokens; a larger number is a slip, or a lie. */
const MAX_TOKENS = 100_000_000

/** Reads a number of tokens; undefined where it says none, which an oddity tells where it says something else. */
export function toTokens(value: unknown, what: string, oddities: string[]): number | undefined {
  // Several providers write 0 or null for what they do not say.
  if (value === undefined || value === null || value === 0) return undefined
  if (typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= MAX_TOKENS) return value
  oddities.push(`its ${what} is ${JSON.stringify(value).slice(0, 40)}, which is no number of tokens`)
  return undefined
}

/** The modalities among some words, in the order in which we name them; `pdf` is a file. Undefined where there are none. */
export function toModalities(words: unknown): Modality[] | undefined {
  if (!Array.isArray(words)) return undefined
  const said = new Set(words.map((word) => (word === 'pdf' ? 'file' : word)))
  const known = MODALITIES.filter((modality) => said.has(modality))
  return known.length === 0 ? undefined : known
}

/** How large a model is, as its server says it: of anything else than a few plain words, nothing. */
export const toSize = (said: { parameters?: unknown; quantization?: unknown; bytes?: unknown }) =>
  toDefined({
    parameters: toWord(said.parameters),
    quantization: toWord(said.quantization),
    sizeBytes:
      typeof said.bytes === 'number' && Number.isSafeInteger(said.bytes) && said.bytes > 0 ? said.bytes : undefined,
  })

const toWord = (value: unknown) => (typeof value === 'string' && /^[\w .+-]{1,32}$/.test(value) ? value : undefined)

/** Whether `{ supported: true }` stands there, or false; undefined where neither does. */
export function toSupport(value: unknown): boolean | undefined {
  const supported = asObject(value)?.supported
  return typeof supported === 'boolean' ? supported : undefined
}

export const toTitle = (value: unknown): string | undefined =>
  typeof value === 'string' && value.trim() !== '' ? value.trim().slice(0, 200) : undefined

/**
 * @param values one an input, in their order: a list of numbers each, or the base64 of little-endian 32-bit floats.
 * Throws an UpstreamError `brokenVector` where they are others, or of other lengths, than were asked for.
 */
export function toVectors(values: readonly unknown[], { inputs, dimensions }: EmbeddingsRequest): Vector[] {
  if (values.length !== inputs.length)
    throw brokenVector(`answered with ${values.length} vectors, and was sent ${inputs.length} inputs`)
  const vectors = values.map(toVector)
  const length = dimensions ?? vectors[0]?.length
  const other = vectors.find((vector) => vector.length !== length)
  if (other) throw brokenVector(`answered with a vector of ${other.length} numbers where it should have ${length}`)
  return vectors
}

function toVector(value: unknown): Vector {
  const vector = typeof value === 'string' ? fromBase64(value) : Array.isArray(value) ? value : null
  if (vector === null || vector.length === 0) throw brokenVector('answered with something that is no vector')
  for (let at = 0; at < vector.length; at++) {
    const number: unknown = vector[at]
    if (typeof number !== 'number' || !Number.isFinite(Math.fround(number)))
      throw brokenVector('answered with a vector that has something in it that is no number')
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

const brokenVector = (what: string) => new UpstreamError('broken', what)
