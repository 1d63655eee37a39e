/**
 * Expands a wildcard model such as `openai/*` to the public models with known facts and price, each as its own entry.
 *
 * - Names come from the vendor's known models, else from the upstreams of the routes.
 * - `*` in a route's model means the same text as in the name. A route is dropped if its upstream's known models lack
 * that name.
 * - Explicit entries and aliases win over wildcards, and longer wildcards over shorter ones.
 */

import { closest } from '../domain/closest.ts'
import { endpointsOf } from '../domain/models.ts'
import { type Facts, hasEveryFact } from './complete.ts'
import { type Entry, type Issue, isLocal, isSlug, isWildcard, isWildcardName, toEntry, toItems } from './entry.ts'
import { findFacts, type KnownProviders } from './known.ts'

export interface ExpandedModel {
  slug: string
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
  /** Possible values of its `*`; null if unknown or without `*`. */
  served: Set<string> | null
}

export const covers = (wildcard: string, slug: string) => isWildcard(wildcard) && slug.startsWith(wildcard.slice(0, -1))

/** @param aliases names that no wildcard may use */
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
  return models.length > 0 ? { models, issues: [] } : refuse('no model it covers has known facts and a known price.')
}

const ALL_LOCAL =
  'wildcards only cover public models with a known price, and all routes are local. List each local model by name.'

/** Null if the routes have problems that other checks report. */
function toRoutes(entry: Entry, upstreams: Entry, known: KnownProviders): Route[] | null {
  const routes: Route[] = []
  for (const raw of toItems(entry.routes).map(toEntry)) {
    const { upstream, model } = raw
    if (typeof upstream !== 'string' || typeof model !== 'string') return null
    if (!Object.hasOwn(upstreams, upstream) || model.split('*').length > 2) return null
    const local = isLocal(upstreams[upstream])
    // A local server named like a provider has other models.
    const names = isWildcard(model) && !local ? namesOf(known, upstream) : null
    const served = names && new Set(names.flatMap((name) => toStar(model, name) ?? []))
    routes.push({ upstream, model, local, entry: raw, served })
  }
  return routes.length > 0 ? routes : null
}

/** Possible values of a wildcard's `*`, or why there are none. */
function findStars(wildcard: string, routes: Route[], known: KnownProviders): string[] | string {
  const slash = wildcard.indexOf('/')
  const vendor = wildcard.slice(0, slash)
  const prefix = wildcard.slice(slash + 1, -1)
  const names = namesOf(known, vendor)
  const stars = names
    ? names.flatMap((name) => toStar(`${prefix}*`, name) ?? [])
    : routes.flatMap(({ served }) => [...(served ?? [])])
  if (stars.length > 0) return [...new Set(stars)]
  if (names) return `no known model of ${vendor} starts with '${prefix}'.`
  if (routes.some(({ served }) => served)) return 'no known model matches its routes.'
  const hint = closest(vendor, Object.keys(known))
  return `no public models are known of '${vendor}'${hint} or of its routes' upstreams. List each model by name.`
}

/** Null if a fact, its price, or every route is missing. */
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
    // Explicit and wildcard routes may coincide.
    .filter((route, index, all) => all.findIndex((other) => isSamePlace(other, route)) === index)
  if (!isSlug(slug) || serving.every((route) => route.local)) return null
  const facts: Partial<Facts> = findFacts(known, slug, serving)
  if (!hasEveryFact(facts) || !isServed(facts)) return null
  return { slug, wildcard, entry: { ...entry, routes: serving.map(({ entry, model }) => ({ ...entry, model })) } }
}

/** False for text models that charge only for input, since their output isn't text. */
const isServed = ({ outputModalities = [], pricing = [] }: Partial<Facts>) =>
  outputModalities.includes('embeddings') ||
  (outputModalities.includes('text') &&
    endpointsOf(outputModalities).includes('chat') &&
    pricing.every((item) => /[1-9]/.test(item.completion) || !/[1-9]/.test(item.prompt)))

const isSamePlace = (one: Route, other: Route) => one.upstream === other.upstream && one.model === other.model

function explainIdle(wildcard: string, { upstream, model }: Route, [star = '']: string[]): string {
  const asked = model.replace('*', () => star)
  return `${upstream} has no known model such as '${asked}'. In a route, * means the same text as in ${wildcard}.`
}

function namesOf(known: KnownProviders, provider: string): string[] | null {
  return Object.hasOwn(known, provider) ? Object.keys(known[provider]?.models ?? {}) : null
}

/** The text that matches `*`; null without a match. */
function toStar(pattern: string, name: string): string | null {
  const [head = '', tail = ''] = pattern.split('*')
  const fits = name.length >= head.length + tail.length && name.startsWith(head) && name.endsWith(tail)
  return fits ? name.slice(head.length, name.length - tail.length) : null
}
