/**
 * Turns a provider's list of models into catalog entries and notes. Facts come from the list, then the provider's known
 * facts, then (except prices) those of the model's maker; the rest is assumed and noted.
 *
 * A model without a known price gets `pricing: []` and is disabled.
 */
import type { DialectName } from '../domain/dialects.ts'
import { quote } from '../domain/explain.ts'
import type { ListedModel } from '../domain/model-server.ts'
import { FEATURES, type Feature } from '../domain/models.ts'
import type { ListedFact } from '../store/catalog-rows.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import {
  byCondition,
  type DeclaredModel,
  type Facts,
  FREE,
  isFree,
  OF_EMBEDDINGS,
  OF_REALTIME,
  PLAIN_ROUTE,
} from './complete.ts'
import { isSlug } from './entry.ts'
import {
  findAt,
  findFacts,
  type KnownModel,
  type KnownProviders,
  PRICING,
  saysEmbeddings,
  saysRealtime,
  toEffortSettings,
  toFacts,
  toRouteSettings,
} from './known.ts'
import type { Provider } from './providers.ts'

export interface DiscoverOptions {
  upstream: string
  dialect: DialectName
  /** Vendor part of model IDs if the provider's name for a model has none. */
  vendor: string
  /** Name in the known facts. */
  provider: string | null
  /** How far its list is trusted; null = only the names in it. */
  modelList: Provider['modelList']
  local: boolean
  known: KnownProviders
  /** Empty = all chat models, and embedding models with a known price. */
  selectors: readonly ModelSelector[]
}

export interface Discovered {
  models: DeclaredModel[]
  /** Models that neither chat nor have another endpoint and a known price. */
  others: number
  /** Sentences about oddities of the list, and assumptions. */
  notes: string[]
}

/** If unknown; the provider then rejects prompts that are too long. */
const ASSUMED = { contextLength: 128_000, maxOutputLength: 16_384 } as const

export function toDiscovered(listed: readonly ListedModel[], options: DiscoverOptions): Discovered {
  const notes: string[] = []
  const { selectors, vendor } = options
  const named = onlyUsable(listed, options, notes)
  const wanted = named.flatMap((model) => toSlugs(model, selectors, vendor).map((slug) => ({ model, slug })))
  const isMeant = ({ id }: ListedModel) =>
    selectors.length === 0 || selectors.some((selector) => selector.slug === null && fits(selector, id, null))
  const nameless = named.filter((model) => toSlug(model.id, vendor) === null && isMeant(model))
  if (nameless.length > 0)
    notes.push(
      `${toCount(nameless.length)} left out for names that are not valid model IDs: ${toNames(nameless.map(({ id }) => quote(id)))}. ${RENAME}`,
    )
  const chatting = wanted.filter(({ model }) => selectors.length > 0 || isServed(model, options))
  const bySlug = [...Map.groupBy(chatting, ({ slug }) => slug)]
  const doubled = bySlug
    .filter(([, own]) => own.length > 1)
    .map(([slug, own]) => {
      const names = toNames(own.map(({ model }) => quote(model.id)))
      return `${own.length} of its models would be named ${slug}, so none is added: ${names}. ${RENAME}`
    })
  const found = bySlug.flatMap(([slug, own]) =>
    own.slice(0, own.length === 1 ? 1 : 0).map(({ model }) => toFound(slug, model, options)),
  )
  const models = found.map(({ model }) => model)
  const all = [...notes, ...toFew(doubled), ...toFoundNotes(found, options.local)]
  return { models, others: wanted.length - chatting.length, notes: all }
}

const RENAME = 'Choose a name with --models NAME=SLUG.'

/** Drops invalid names, duplicates, and models that a local server forwards. */
export const onlyUsable = (listed: readonly ListedModel[], options: DiscoverOptions, notes: string[]): ListedModel[] =>
  onlyHere(onlyNamed(listed, notes), options, notes)

