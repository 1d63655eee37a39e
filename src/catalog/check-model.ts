/**
 * What the fields of a model's entry must mean: its name, its prices, its routes. Called by `check.ts`; the facts that the
 * file leaves to the known ones are checked in `complete.ts`. Pure.
 */
import { isObject } from '../validation/explain-words.ts'
import type { Issue } from './catalog.ts'
import { type Entry, isWildcard, type Path, toEntry, toItems } from './entry.ts'
import { closest } from './hint.ts'

const VENDOR = '[A-Za-z0-9][A-Za-z0-9._-]{0,63}'
const SLUG = new RegExp(`^${VENDOR}/[A-Za-z0-9][A-Za-z0-9._:@+~-]{0,127}$`)
const WILDCARD = new RegExp(`^${VENDOR}/([A-Za-z0-9][A-Za-z0-9._:@+~-]{0,126})?\\*$`)
const DECIMAL = /^\d{1,9}(\.\d{1,18})?$/

/** What no wildcard can say of all its models at once. */
const OF_ONE_MODEL = [
  'name',
  'created',
  'context_length',
  'max_output_length',
  'input_modalities',
  'output_modalities',
] as const
/** Those of them that a route has too. */
const NARROWING = new Set<string>(['context_length', 'max_output_length'])

/** Whether a text can be the name of one model. */
export const isSlug = (text: string) => SLUG.test(text)

/** Whether a text can be the name of a wildcard. */
export const isWildcardName = (text: string) => WILDCARD.test(text)

/** Returns what is wrong with a model's entry, as far as the file itself tells. */
export function checkModel(slug: string, entry: Entry, upstreams: Entry): Issue[] {
  const at: Path = ['models', slug]
  const issues: Issue[] = checkName(slug).map((message) => ({ segments: at, message }))
  if (isWildcard(slug)) issues.push(...checkWildcardFields(entry, at))
  issues.push(...checkLengths(entry, at))
  issues.push(...checkPricing(entry.pricing, [...at, 'pricing']))
  const seen = new Set<string>()
  for (const [index, item] of toItems(entry.routes).entries()) {
    const route = toEntry(item)
    const path = [...at, 'routes', index]
    if (typeof route.upstream === 'string' && !Object.hasOwn(upstreams, route.upstream)) {
      const hint = closest(route.upstream, Object.keys(upstreams))
      issues.push({
        segments: [...path, 'upstream'],
        message: `there is no upstream '${route.upstream}' in this file${hint}.`,
      })
    }
    const problem = typeof route.model === 'string' ? explainStars(route.model, isWildcard(slug)) : null
    if (problem) issues.push({ segments: [...path, 'model'], message: problem })
    const name = `${route.upstream} ${route.model}`
    if (seen.has(name))
      issues.push({ segments: path, message: 'this route is there twice: same upstream, same model.' })
    seen.add(name)
    issues.push(...checkLengths(route, path), ...checkPricing(route.pricing, [...path, 'pricing']))
  }
  return issues
}

function checkName(slug: string): string[] {
  if (isWildcard(slug) && !WILDCARD.test(slug))
    return [
      `'${slug}' is no wildcard: it must be <vendor>/<prefix>*, with one * at its end, such as openai/* or openai/gpt-*.`,
    ]
  if (!isWildcard(slug) && !SLUG.test(slug))
    return [`'${slug}' is no model name: it must be <vendor>/<model_name>, such as openai/gpt-4o-mini.`]
  return []
}

function checkWildcardFields(entry: Entry, at: Path): Issue[] {
  return OF_ONE_MODEL.filter((field) => entry[field] !== undefined).map((field) => ({
    segments: [...at, field],
    message: `differs from model to model, so a wildcard has no ${field}: ${
      NARROWING.has(field) ? 'set it on a route, where it is a limit, or' : 'remove it, or'
    } list a model by its own name.`,
  }))
}

function explainStars(model: string, ofWildcard: boolean): string | null {
  const stars = model.split('*').length - 1
  if (stars > 1) return `'${model}' has more than one *.`
  if (stars === 1 && !ofWildcard)
    return `'${model}' has a *, which only a route of a wildcard such as openai/* can have: write the upstream's own name of this model.`
  return null
}

function checkLengths({ context_length: context, max_output_length: output }: Entry, at: Path): Issue[] {
  if (typeof context !== 'number' || typeof output !== 'number' || output <= context) return []
  return [
    {
      segments: [...at, 'max_output_length'],
      message: `${output} is more than context_length, which is ${context}.`,
    },
  ]
}

function checkPricing(pricing: unknown, at: Path): Issue[] {
  const issues: Issue[] = []
  for (const [index, item] of toItems(pricing).entries()) {
    const entry = toEntry(item)
    for (const [field, value] of Object.entries(entry)) {
      if (field !== 'min_prompt_tokens' && typeof value === 'string' && !DECIMAL.test(value))
        issues.push({
          segments: [...at, index, field],
          message: `'${value.slice(0, 40)}' is no price: write USD per token as a decimal such as "0.00000015", without sign or exponent, at most 18 decimals.`,
        })
    }
    const conditional = entry.min_prompt_tokens !== undefined
    if (index === 0 && conditional)
      issues.push({
        segments: [...at, 0],
        message: 'the first price holds for every request and has no min_prompt_tokens.',
      })
    if (index > 0 && !conditional && isObject(item))
      issues.push({
        segments: [...at, index],
        message: 'min_prompt_tokens is missing: a further price must say from where on it holds.',
      })
  }
  return issues
}
