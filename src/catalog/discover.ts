/**
 * From a provider's list of models to what the catalogue says of them. What the provider says of itself comes first, then the known
 * facts of that provider, then, but for the price, those of the model's maker; what nobody says is assumed, and told. Pure.
 *
 * A model whose price nobody knows has none (`pricing: []`) and is disabled.
 */
import type { ListedModel } from '../domain/listed-model.ts'
import { type DialectName, FEATURES, type Feature, type RouteSettings } from '../domain/settings.ts'
import { quote } from '../validation/explain-words.ts'
import { byCondition, type DeclaredModel, type DeclaredRoute, type Facts, FREE, OWN_FORMATS } from './complete.ts'
import { isSlug } from './entry.ts'
import { findAt, findFacts, type KnownProviders, toFacts, toRouteSettings } from './known.ts'

export interface DiscoverOptions {
  /** The id of the upstream that serves them. */
  upstream: string
  dialect: DialectName
  /** The first part of the slugs of models whose name says no maker. */
  vendor: string
  /** Its name among the known facts. */
  provider: string | null
  /** Whether it costs nothing. */
  local: boolean
  known: KnownProviders
  /** Which are wanted, by slug or by the provider's own name; `*` is any run of characters. None = all that chat. */
  patterns: readonly string[]
}

export interface Discovered {
  models: DeclaredModel[]
  /** Slugs of those that nobody knows the price of. */
  unpriced: string[]
  /** How many are left out because they do not chat. */
  others: number
  /** Sentences: what was odd about the list, and what is assumed. */
  notes: string[]
}

/** What is assumed of a model that nobody says it of: a prompt that is too long for it is then refused by its provider. */
const ASSUMED = { contextLength: 128_000, maxOutputLength: 16_384 } as const

/** What a model is taken for of which nobody says anything. */
export const UNSAID: Partial<Facts> = {
  ...ASSUMED,
  ...{ inputModalities: ['text'], outputModalities: ['text'], supportedFeatures: [] },
}

export function toDiscovered(listed: readonly ListedModel[], options: DiscoverOptions): Discovered {
  const notes: string[] = []
  const named = onlyNamed(listed, notes)
  const all = named.map((model) => ({ model, slug: toSlug(model.id, options.vendor) }))
  const nameless = all.filter(({ slug }) => slug === null)
  if (nameless.length > 0)
    notes.push(
      `${toCount(nameless.length)} left out, whose names cannot be those of models here: ${toNames(nameless.map(({ model }) => model.id))}.`,
    )
  const wanted = all.flatMap(({ model, slug }) =>
    slug !== null && isWanted(options.patterns, model.id, slug) ? [{ model, slug }] : [],
  )
  const isNamed = options.patterns.length > 0
  const chatting = wanted.filter(({ model }) => isNamed || canChat(model, options))
  const bySlug = Map.groupBy(chatting, ({ slug }) => slug)
  const models: DeclaredModel[] = []
  for (const [slug, own] of bySlug) {
    const [first] = own
    if (own.length > 1 || !first) {
      const names = toNames(own.map(({ model }) => model.id))
      notes.push(
        `${own.length} of its models would be ${slug}, and none of them is taken: ${names}. Name the one that is meant, with --models.`,
      )
      continue
    }
    models.push(toDeclared(slug, first.model, options, notes))
  }
  const unpriced = models.filter(({ pricing }) => pricing.length === 0).map(({ slug }) => slug)
  return { models, unpriced, others: wanted.length - chatting.length, notes }
}

/** Without what is no name: a list is written by somebody else, and a name goes into addresses, logs and terminals. */
function onlyNamed(listed: readonly ListedModel[], notes: string[]): ListedModel[] {
  const isName = ({ id }: ListedModel) => /^[\x21-\x7e]{1,200}$/.test(id)
  const wrong = listed.filter((model) => !isName(model))
  if (wrong.length > 0) {
    const names = toNames(wrong.map(({ id }) => id))
    notes.push(
      `${toCount(wrong.length)} left out, whose names are empty, too long, or hold other than printed letters: ${names}.`,
    )
  }
  // Some lists say the same model twice.
  return [...new Map(listed.filter(isName).map((model) => [model.id, model])).values()]
}

