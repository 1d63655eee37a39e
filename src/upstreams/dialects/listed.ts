/** What every dialect reads alike of a provider's list of models: whose values are anything, until they are looked at. Pure. */
import { asObject } from '../../domain/json.ts'
import { MODALITIES, type Modality } from '../../domain/settings.ts'

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

/** How large a model is, in few words: what its server says, and the bytes of its file. Undefined where nothing is said. */
export function toAbout(said: readonly string[], bytes: unknown): string | undefined {
  const size = typeof bytes === 'number' && bytes > 0 ? [`${(bytes / 1e9).toFixed(1)} GB`] : []
  const words = [...said, ...size].filter((word) => /^[\w .+-]{1,32}$/.test(word))
  return words.length === 0 ? undefined : words.join(', ')
}

/** Whether `{ supported: true }` stands there, or false; undefined where neither does. */
export function toSupport(value: unknown): boolean | undefined {
  const supported = asObject(value)?.supported
  return typeof supported === 'boolean' ? supported : undefined
}

export const toTitle = (value: unknown): string | undefined =>
  typeof value === 'string' && value.trim() !== '' ? value.trim().slice(0, 200) : undefined
