/**
 * What the fields of a catalogue must mean, beyond their types: addresses, references, prices, names that point at
 * each other. Called by `file.ts` on the raw document, right after the schema and whatever the schema said, so that
 * every problem is named at once; a field of the wrong type is the schema's business and skipped here. Pure.
 */
import { toVariable } from '../store/snapshot.ts'
import { isObject, toList } from '../wire/explain-words.ts'
import type { Issue } from './catalog.ts'
import { closest } from './hint.ts'
import { toMilliseconds } from './time.ts'

export type Entry = Record<string, unknown>
type Path = (string | number)[]

export const DIALECTS = ['openai', 'demo'] as const
const LATER_DIALECTS = ['anthropic', 'gemini']

const UPSTREAM_ID = /^[a-z0-9][a-z0-9._-]{0,63}$/
const SLUG = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\/[A-Za-z0-9][A-Za-z0-9._:@+~-]{0,127}$/
const ALIAS = /^[A-Za-z0-9][A-Za-z0-9._:@+~/-]{0,127}$/
const DECIMAL = /^\d{1,9}(\.\d{1,18})?$/

/** Returns every problem that the schema cannot see. */
export function checkCatalog(raw: unknown): Issue[] {
  const root = toEntry(raw)
  const [upstreams, models, aliases] = [toEntry(root.upstreams), toEntry(root.models), toEntry(root.aliases)]
  return [
    ...Object.entries(upstreams).flatMap(([id, entry]) => checkUpstream(id, toEntry(entry))),
    ...Object.entries(models).flatMap(([slug, entry]) => checkModel(slug, toEntry(entry), upstreams)),
    ...Object.entries(aliases).flatMap(([alias, model]) => checkAlias(alias, model, models)),
  ]
}

/** Whether a model's name is a pattern, such as `openai/*`. */
export const isWildcard = (slug: string) => slug.includes('*')

/** Whether a route costs nothing of its own: its upstream is declared as local. */
export function isLocal(upstream: unknown): boolean {
  return toEntry(upstream).local === true
}

export const toEntry = (value: unknown): Entry => (isObject(value) ? value : {})
export const toItems = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

function checkUpstream(id: string, entry: Entry): Issue[] {
  const at: Path = ['upstreams', id]
  const issues: Issue[] = []
  const report = (field: string | null, message: string) =>
    issues.push({ segments: field === null ? at : [...at, field], message })

  if (!UPSTREAM_ID.test(id))
    report(null, `'${id}' is no upstream name: use lower-case letters, digits, '-', '_' and '.'.`)
  const { dialect, base_url: baseUrl, api_key: apiKey } = entry
  if (typeof dialect === 'string' && !DIALECTS.some((known) => known === dialect))
    report('dialect', unknownDialect(dialect))
  if (dialect === 'openai' && baseUrl === undefined)
    report(null, "base_url is missing: the 'openai' dialect needs one, such as https://api.openai.com/v1.")
  if (dialect === 'demo') {
    for (const field of ['base_url', 'api_key', 'max_tokens_field', 'n', 'user', 'think_tags'])
      if (entry[field] !== undefined) report(field, `the 'demo' dialect has no ${field}; remove it.`)
  }
  if (dialect !== 'demo' && entry.pace_ms !== undefined) report('pace_ms', "only the 'demo' dialect has pace_ms.")
  const badUrl = typeof baseUrl === 'string' ? explainUrl(baseUrl) : null
  if (badUrl) report('base_url', badUrl)
  if (typeof apiKey === 'string' && toVariable(apiKey) === null) {
    // Never quote it: it is most likely the secret itself.
    report(
      'api_key',
      `must be a reference to an environment variable, such as \${${toExample(id)}}, never the key itself.`,
    )
  }
  for (const [name, value] of Object.entries(toEntry(entry.deadlines))) {
    const given = typeof value === 'string' || (Number.isInteger(value) && Number(value) >= 1)
    const time = given ? toMilliseconds(String(value)) : 0
    if (time === null)
      issues.push({
        segments: [...at, 'deadlines', name],
        message: 'must be milliseconds or a time such as 60s, 5m or 1h, at most 24 days.',
      })
  }
  return issues
}

const toExample = (id: string) =>
  `${id
    .toUpperCase()
    .replace(/[^A-Z0-9]/g, '_')
    .replace(/^(?=\d)/, '_')}_API_KEY`

function unknownDialect(dialect: string): string {
  const known = `Known are ${toList(
    DIALECTS.map((name) => `'${name}'`),
    'and',
  )}.`
  if (LATER_DIALECTS.includes(dialect))
    return `the '${dialect}' dialect is not supported yet; it comes with a later version. ${known}`
  return `there is no dialect '${dialect}'. ${known}`
}

function explainUrl(text: string): string | null {
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    return 'must be an address that begins with http:// or https://, such as https://api.openai.com/v1.'
  if (url.username !== '' || url.password !== '')
    return 'must not carry a user or a password: put the credential in api_key, as a reference.'
  if (url.search !== '' || url.hash !== '') return 'must end with its path: no ? and no #.'
  return null
}

function checkModel(slug: string, entry: Entry, upstreams: Entry): Issue[] {
  const at: Path = ['models', slug]
  if (isWildcard(slug))
    return [{ segments: at, message: 'wildcard models are not supported yet: list each model by its own name.' }]
  const issues: Issue[] = []
  if (!SLUG.test(slug))
    issues.push({
      segments: at,
      message: `'${slug}' is no model name: it must be <vendor>/<model_name>, such as openai/gpt-4o-mini.`,
    })
  const { context_length: context, max_output_length: output } = entry
  if (typeof context === 'number' && typeof output === 'number' && output > context)
    issues.push({
      segments: [...at, 'max_output_length'],
      message: `${output} is more than context_length, which is ${context}.`,
    })
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
    const name = `${route.upstream} ${route.model}`
    if (seen.has(name))
      issues.push({ segments: path, message: 'this route is there twice: same upstream, same model.' })
    seen.add(name)
    issues.push(...checkPricing(route.pricing, [...path, 'pricing']))
  }
  return issues
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

function checkAlias(alias: string, model: unknown, models: Entry): Issue[] {
  const at: Path = ['aliases', alias]
  const issues: Issue[] = []
  if (!ALIAS.test(alias))
    issues.push({ segments: at, message: `'${alias}' is no alias: use letters, digits and . _ : @ + ~ / -.` })
  if (Object.hasOwn(models, alias))
    issues.push({ segments: at, message: 'there is a model of this name; an alias must not hide it.' })
  if (typeof model === 'string' && !Object.hasOwn(models, model)) {
    const hint = closest(model, Object.keys(models))
    issues.push({ segments: at, message: `there is no model '${model}' in this file${hint}.` })
  }
  return issues
}