/** Names from an untrusted list go into URLs, logs, and terminals. */
function onlyNamed(listed: readonly ListedModel[], notes: string[]): ListedModel[] {
  const isName = ({ id }: ListedModel) => /^[\x21-\x7e]{1,200}$/.test(id) && !/(^|\/)\.{1,2}(\/|$)/.test(id)
  const wrong = listed.filter((model) => !isName(model))
  if (wrong.length > 0) {
    const names = toNames(wrong.map(({ id }) => quote(id.slice(0, MAX_CHARS))))
    notes.push(
      `${toCount(wrong.length)} left out for invalid names (empty, too long, with path segments, or unprintable): ${names}.`,
    )
  }
  // Some lists have duplicates.
  return [...new Map(listed.filter(isName).map((model) => [model.id, model])).values()]
}

/** Drops models that a local server forwards to a paid service. */
function onlyHere(listed: ListedModel[], { local }: DiscoverOptions, notes: string[]): ListedModel[] {
  const elsewhere = local ? listed.filter(({ isElsewhere }) => isElsewhere) : []
  if (elsewhere.length > 0)
    notes.push(
      `${toCount(elsewhere.length)} left out as not local, because the server forwards their requests elsewhere: ${toNames(elsewhere.map(({ id }) => quote(id)))}.`,
    )
  return elsewhere.length === 0 ? listed : listed.filter(({ isElsewhere }) => !isElsewhere)
}

const toCount = (count: number) => `${count} of its models ${count === 1 ? 'is' : 'are'}`

const MAX_CHARS = 60

/** Names of models that don't chat, used if neither the provider nor known facts say so. */
const OTHER_NAMES =
  /embed|whisper|(^|[-/])tts([-/]|$)|dall-e|moderation|realtime|transcri|(^|[-/])(sora|imagen|veo|lyria)|rerank|gpt-image|(^|[-/])(babbage|davinci)|instruct-\d{4}$/i

export const isServed = (model: ListedModel, options: DiscoverOptions): boolean =>
  makesEmbeddings(model, options) ? hasPrice(model, options) : canChat(model, options) || hasOwnPrice(model, options)

/** True if known facts have an endpoint price, as only models with their own endpoint do. */
const hasOwnPrice = ({ id }: ListedModel, { provider, known }: DiscoverOptions): boolean =>
  provider !== null && findAt(known, provider, id)?.[PRICING] !== undefined

function makesEmbeddings({ id, outputModalities }: ListedModel, { provider, known }: DiscoverOptions): boolean {
  const found = provider === null ? undefined : findAt(known, provider, id)
  const made = outputModalities ?? (found && toFacts(found).outputModalities)
  return made ? made.includes('embeddings') : saysEmbeddings(id)
}

const hasPrice = ({ id, pricing }: ListedModel, { local, modelList, provider, known }: DiscoverOptions): boolean =>
  local ||
  (modelList === 'with_prices' && pricing !== undefined) ||
  (provider !== null && findAt(known, provider, id)?.cost !== undefined)

function canChat(model: ListedModel, { provider, known }: DiscoverOptions): boolean {
  if (model.canChat !== undefined) return model.canChat
  const found = provider === null ? undefined : findAt(known, provider, model.id)
  if (!found) return !OTHER_NAMES.test(model.id)
  const { input = 0, output = 0 } = found.cost ?? {}
  // Models that charge only for input make embeddings.
  return found.modalities.output.includes('text') && !saysRealtime(model.id) && (output > 0 || input === 0)
}

