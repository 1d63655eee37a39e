/** What an operator is told of models that were found: what was odd about the list, what is assumed, and what does not count. Pure. */
import type { ListedModel } from '../domain/model-server.ts'
import type { DeclaredModel } from './complete.ts'
import { isFree } from './priced.ts'

/** What there is to tell of one model. */
export interface Found {
  model: DeclaredModel
  listed: ListedModel
  /** Whether nobody says how long its prompt may be. */
  isAssumed: boolean
  /** Whether nobody says what it reads beside text. */
  isTextAssumed: boolean
  /** Whether what its list says of prices does not count. */
  isUnheard: boolean
}

/** A few sentences, however long the list. */
export function toFoundNotes(found: readonly Found[], isLocal: boolean): string[] {
  const toSlugs = (those: readonly Found[]) => those.map(({ model }) => model.slug)
  const odd = found.flatMap(({ model, listed }) =>
    (listed.oddities ?? []).map((oddity) => `${model.slug}: ${oddity}; it is left out.`),
  )
  const large = found.flatMap(({ model, listed }) => {
    const about = toAbout(listed)
    return about === '' ? [] : `${model.slug} (${about})`
  })
  const assumed = found.filter(({ isAssumed }) => isAssumed)
  const reading = found.filter(({ isTextAssumed }) => isTextAssumed)
  const unheard = found.filter(
    ({ model, listed, isUnheard }) => isUnheard && listed.pricing && model.pricing.length === 0,
  )
  const [zero, other] = [
    unheard.filter(({ listed }) => isFree(listed.pricing)),
    unheard.filter(({ listed }) => !isFree(listed.pricing)),
  ]
  const free = isLocal ? [] : found.filter(({ model: { pricing } }) => pricing.length > 0 && isFree(pricing))
  return [
    ...toFew(odd),
    ...toNote(large, (names) => `How large they are: ${names}.`),
    ...toNote(
      toSlugs(assumed),
      (names) =>
        `Nobody says how long a prompt may be, and ${assumed[0]?.model.contextLength} tokens are assumed: ${names}.`,
    ),
    ...toNote(
      toSlugs(reading),
      (names) =>
        `Nobody says whether they read pictures or sound, and are taken to read text alone, so that anything else is refused: ${names}. Say otherwise in the dashboard.`,
    ),
    ...toNote(
      toSlugs(zero),
      (names) =>
        `The list says that they cost nothing, which counts only of providers that are known to publish their prices: ${names}. Where it is so, say that the upstream is local, or give each a price of 0.`,
    ),
    ...toNote(
      other.map(({ model, listed }) => `${model.slug} (${toPrices(listed)})`),
      (names) =>
        `The list has prices, in USD per token, which count only of providers that are known to publish theirs: ${names}. Where they are right, give them to the models.`,
    ),
    ...toNote(
      toSlugs(free),
      (names) => `By what is published of them they cost nothing, and no budget ends them: ${names}.`,
    ),
  ]
}

/** How large a model is, such as `3.2B, Q4_K_M, 2.0 GB`; '' where nothing is said. */
const toAbout = ({ parameters, quantization, sizeBytes }: ListedModel): string =>
  [parameters, quantization, sizeBytes === undefined ? undefined : `${(sizeBytes / 1e9).toFixed(1)} GB`]
    .filter((word) => word !== undefined)
    .join(', ')

const MOST_NAMED = 5

/** The first few of many names. */
export const toNames = (names: readonly string[], most = MOST_NAMED): string =>
  `${names.slice(0, most).join(', ')}${names.length > most ? ` and ${names.length - most} more` : ''}`

/** The first few of many sentences. */
export const toFew = (notes: readonly string[]): string[] =>
  notes.length <= MOST_NAMED
    ? [...notes]
    : [...notes.slice(0, MOST_NAMED), `There are ${notes.length - MOST_NAMED} more of these notes.`]

const toNote = (names: readonly string[], toSentence: (names: string) => string): string[] =>
  names.length === 0 ? [] : [toSentence(toNames(names))]

const toPrices = ({ pricing: [first] = [] }: ListedModel) =>
  Object.entries(first ?? {})
    .map(([name, price]) => `${name} ${price}`)
    .join(', ')
