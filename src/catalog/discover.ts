/**
 * From a provider's list of models to what the catalog says of them, and what an operator is told of that. What the provider says of itself
 * comes first, then the known facts of that provider, then, but for the price, those of the model's maker; what nobody says is assumed, and
 * told. Wanted are names or patterns, the provider's or ours, and `NAME=SLUG` for one that is to have a slug of its choosing. Pure.
 *
 * A model whose price nobody knows has none (`pricing: []`) and is disabled.
 */
import type { DialectName } from '../domain/dialects.ts'
import { quote } from '../domain/explain.ts'
import type { ListedModel } from '../domain/model-server.ts'
import { FEATURES, type Feature } from '../domain/models.ts'
import type { ListedFact } from '../store/catalog-rows.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import { byCondition, type DeclaredModel, type Facts, FREE, isFree, OF_EMBEDDINGS, PLAIN_ROUTE } from './complete.ts'
import { isSlug } from './entry.ts'
import {
  findAt,
  findFacts,
  type KnownModel,
  type KnownProviders,
  saysEmbeddings,
  toEffortSettings,
  toFacts,
  toRouteSettings,
} from './known.ts'
import type { Provider } from './providers.ts'

export interface DiscoverOptions {
  /** The id of the upstream that serves them. */
  upstream: string
  dialect: DialectName
  /** The first part of the slugs of models whose name says no maker. */
  vendor: string
  /** Its name among the known facts. */
  provider: string | null
  /** What its list is worth; null = the names of those that it serves. */
  modelList: Provider['modelList']
  /** Whether it costs nothing. */
  local: boolean
  known: KnownProviders
  /** Which are wanted. None = all that chat, and those for embeddings whose price is known. */
  wishes: readonly Wish[]
}

export interface Discovered {
  models: DeclaredModel[]
  /** How many are left out because they neither chat nor make embeddings at a known price. */
  others: number
  /** Sentences: what was odd about the list, and what is assumed. */
  notes: string[]
}

/** What is assumed of a model that nobody says it of: a prompt that is too long for it is then refused by its provider. */
const ASSUMED = { contextLength: 128_000, maxOutputLength: 16_384 } as const

export function toDiscovered(listed: readonly ListedModel[], options: DiscoverOptions): Discovered {
  const notes: string[] = []
  const { wishes, vendor } = options
  const named = onlyHere(onlyNamed(listed, notes), options, notes)
  const wanted = named.flatMap((model) => toSlugs(model, wishes, vendor).map((slug) => ({ model, slug })))
  const isMeant = ({ id }: ListedModel) =>
    wishes.length === 0 || wishes.some((wish) => wish.slug === null && fits(wish, id, null))
  const nameless = named.filter((model) => toSlug(model.id, vendor) === null && isMeant(model))
  if (nameless.length > 0)
    notes.push(
      `${toCount(nameless.length)} left out, whose names cannot be those of models here: ${toNames(nameless.map(({ id }) => quote(id)))}. ${RENAME}`,
    )
  const chatting = wanted.filter(({ model }) => wishes.length > 0 || isServed(model, options))
  const bySlug = [...Map.groupBy(chatting, ({ slug }) => slug)]
  const doubled = bySlug
    .filter(([, own]) => own.length > 1)
    .map(([slug, own]) => {
      const names = toNames(own.map(({ model }) => quote(model.id)))
      return `${own.length} of its models would be ${slug}, and none of them is taken: ${names}. ${RENAME}`
    })
  const found = bySlug.flatMap(([slug, own]) =>
    own.slice(0, own.length === 1 ? 1 : 0).map(({ model }) => toFound(slug, model, options)),
  )
  const models = found.map(({ model }) => model)
  const all = [...notes, ...toFew(doubled), ...toFoundNotes(found, options.local)]
  return { models, others: wanted.length - chatting.length, notes: all }
}

const RENAME = 'Name the one that is meant, and what it is to be called: --models NAME=SLUG.'

/** Without what is no name: a list is written by somebody else, and a name goes into addresses, logs and terminals. */
function onlyNamed(listed: readonly ListedModel[], notes: string[]): ListedModel[] {
  const isName = ({ id }: ListedModel) => /^[\x21-\x7e]{1,200}$/.test(id) && !/(^|\/)\.{1,2}(\/|$)/.test(id)
  const wrong = listed.filter((model) => !isName(model))
  if (wrong.length > 0) {
    const names = toNames(wrong.map(({ id }) => quote(id.slice(0, MAX_CHARS))))
    notes.push(
      `${toCount(wrong.length)} left out, whose names are empty, too long, lead to another path, or hold other than printed letters: ${names}.`,
    )
  }
  // Some lists say the same model twice.
  return [...new Map(listed.filter(isName).map((model) => [model.id, model])).values()]
}

