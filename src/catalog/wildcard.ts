/**
 * What a wildcard model such as `openai/*` stands for: the public models whose facts and price are known, each
 * as an entry of its own, so that prices, rows and targets are those of any other model. Called by `file.ts` on the raw
 * document before it is checked. Pure.
 *
 * - The names come from the vendor where its models are known, else from the upstreams of its routes.
 * - The `*` of a route's model stands for what the `*` of the name stands for. A route is left out where its upstream is one
 *   whose models are known and has none of that name: other providers write the same model otherwise.
 * - An entry or alias written out wins over a wildcard that covers it, and a longer wildcard over a shorter one.
 */
import { type Facts, hasEveryFact } from './complete.ts'
import {
  closest,
  type Entry,
  type Issue,
  isLocal,
  isSlug,
  isWildcard,
  isWildcardName,
  toEntry,
  toItems,
} from './entry.ts'
import { findFacts, type KnownProviders } from './known.ts'

export interface ExpandedModel {
  slug: string
  /** The wildcard that stands for it. */
  wildcard: string
  entry: Entry
}

export interface Expansion {
  models: ExpandedModel[]
  issues: Issue[]
}

interface Route {
  upstream: string
  model: string
  local: boolean
  entry: Entry
  /** What its `*` can stand for; null where that is not known, and for a route without one. */
  served: Set<string> | null
}

/** Whether a name is a wildcard that covers a slug. */
export const covers = (wildcard: string, slug: string) => isWildcard(wildcard) && slug.startsWith(wildcard.slice(0, -1))

/** Expands every wildcard. `aliases` are names that it must not take. */
export function expandWildcards(
  models: [string, Entry][],
  { aliases, upstreams, known }: { aliases: string[]; upstreams: Entry; known: KnownProviders },
): Expansion {
  const names = models.map(([name]) => name)
  const taken = new Set([...names, ...aliases])
  const longestFirst = names.filter(isWildcard).sort((a, b) => b.length - a.length)
  const isItsOwn = ({ slug, wildcard }: ExpandedModel) =>
    !taken.has(slug) && longestFirst.find((name) => covers(name, slug)) === wildcard
  const each = models.filter(([name]) => isWildcardName(name)).map((model) => expand(model, upstreams, known))
  return {
    models: each.flatMap((one) => one.models.filter(isItsOwn)),
    issues: each.flatMap((one) => one.issues),
  }
}

/** Finds all that one wildcard covers, or what is wrong with it. */
function expand([name, entry]: [string, Entry], upstreams: Entry, known: KnownProviders): Expansion {
  const refuse = (message: string) => ({ models: [], issues: [{ segments: ['models', name], message }] })
  const routes = toRoutes(entry, upstreams, known)
  if (!routes) return { models: [], issues: [] }
  if (routes.every((route) => route.local)) return refuse(ALL_LOCAL)
  const stars = findStars(name, routes, known)
  if (typeof stars === 'string') return refuse(stars)
  const idle = routes.flatMap((route, index) =>
    route.served && !stars.some((star) => route.served?.has(star))
      ? [{ segments: ['models', name, 'routes', index, 'model'], message: explainIdle(name, route, stars) }]
      : [],
  )
  if (idle.length > 0) return { models: [], issues: idle }
  const models = stars.flatMap((star) => toExpanded(name, entry, star, routes, known) ?? [])
  return models.length > 0
    ? { models, issues: [] }
    : refuse('of none of the models that it would stand for are the facts and the price known.')
}

const ALL_LOCAL =
  'a wildcard stands for public models with a known price, and all of its routes are local: list each local model by its own name.'

/** Reads the routes; null where they have problems that others tell about. */
function toRoutes(entry: Entry, upstreams: Entry, known: KnownProviders): Route[] | null {
  const routes: Route[] = []
  for (const raw of toItems(entry.routes).map(toEntry)) {
    const { upstream, model } = raw
    if (typeof upstream !== 'string' || typeof model !== 'string') return null
    if (!Object.hasOwn(upstreams, upstream) || model.split('*').length > 2) return null
    const local = isLocal(upstreams[upstream])
    // A server of one's own may be called like a provider and has its own models.
    const names = isWildcard(model) && !local ? namesOf(known, upstream) : null
    const served = names && new Set(names.flatMap((name) => toStar(model, name) ?? []))
    routes.push({ upstream, model, local, entry: raw, served })
  }
  return routes.length > 0 ? routes : null
}

/** Finds what the `*` of a wildcard may stand for, or says why nothing can be found. */
function findStars(wildcard: string, routes: Route[], known: KnownProviders): string[] | string {
  const slash = wildcard.indexOf('/')
  const vendor = wildcard.slice(0, slash)
  const prefix = wildcard.slice(slash + 1, -1)
  const names = namesOf(known, vendor)
  const stars = names
    ? names.flatMap((name) => toStar(`${prefix}*`, name) ?? [])
    : routes.flatMap(({ served }) => [...(served ?? [])])
  if (stars.length > 0) return [...new Set(stars)]
  if (names) return `no model of ${vendor} is known whose name begins with '${prefix}'.`
  if (routes.some(({ served }) => served)) return 'no model is known that its routes could ask for.'
  const hint = closest(vendor, Object.keys(known))
  return `no public models of '${vendor}' are known${hint}, nor of the upstreams of its routes: list each model by its own name.`
}

/** The model that a wildcard stands for with this `*`; null where its facts, its price or its routes are wanting. */
function toExpanded(
  wildcard: string,
  entry: Entry,
  star: string,
  routes: Route[],
  known: KnownProviders,
): ExpandedModel | null {
  const slug = wildcard.slice(0, -1) + star
  const serving = routes
    .filter(({ served }) => !served || served.has(star))
    .map((route) => ({ ...route, model: route.model.replace('*', () => star) }))
    .filter(({ model }) => model !== '')
    // One route may name what the `*` of another stands for.
    .filter((route, index, all) => all.findIndex((other) => isSamePlace(other, route)) === index)
  if (!isSlug(slug) || serving.every((route) => route.local)) return null
  const facts: Partial<Facts> = findFacts(known, slug, serving)
  if (!hasEveryFact(facts) || !isServed(facts)) return null
  return { slug, wildcard, entry: { ...entry, routes: serving.map(({ entry, model }) => ({ ...entry, model })) } }
}

/** Those that make embeddings, or text: of the latter, what charges for reading alone makes something else. */
const isServed = ({ outputModalities = [], pricing = [] }: Partial<Facts>) =>
  outputModalities.includes('embeddings') ||
  (outputModalities.includes('text') &&
    pricing.every((item) => /[1-9]/.test(item.completion) || !/[1-9]/.test(item.prompt)))

const isSamePlace = (one: Route, other: Route) => one.upstream === other.upstream && one.model === other.model

function explainIdle(wildcard: string, { upstream, model }: Route, [star = '']: string[]): string {
  const asked = model.replace('*', () => star)
  return `${upstream} is not known to have any model that this would ask it for, such as '${asked}': the * is replaced by what the * of ${wildcard} stands for.`
}

function namesOf(known: KnownProviders, provider: string): string[] | null {
  return Object.hasOwn(known, provider) ? Object.keys(known[provider]?.models ?? {}) : null
}

/** What the `*` of a pattern stands for in a name; null where they do not match. */
function toStar(pattern: string, name: string): string | null {
  const [head = '', tail = ''] = pattern.split('*')
  const fits = name.length >= head.length + tail.length && name.startsWith(head) && name.endsWith(tail)
  return fits ? name.slice(head.length, name.length - tail.length) : null
}
