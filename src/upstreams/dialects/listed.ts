/** What every dialect reads alike of a provider's list of models: whose values are anything, until they are looked at. Pure. */
import { toDefined } from '../../domain/changes.ts'
import { asObject } from '../../domain/json.ts'
import { MODALITIES, type Modality } from '../../domain/models.ts'

/** No model takes more tokens; a larger number is a slip, or a lie. */
const MOST_TOKENS = 100_000_000

/** Reads a number of tokens; undefined where it says none, which an oddity tells where it says something else. */
export function toTokens(value: unknown, what: string, oddities: string[]): number | undefined {
  // Several providers write 0 or null for what they do not say.
  if (value === undefined || value === null || value === 0) return undefined
  if (typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= MOST_TOKENS) return value
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