/** What a server of one's own has answered by somebody else costs money there, and leaves the house. */
function onlyHere(listed: ListedModel[], { local }: DiscoverOptions, notes: string[]): ListedModel[] {
  const elsewhere = local ? listed.filter(({ isElsewhere }) => isElsewhere) : []
  if (elsewhere.length > 0)
    notes.push(
      `${toCount(elsewhere.length)} left out, which the server has answered elsewhere, so that they are not local: ${toNames(elsewhere.map(({ id }) => quote(id)))}.`,
    )
  return elsewhere.length === 0 ? listed : listed.filter(({ isElsewhere }) => !isElsewhere)
}

const toCount = (count: number) => `${count} of its models ${count === 1 ? 'is' : 'are'}`

/** Of a name that is none. */
const MAX_CHARS = 60

/** What many names say, where neither the provider nor the known facts do. */
const OTHER_NAMES =
  /embed|whisper|(^|[-/])tts([-/]|$)|dall-e|moderation|realtime|transcri|(^|[-/])(sora|imagen|veo|lyria)|rerank|gpt-image|(^|[-/])(babbage|davinci)|instruct-\d{4}$/i

/** Whether it chats, or makes embeddings at a price that is known. */
const isServed = (model: ListedModel, options: DiscoverOptions): boolean =>
  makesEmbeddings(model, options) ? hasPrice(model, options) : canChat(model, options)

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
  // What charges for reading alone are embeddings.
  return found.modalities.output.includes('text') && (output > 0 || input === 0)
}

function toFound(slug: string, listed: ListedModel, options: DiscoverOptions): Found {
  const { local, upstream, dialect, modelList } = options
  const own = findOwn(slug, listed, options)
  const embeds = makesEmbeddings(listed, options) ? OF_EMBEDDINGS : {}
  const facts = { ...toKnownFacts(slug, own, options), ...embeds }
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

/** What is known of it at its provider. A deployment has a name of its customer's: what it is of, its slug says. */
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

/** What a list says of a model, so far as that is taken. */
const toListedFacts = (listed: ListedModel, isHeard: boolean): ListedFact[] => [
  ...LISTED.filter((fact) => listed[fact] !== undefined && (fact !== 'pricing' || isHeard)),
  ...FEATURES.filter((feature) => listed.supportedFeatures !== undefined || listed.can?.[feature] !== undefined),
]

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
function toFoundNotes(found: readonly Found[], isLocal: boolean): string[] {
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

const MAX_NAMED = 5

/** The first few of many names. */
export const toNames = (names: readonly string[], most = MAX_NAMED): string =>
  `${names.slice(0, most).join(', ')}${names.length > most ? ` and ${names.length - most} more` : ''}`

/** The first few of many sentences. */
export const toFew = (notes: readonly string[]): string[] =>
  notes.length <= MAX_NAMED
    ? [...notes]
    : [...notes.slice(0, MAX_NAMED), `There are ${notes.length - MAX_NAMED} more of these notes.`]

const toNote = (names: readonly string[], toSentence: (names: string) => string): string[] =>
  names.length === 0 ? [] : [toSentence(toNames(names))]

const toPrices = ({ pricing: [first] = [] }: ListedModel) =>
  Object.entries(first ?? {})
    .map(([name, price]) => `${name} ${price}`)
    .join(', ')

export interface Wish {
  /** A name of the provider's or of ours; `*` is any run of characters. With a slug it is the provider's, as it is. */
  pattern: string
  /** What it is to be called here; null = as follows from its name. */
  slug: string | null
}

export function toWish(text: string): Wish {
  const at = text.lastIndexOf('=')
  const [pattern, slug] = [text.slice(0, at), text.slice(at + 1)]
  return at > 0 && isSlug(slug) && !pattern.includes('*') ? { pattern, slug } : { pattern: text, slug: null }
}

/** `maker/model` as it is; of a longer path the last part, and a name alone behind its provider's; null where that is no slug. */
export function toSlug(id: string, vendor: string): string | null {
  const slug = id.split('/').length === 2 ? id : `${vendor}/${id.slice(id.lastIndexOf('/') + 1)}`
  return isSlug(slug) ? slug : null
}

/** The slugs under which a model is wanted; none where it is not. */
export function toSlugs({ id }: Pick<ListedModel, 'id'>, wishes: readonly Wish[], vendor: string): string[] {
  const slug = toSlug(id, vendor)
  const chosen = wishes.flatMap((wish) => (wish.slug !== null && wish.pattern === id ? wish.slug : []))
  const isWanted = wishes.length === 0 || wishes.some((wish) => wish.slug === null && fits(wish, id, slug))
  return [...new Set(isWanted && slug !== null ? [...chosen, slug] : chosen)]
}

/** Whether a wish means a model by either of its names. */
export function fits(wish: Wish, id: string, slug: string | null): boolean {
  if (wish.slug !== null) return wish.pattern === id
  return matches(wish.pattern, id) || (slug !== null && matches(wish.pattern, slug))
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