export function toFound(slug: string, listed: ListedModel, options: DiscoverOptions): Found {
  const { local, upstream, dialect, modelList } = options
  const own = findOwn(slug, listed, options)
  const embeds = makesEmbeddings(listed, options) ? OF_EMBEDDINGS : {}
  const facts = {
    ...(saysRealtime(listed.id) ? OF_REALTIME : {}),
    ...toKnownFacts(slug, own, options),
    ...embeds,
  }
  const context = listed.contextLength ?? facts.contextLength
  const contextLength = context ?? ASSUMED.contextLength
  const output = listed.maxOutputLength ?? facts.maxOutputLength ?? ASSUMED.maxOutputLength
  const reads = listed.inputModalities ?? facts.inputModalities
  const isHeard = modelList === 'with_prices'
  const said = isHeard ? listed.pricing?.toSorted(byCondition) : undefined
  const fromList = toListedFacts(listed, isHeard)
  const pricing = local ? FREE : (said ?? facts.pricing ?? [])
  const thinks = { ...(own && toKnownSettings(own, dialect)), ...listed.options }
  const model: DeclaredModel = {
    slug,
    name: (listed.name ?? facts.name ?? listed.id)
      .replace(/[\p{Cc}\p{Bidi_Control}]/gu, ' ')
      .slice(0, 200)
      .toWellFormed(),
    ownedBy: slug.slice(0, slug.indexOf('/')),
    contextLength,
    maxOutputLength: Math.min(output, contextLength),
    inputModalities: reads ?? ['text'],
    outputModalities: listed.outputModalities ?? facts.outputModalities ?? ['text'],
    supportedFeatures: toFeatures(listed, facts),
    pricing,
    enabled: pricing.length > 0,
    listed: true,
    fromWildcard: false,
    fromList,
    createdMs: null,
    routes: [{ ...PLAIN_ROUTE, upstream, upstreamModel: listed.id, options: thinks, fromList }],
  }
  return { model, listed, isAssumed: context === undefined, isTextAssumed: !reads, isUnheard: !isHeard && !local }
}

const toKnownSettings = (own: KnownModel, dialect: DialectName) =>
  dialectOf({ dialect }).hasWaysToThink ? toRouteSettings(own) : toEffortSettings(own)

/** Known facts of a model. Customers name deployments, so those are found by model ID. */
function findOwn(slug: string, { id }: ListedModel, { provider, known, modelList }: DiscoverOptions) {
  if (provider === null) return undefined
  return findAt(known, provider, modelList === 'not_deployed' ? slug.slice(slug.indexOf('/') + 1) : id)
}

const toKnownFacts = (slug: string, own: KnownModel | undefined, { known }: DiscoverOptions): Partial<Facts> => ({
  ...findFacts(known, slug, []),
  pricing: [],
  ...(own ? toFacts(own) : {}),
})

function toFeatures(model: ListedModel, facts: Partial<Facts>): Feature[] {
  const base = model.supportedFeatures ?? facts.supportedFeatures ?? []
  return FEATURES.filter((feature) => model.can?.[feature] ?? base.includes(feature))
}

const LISTED = ['contextLength', 'maxOutputLength', 'inputModalities', 'outputModalities', 'pricing'] as const

const toListedFacts = (listed: ListedModel, isHeard: boolean): ListedFact[] => [
  ...LISTED.filter((fact) => listed[fact] !== undefined && (fact !== 'pricing' || isHeard)),
  ...FEATURES.filter((feature) => listed.supportedFeatures !== undefined || listed.can?.[feature] !== undefined),
]

export interface Found {
  model: DeclaredModel
  listed: ListedModel
  isAssumed: boolean
  isTextAssumed: boolean
  /** Prices in its list are ignored. */
  isUnheard: boolean
}

function toFoundNotes(found: readonly Found[], isLocal: boolean): string[] {
  const toSlugs = (those: readonly Found[]) => those.map(({ model }) => model.slug)
  const odd = found.flatMap(({ model, listed }) =>
    (listed.oddities ?? []).map((oddity) => `${model.slug}: ${oddity} (ignored).`),
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
    ...toNote(large, (names) => `Sizes: ${names}.`),
    ...toNote(
      toSlugs(assumed),
      (names) => `Context length unknown, assuming ${assumed[0]?.model.contextLength} tokens: ${names}.`,
    ),
    ...toNote(
      toSlugs(reading),
      (names) =>
        `Input modalities unknown, assuming text only; other input is rejected: ${names}. Change this in the dashboard.`,
    ),
    ...toNote(
      toSlugs(zero),
      (names) =>
        `Listed as free, but this provider's prices aren't trusted: ${names}. If they are free, mark the upstream as local or set each price to 0.`,
    ),
    ...toNote(
      other.map(({ model, listed }) => `${model.slug} (${toPrices(listed)})`),
      (names) =>
        `Listed prices in USD per token, but this provider's prices aren't trusted: ${names}. If they are right, set them on the models.`,
    ),
    ...toNote(toSlugs(free), (names) => `Published as free, so no budget limits them: ${names}.`),
  ]
}

