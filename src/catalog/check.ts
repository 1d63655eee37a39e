/**
 * Checks catalogs beyond field types, on the raw document, so that all problems are reported at once. Skips fields of
 * the wrong type, which the schema reports.
 */

import type { TSchema } from '@sinclair/typebox'
import { closest } from '../domain/closest.ts'
import { type Problem, toList, toRule } from '../domain/explain.ts'
import { isObject } from '../domain/json.ts'
import { FEATURES } from '../domain/models.ts'
import { isMs } from '../domain/tariff.ts'
import { UNIT_NAMES, UNITS } from '../domain/units.ts'
import { isOfTokens, toMode } from '../domain/usage.ts'
import { checkUpstream } from './check-upstream.ts'
import { assumedOf, type Facts, lacksPrice } from './complete.ts'
import {
  type Entry,
  type Issue,
  isLocal,
  isSlug,
  issue,
  isWildcard,
  isWildcardName,
  type Path,
  toEntry,
  toItems,
} from './entry.ts'
import { CatalogSchema, FACT_FIELDS, fieldsAt } from './fields.ts'
import { findFacts, type KnownProviders } from './known.ts'
import { checkMemory } from './process.ts'
import { covers, type Expansion } from './wildcard.ts'

const ALIAS = /^[A-Za-z0-9][A-Za-z0-9._:@+~/-]{0,127}$/

export function* checkCatalog(raw: unknown, known: KnownProviders, expansion: Expansion): Generator<Issue> {
  const root = toEntry(raw)
  const [upstreams, models, aliases] = [toEntry(root.upstreams), toEntry(root.models), toEntry(root.aliases)]
  yield* checkMemory(root.memory, upstreams)
  for (const [id, entry] of Object.entries(upstreams)) yield* checkUpstream(id, toEntry(entry))
  for (const [slug, entry] of Object.entries(models)) yield* checkModel(slug, entry, upstreams, known)
  for (const [alias, entry] of Object.entries(aliases)) yield* checkAlias(alias, entry, models, expansion)
  yield* expansion.issues
}

function* checkAlias(alias: string, entry: unknown, models: Entry, expansion: Expansion): Generator<Issue> {
  const at: Path = ['aliases', alias]
  const model = isObject(entry) ? entry.model : entry
  if (!ALIAS.test(alias)) yield issue(at, `invalid alias '${alias}'. Use letters, digits, and . _ : @ + ~ / -.`)
  if (Object.hasOwn(models, alias)) yield issue(at, 'a model has this name. Choose another alias.')
  const problem = typeof model === 'string' ? explainTarget(model, models, expansion) : null
  if (problem) yield issue(isObject(entry) ? [...at, 'model'] : at, problem)
}

function explainTarget(model: string, models: Entry, { models: expanded }: Expansion): string | null {
  if (isWildcard(model)) return `'${model}' is a wildcard, but an alias needs one model. Name a model that it covers.`
  const slugs = expanded.map(({ slug }) => slug)
  if (Object.hasOwn(models, model) || slugs.includes(model)) return null
  const wildcard = Object.keys(models).find((name) => covers(name, model))
  const hint = closest(model, [...Object.keys(models).filter((name) => !isWildcard(name)), ...slugs])
  if (!wildcard) return `unknown model '${model}' in this file${hint}.`
  // An empty wildcard is reported elsewhere.
  if (!expanded.some((one) => one.wildcard === wildcard)) return null
  return `${wildcard} doesn't cover '${model}': its price is unknown${hint}. List the model by name.`
}

export const NO_SECONDS =
  'a price per second is only for local upstreams. Set a price without second, or make the upstream local.'

const DECIMAL = /^\d{1,9}(\.\d{1,18})?$/
/** At most 15 decimals, so that a millisecond has an exact price. */
const DECIMAL_OF_SECOND = /^\d{1,9}(\.\d{1,15})?$/

/** Fields of a single model, which a wildcard can't have. */
const OF_ONE_MODEL = ['name', 'created', 'context_length', 'max_output_length', 'input_modalities', 'output_modalities']
/** Length fields, which routes have, too. */
const LENGTHS = ['context_length', 'max_output_length']

export function* checkModel(slug: string, raw: unknown, upstreams: Entry, known: KnownProviders): Generator<Issue> {
  const at: Path = ['models', slug]
  const entry = toEntry(raw)
  if (isWildcard(slug)) yield* checkWildcard(slug, entry, at)
  else if (!isSlug(slug))
    yield issue(at, `invalid model ID '${slug}'. It must be <vendor>/<model>, such as openai/gpt-4o-mini.`)
  yield* checkLengths(entry, at)
  yield* checkPricing(entry.pricing, [...at, 'pricing'])
  const seen = new Set<string>()
  for (const [index, item] of toItems(entry.routes).entries()) {
    const route = toEntry(item)
    const path = [...at, 'routes', index]
    if (typeof route.upstream === 'string' && !Object.hasOwn(upstreams, route.upstream)) {
      const hint = closest(route.upstream, Object.keys(upstreams))
      yield issue([...path, 'upstream'], `unknown upstream '${route.upstream}' in this file${hint}.`)
    }
    const problem = typeof route.model === 'string' ? explainStars(route.model, isWildcard(slug)) : null
    if (problem) yield issue([...path, 'model'], problem)
    const name = `${route.upstream} ${route.model}`
    if (seen.has(name)) yield issue(path, 'duplicate route: same upstream and model.')
    seen.add(name)
    yield* checkLengths(route, path)
    yield* checkPricing(route.pricing, [...path, 'pricing'])
    const { upstream } = route
    const isPaid = typeof upstream === 'string' && Object.hasOwn(upstreams, upstream) && !isLocal(upstreams[upstream])
    if (isPaid && hasSecond(route.pricing ?? entry.pricing)) yield issue([...path, 'pricing'], NO_SECONDS)
  }
  if (isObject(raw) && !isWildcard(slug)) yield* checkFacts(slug, entry, upstreams, known)
}