const toCount = (count: number) => `${count} of its models ${count === 1 ? 'is' : 'are'}`

const MOST_NAMED = 5
const toNames = (ids: string[]) =>
  `${ids
    .slice(0, MOST_NAMED)
    .map((id) => quote(id.slice(0, 60)))
    .join(', ')}${ids.length > MOST_NAMED ? ` and ${ids.length - MOST_NAMED} more` : ''}`

/** `maker/model` as it is; of a longer path the last part, and a name alone behind its provider's. */
export function toSlug(id: string, vendor: string): string | null {
  const slug = id.split('/').length === 2 ? id : `${vendor}/${id.slice(id.lastIndexOf('/') + 1)}`
  return isSlug(slug) ? slug : null
}

const isWanted = (patterns: readonly string[], id: string, slug: string): boolean =>
  patterns.length === 0 || patterns.some((pattern) => matches(pattern, id) || matches(pattern, slug))

export function matches(pattern: string, name: string): boolean {
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

/** What many names say, where neither the provider nor the known facts do. */
const OTHER_NAMES =
  /embed|whisper|(^|[-/])tts([-/]|$)|dall-e|moderation|realtime|transcri|(^|[-/])(sora|imagen|veo|lyria)|rerank|gpt-image|(^|[-/])(babbage|davinci)|instruct-\d{4}$/i

function canChat(model: ListedModel, { provider, known }: DiscoverOptions): boolean {
  if (model.canChat !== undefined) return model.canChat
  const found = provider === null ? undefined : findAt(known, provider, model.id)
  if (!found) return !OTHER_NAMES.test(model.id)
  const { input = 0, output = 0 } = found.cost ?? {}
  // What charges for reading alone are embeddings.
  return found.modalities.output.includes('text') && (output > 0 || input === 0)
}

function toDeclared(slug: string, model: ListedModel, options: DiscoverOptions, notes: string[]): DeclaredModel {
  const { provider, known, local, upstream, dialect } = options
  const own = provider === null ? undefined : findAt(known, provider, model.id)
  const ownFacts = own ? toFacts(own) : {}
  const facts: Partial<Facts> = { ...findFacts(known, slug, []), pricing: [], ...ownFacts }
  for (const oddity of model.oddities ?? []) notes.push(`${slug}: ${oddity}; it is left out.`)
  const context = model.contextLength ?? facts.contextLength
  if (context === undefined)
    notes.push(`${slug}: nobody says how long its prompt may be: ${ASSUMED.contextLength} tokens are assumed.`)
  const contextLength = context ?? ASSUMED.contextLength
  const output = model.maxOutputLength ?? facts.maxOutputLength ?? ASSUMED.maxOutputLength
  const pricing = local ? FREE : (model.pricing?.toSorted(byCondition) ?? facts.pricing ?? [])
  return {
    slug,
    name: (model.name ?? facts.name ?? model.id).replace(/\p{Cc}/gu, ' ').slice(0, 200),
    ownedBy: slug.slice(0, slug.indexOf('/')),
    contextLength,
    maxOutputLength: Math.min(output, contextLength),
    inputModalities: model.inputModalities ?? facts.inputModalities ?? ['text'],
    outputModalities: model.outputModalities ?? facts.outputModalities ?? ['text'],
    supportedFeatures: toFeatures(model, facts),
    pricing,
    enabled: pricing.length > 0,
    listed: true,
    fromWildcard: false,
    createdMs: null,
    routes: [toRoute(upstream, model, own && OWN_FORMATS.has(dialect) ? toRouteSettings(own) : {})],
  }
}

function toFeatures(model: ListedModel, facts: Partial<Facts>): Feature[] {
  const base = model.supportedFeatures ?? facts.supportedFeatures ?? []
  return FEATURES.filter((feature) => model.can?.[feature] ?? base.includes(feature))
}

/** @param known how the model thinks by the known facts. */
function toRoute(upstream: string, { id, options = {} }: ListedModel, known: RouteSettings): DeclaredRoute {
  return {
    ...{ upstream, upstreamModel: id, priority: 0, weight: 1, pricing: null, enabled: true },
    ...{ contextLength: null, maxOutputLength: null, supportedFeatures: null },
    options: { ...known, ...options },
  }
}