/** Such as `3.2B, Q4_K_M, 2.0 GB`; '' if unknown. */
const toAbout = ({ parameters, quantization, sizeBytes }: ListedModel): string =>
  [parameters, quantization, sizeBytes === undefined ? undefined : `${(sizeBytes / 1e9).toFixed(1)} GB`]
    .filter((word) => word !== undefined)
    .join(', ')

const MAX_NAMED = 5

export const toNames = (names: readonly string[], most = MAX_NAMED): string =>
  `${names.slice(0, most).join(', ')}${names.length > most ? ` and ${names.length - most} more` : ''}`

export const toFew = (notes: readonly string[]): string[] =>
  notes.length <= MAX_NAMED
    ? [...notes]
    : [...notes.slice(0, MAX_NAMED), `${notes.length - MAX_NAMED} more such notes.`]

const toNote = (names: readonly string[], toSentence: (names: string) => string): string[] =>
  names.length === 0 ? [] : [toSentence(toNames(names))]

const toPrices = ({ pricing: [first] = [] }: ListedModel) =>
  Object.entries(first ?? {})
    .map(([name, price]) => `${name} ${price}`)
    .join(', ')

export interface ModelSelector {
  /** A provider's name or a model ID, with `*` for anything. With a slug, exactly the provider's name. */
  pattern: string
  /** Its new model ID; null = derived from its name. */
  slug: string | null
}

export function toSelector(text: string): ModelSelector {
  const at = text.lastIndexOf('=')
  const [pattern, slug] = [text.slice(0, at), text.slice(at + 1)]
  return at > 0 && isSlug(slug) && !pattern.includes('*') ? { pattern, slug } : { pattern: text, slug: null }
}

/** Keeps `maker/model`; else puts the vendor before the last part of the path. Null if invalid. */
export function toSlug(id: string, vendor: string): string | null {
  const slug = id.split('/').length === 2 ? id : `${vendor}/${id.slice(id.lastIndexOf('/') + 1)}`
  return isSlug(slug) ? slug : null
}

/** Model IDs for a selected model; empty if it is not. */
export function toSlugs(
  { id }: Pick<ListedModel, 'id'>,
  selectors: readonly ModelSelector[],
  vendor: string,
): string[] {
  const slug = toSlug(id, vendor)
  const chosen = selectors.flatMap((selector) =>
    selector.slug !== null && selector.pattern === id ? selector.slug : [],
  )
  const isWanted =
    selectors.length === 0 || selectors.some((selector) => selector.slug === null && fits(selector, id, slug))
  return [...new Set(isWanted && slug !== null ? [...chosen, slug] : chosen)]
}

export function fits(selector: ModelSelector, id: string, slug: string | null): boolean {
  if (selector.slug !== null) return selector.pattern === id
  return matches(selector.pattern, id) || (slug !== null && matches(selector.pattern, slug))
}

function matches(pattern: string, name: string): boolean {
  const [head = '', ...parts] = pattern.split('*')
  if (parts.length === 0) return pattern === name
  const tail = parts.pop() ?? ''
  if (!name.startsWith(head) || !name.endsWith(tail) || name.length < head.length + tail.length) return false
  let rest = name.slice(head.length, name.length - tail.length)
  for (const part of parts) {
    const at = rest.indexOf(part)
    if (at < 0) return false
    rest = rest.slice(at + part.length)
  }
  return true
}