function* checkWildcard(slug: string, entry: Entry, at: Path): Generator<Issue> {
  if (!isWildcardName(slug))
    yield issue(
      at,
      `invalid wildcard '${slug}'. It must be <vendor>/<prefix>*, with one * at the end, such as openai/* or openai/gpt-*.`,
    )
  for (const field of OF_ONE_MODEL) {
    if (entry[field] === undefined) continue
    const advice = LENGTHS.includes(field) ? 'set it on a route as a limit, or' : 'remove it, or'
    yield issue(
      [...at, field],
      `a wildcard can't have ${field}, which differs between models: ${advice} list a model by name.`,
    )
  }
}

export function explainStars(model: string, ofWildcard: boolean): string | null {
  const stars = model.split('*').length - 1
  if (stars > 1) return `'${model}' has more than one *.`
  if (stars === 1 && !ofWildcard)
    return `'${model}' contains *, which is only for wildcards such as openai/*. Write the upstream's name of this model.`
  return null
}

export function* checkLengths(
  { context_length: context, max_output_length: output }: Entry,
  at: Path,
): Generator<Issue> {
  if (typeof context === 'number' && typeof output === 'number' && output > context)
    yield issue([...at, 'max_output_length'], `${output} is more than context_length (${context}).`)
}

export function* checkPricing(pricing: unknown, at: Path): Generator<Issue> {
  const seen = new Set<string>()
  for (const [index, item] of toItems(pricing).entries()) {
    const entry = toEntry(item)
    for (const [field, value] of Object.entries(entry)) {
      const ofSecond = OF_SECOND.has(field)
      if (CONDITIONS.has(field) || typeof value !== 'string' || (ofSecond ? DECIMAL_OF_SECOND : DECIMAL).test(value))
        continue
      yield issue(
        [...at, index, field],
        ofSecond
          ? `invalid price '${value.slice(0, 40)}'. Write USD per second as a decimal such as "0.0005", without sign or exponent, at most 15 decimals.`
          : `invalid price '${value.slice(0, 40)}'. Write USD${isOfTokens(field) ? ' per token' : ''} as a decimal such as "0.00000015", without sign or exponent, at most 18 decimals.`,
      )
    }
    if (entry.image !== undefined)
      yield issue(
        [...at, index, 'image'],
        'the price of an image in the prompt is not supported. Set image_token, the price of an image token in the prompt, or generated_image, the price of an image made.',
      )
    for (const name of ['mode', 'size', 'quality'] as const) {
      const problem = typeof entry[name] === 'string' ? explainWord(name, entry[name]) : null
      if (problem) yield issue([...at, index, name], problem)
    }
    for (const name of AUDIO_TERMS)
      if (entry[name] !== undefined && entry.audio_second === undefined)
        yield issue([...at, index, name], `${name} needs audio_second, the price of a second of audio.`)
    const mode = toModeOf(entry)
    const conditional =
      entry.min_prompt_tokens !== undefined ||
      [entry.mode, entry.size, entry.quality].some((each) => each !== undefined)
    if (index === 0 && conditional)
      yield issue(
        [...at, 0],
        "the first price applies to every request, so it can't have min_prompt_tokens, mode, size, or quality.",
      )
    if (index > 0 && !conditional && isObject(item))
      yield issue(
        [...at, index],
        'min_prompt_tokens is missing: every price after the first needs min_prompt_tokens, mode, size, or quality.',
      )
    const condition = JSON.stringify([entry.min_prompt_tokens ?? null, mode ?? entry.mode ?? null])
    if (index > 0 && conditional && seen.has(condition))
      yield issue([...at, index], 'duplicate price: another one has the same conditions.')
    seen.add(condition)
    if (mode !== null && entry.min_prompt_tokens !== undefined && !hasBase(pricing, mode))
      yield issue([...at, index], `mode ${mode} also needs a price without min_prompt_tokens, for shorter prompts.`)
  }
}

const hasSecond = (pricing: unknown): boolean => toItems(pricing).some((item) => toEntry(item).second !== undefined)

const CONDITIONS: ReadonlySet<string> = new Set(['min_prompt_tokens', 'mode', 'size', 'quality'])

