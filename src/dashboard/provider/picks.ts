/** Texts of the provider form, and conversion of what was entered. */
import type { ShownOffer } from '../../documents/offer.ts'
import type { ShownPreset } from '../../documents/upstream.ts'
import { USUAL_DIALECT } from '../../domain/dialects.ts'
import { Refusal } from '../api/refusal.ts'
import { hasWords, toExactCount, toPerToken, toPrices } from '../figures/figures.ts'
import { toWhole } from '../keys/values.ts'
import { toFeatures } from '../models/words.ts'

/** Name in the URL for any OpenAI-compatible API. */
export const OTHER = 'other'

export interface Connection extends Record<string, string> {
  id: string
  base_url: string
  /** `typed` (in `api_key`) or `variable`. */
  credential: string
  api_key: string
  local: string
}

/** @param typed overrides the preset */
export function toConnection(
  preset: ShownPreset | null,
  taken: ReadonlySet<string>,
  isSet: boolean,
  typed: Partial<Connection>,
): Connection {
  return {
    id: toFreeName(preset?.id ?? '', taken),
    base_url: preset?.base_url ?? '',
    credential: isSet ? 'variable' : 'typed',
    api_key: '',
    local: preset?.local ? 'yes' : 'no',
    ...typed,
    // The variable belongs to one provider.
    ...(isSet ? {} : { credential: 'typed' }),
  }
}

function toFreeName(name: string, taken: ReadonlySet<string>): string {
  if (!taken.has(name)) return name
  for (let number = 2; ; number++) if (!taken.has(`${name}-${number}`)) return `${name}-${number}`
}

/** @throws a Refusal that names the field. */
export function toUpstream(values: Connection, preset: ShownPreset | null) {
  const id = values.id.trim()
  const url = values.base_url.trim().replace(/\/+$/, '')
  if (url === '') throw new Refusal(`Enter a URL, such as ${toUrlExample(preset)}.`, 'invalid', 'base_url')
  if (id === '') throw new Refusal('Enter a name, such as openai.', 'invalid', 'id')
  const keys = values.api_key.trim().split(/\s+/).filter(Boolean)
  const isOwn = url !== preset?.base_url
  const usesVariable = values.credential === 'variable'
  if (usesVariable && isOwn)
    throw new Refusal(
      `${preset?.variable} is sent to ${preset?.base_url} only. Enter the key instead.`,
      'invalid',
      'credential',
    )
  return {
    id,
    ...(preset === null ? { dialect: USUAL_DIALECT } : { preset: preset.id }),
    ...(isOwn ? { base_url: url } : {}),
    ...(usesVariable ? { use_variable: true } : keys.length > 0 ? { api_key: keys } : {}),
    local: values.local === 'yes',
  }
}

export const toUrlExample = (preset: ShownPreset | null) =>
  preset?.base_url ?? preset?.example ?? 'https://llm.example.com/v1'

/** A chosen model, as typed. */
export interface Choice {
  slug: string
  /** Per million tokens; '' for the known price. */
  prompt: string
  completion: string
  context: string
}

export type Picks = ReadonlyMap<string, Choice>

export const toChoice = (slug: string | null): Choice => ({
  ...{ slug: slug ?? '', prompt: '', completion: '', context: '' },
})

export interface Names {
  models: ReadonlySet<string>
  aliases: ReadonlySet<string>
}

/** Effect of choosing an existing model's name; null for a new model. */
export function toConflict(name: string, pick: Choice, picks: Picks, { models, aliases }: Names) {
  const slug = pick.slug.trim()
  if (aliases.has(slug)) return { isWrong: true, text: `${slug} is an alias. Choose another name.` }
  const isTwice = [...picks].some(([other, one]) => other !== name && one.slug.trim() === slug)
  if (isTwice) return { isWrong: true, text: 'Another chosen model has this name.' }
  if (models.has(slug)) return { isWrong: false, text: 'This model exists: adds a fallback route to it.' }
  return null
}

/** Prices typed per million as one item; undefined if none is typed. @throws a Refusal that names the field. */
export function toTypedPricing({ prompt, completion }: Pick<Choice, 'prompt' | 'completion'>, at = '') {
  if (prompt.trim() === '' && completion.trim() === '') return undefined
  return [{ prompt: toPrice(prompt, `${at}prompt`), completion: toPrice(completion, `${at}completion`) }]
}

function toPrice(text: string, field: string): string {
  const price = toPerToken(text)
  if (price !== null) return price
  throw new Refusal('Enter both prices in dollars per million tokens, such as 1.25 or 0.', 'invalid', field)
}

export const toTypedContext = (text: string, field: string) =>
  text.trim() === '' ? undefined : toWhole(text, field, 1, 'Enter a number of tokens, such as 128000.')

/** @throws a Refusal whose field begins with the model's name. */
export const toModels = (picks: Picks, { models }: Names) =>
  [...picks].map(([name, pick]) => {
    const slug = pick.slug.trim()
    if (slug === '') throw new Refusal('Enter a model ID, such as openai/gpt-5.', 'invalid', `${name} slug`)
    const pricing = toTypedPricing(pick, `${name} `)
    const context = toTypedContext(pick.context, `${name} context`)
    return {
      ...{ upstream_model: name, slug, exists: models.has(slug) },
      ...(pricing ? { pricing } : {}),
      ...(context === undefined ? {} : { context_length: context }),
    }
  })

export const filterOffers = (offers: readonly ShownOffer[], search: string, isAll: boolean): ShownOffer[] =>
  offers.filter(
    (offer) =>
      (isAll || offer.is_usual) && hasWords([offer.upstream_model, offer.name, toFeatures(offer).join(' ')], search),
  )

/** `$1.25 in, $10.00 out per million`, `free`, or `price unknown`. */
export const toOfferPrice = ({ pricing }: Pick<ShownOffer, 'pricing'>): string =>
  pricing.length === 0 ? 'price unknown' : toPrices(pricing)

export const toOfferContext = ({ context_length: length }: Pick<ShownOffer, 'context_length'>): string =>
  length === null ? 'context unknown' : `${toExactCount(length)} tokens`

/** Presets that match all words; those whose name begins with the search come first. */
export function filterPresets<Preset extends Pick<ShownPreset, 'id' | 'name' | 'serves'>>(
  presets: readonly Preset[],
  search: string,
): Preset[] {
  const begins = ({ id, name }: Preset) => [id, name.toLowerCase()].some((one) => one.startsWith(search.toLowerCase()))
  return presets
    .filter(({ id, name, serves }) => hasWords([id, name, serves], search))
    .toSorted((a, b) => Number(begins(b)) - Number(begins(a)))
}