function explainWord(name: 'mode' | 'size' | 'quality', word: string): string | null {
  const served = toMode(...(name === 'mode' ? word.split('+') : [word]))
  if (served === word) return null
  const advice = served === null ? `such calls cost the price without a ${name}` : `write '${served}'`
  return `invalid ${name} '${word.slice(0, 40)}': ${advice}.`
}

const toModeOf = ({ mode, size, quality }: Entry): string | null =>
  toMode(...(typeof mode === 'string' ? mode.split('+') : []), size, quality)

const AUDIO_TERMS = ['audio_min_seconds', 'audio_step_seconds'] as const
/** Prices per second of units that are charged per ms. */
const OF_SECOND: ReadonlySet<string> = new Set(UNIT_NAMES.filter(isMs).map((unit) => UNITS[unit].price))

const hasBase = (pricing: unknown, mode: string) =>
  toItems(pricing)
    .map(toEntry)
    .some((item) => toModeOf(item) === mode && item.min_prompt_tokens === undefined)

/** Reports missing facts, and routes that exceed their model. */
function* checkFacts(slug: string, entry: Entry, upstreams: Entry, known: KnownProviders): Generator<Issue> {
  const facts = { ...assumedOf(entry), ...findFacts(known, slug, toItems(entry.routes).flatMap(toRouteName)) }
  const missing: string[] = FACT_FIELDS.filter(
    ([fact, field]) => entry[field] === undefined && facts[fact] === undefined,
  ).map(([, field]) => field)
  if (lacksPrice(entry, upstreams) && facts.pricing === undefined && entry.enabled !== false) missing.push('pricing')
  const verb = missing.length === 1 ? 'is' : 'are'
  if (missing.length > 0) {
    const isKnown = facts.contextLength !== undefined || facts.name !== undefined
    const why = isKnown ? 'the public facts lack it' : `no public facts are known${closestKnown(known, slug)}`
    yield issue(
      ['models', slug],
      `${toList(missing, 'and')} ${verb} missing: ${why}. Set ${missing.length === 1 ? 'it' : 'them'} on the model.`,
    )
  }
  const contextLength = toNumber(entry.context_length) ?? facts.contextLength ?? Infinity
  const maxOutputLength = toNumber(entry.max_output_length) ?? facts.maxOutputLength ?? Infinity
  const features = Array.isArray(entry.supported_features) ? entry.supported_features : facts.supportedFeatures
  const most = { contextLength, maxOutputLength, supportedFeatures: features ?? FEATURES }
  for (const [index, route] of toItems(entry.routes).entries())
    yield* checkNarrower(toEntry(route), most, ['models', slug, 'routes', index])
}

/** A hint with the most similar model of the same vendor. */
function closestKnown(known: KnownProviders, slug: string): string {
  const vendor = slug.slice(0, Math.max(0, slug.indexOf('/')))
  const models = Object.hasOwn(known, vendor) ? known[vendor]?.models : undefined
  const names = Object.keys(models ?? {}).map((name) => `${vendor}/${name}`)
  return closest(slug, names)
}

function toRouteName(item: unknown): { upstream: string; model: string }[] {
  const { upstream, model } = toEntry(item)
  return typeof upstream === 'string' && typeof model === 'string' ? [{ upstream, model }] : []
}

/** Clients rely on the model's facts, so a route may only be narrower. */
export function* checkNarrower(
  route: Entry,
  { contextLength, maxOutputLength, supportedFeatures }: Pick<Facts, 'contextLength' | 'maxOutputLength'> & Can,
  at: Path,
): Generator<Issue> {
  const limits = { context_length: contextLength, max_output_length: Math.min(maxOutputLength, contextLength) }
  for (const [field, most] of Object.entries(limits))
    if ((toNumber(route[field]) ?? 0) > most)
      yield issue([...at, field], `${route[field]} is more than the model's ${most}. A route can only lower it.`)
  for (const feature of FEATURES)
    if (!supportedFeatures.includes(feature) && toItems(route.supported_features).includes(feature))
      yield issue([...at, 'supported_features'], `the model lacks '${feature}'. A route can't add features.`)
}

interface Can {
  supportedFeatures: readonly unknown[]
}

const toNumber = (value: unknown): number | null => (typeof value === 'number' ? value : null)

/** Turns a schema problem into advice. */
export function toIssue(problem: Problem, schema: TSchema = CatalogSchema): Issue {
  const { segments, code } = problem
  const name = String(segments.at(-1))
  const parent = segments.slice(0, -1)
  if (code === 'unknown_parameter') {
    if (parent[0] === 'upstreams' && parent.length === 2 && name === 'command')
      return {
        segments,
        message: 'unknown field. Write the server command as a list: process: [llama-server, --port, "{port}"].',
      }
    return { segments, message: `unknown field${closest(name, fieldsAt(parent, schema))}.` }
  }
  if (code === 'missing_required_parameter') return { segments: parent, message: `${name} is missing.` }
  if (code === 'invalid_type' && segments.includes('pricing') && name !== 'pricing' && !CONDITIONS.has(name))
    return { segments, message: `${toRule(problem)} Write a price in quotes, such as "0.00000015".` }
  return { segments, message: toRule(problem) }
}
