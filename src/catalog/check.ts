/**
 * What the fields of a catalogue must mean, beyond their types: addresses, references, prices, names that point at
 * each other. Called by `file.ts` on the raw document, right after the schema and whatever the schema said, so that
 * every problem is named at once; a field of the wrong type is the schema's business and skipped here. Pure.
 */
import { TIMER_MS, toMs } from '../domain/time.ts'
import { toVariable } from '../store/snapshot-upstreams.ts'
import { toList } from '../validation/explain-words.ts'
import type { Issue } from './catalog.ts'
import { checkModel } from './check-model.ts'
import { type Entry, isWildcard, type Path, toEntry } from './entry.ts'
import { closest } from './hint.ts'
import { covers, type Expansion } from './wildcard.ts'

const OF_HTTP = ['base_url', 'api_key', 'max_tokens_field', 'n', 'user', 'think_tags']

/** Of the fields that not every upstream has: those that one of this dialect may have, and those that it needs. */
const DIALECTS: Readonly<Record<string, { has: string[]; needs: string[] }>> = {
  openai: { has: OF_HTTP, needs: ['base_url'] },
  demo: { has: ['pace_ms'], needs: [] },
}
const PARTICULAR = new Set(Object.values(DIALECTS).flatMap(({ has }) => has))
const LATER_DIALECTS = ['anthropic', 'gemini']

/** A smaller number without a unit was meant as seconds. */
const SHORTEST_BARE_MS = 100

const UPSTREAM_ID = /^[a-z0-9][a-z0-9._-]{0,63}$/
const ALIAS = /^[A-Za-z0-9][A-Za-z0-9._:@+~/-]{0,127}$/

/** Returns every problem that the schema cannot see; `expansion` is what the wildcards in it stand for. */
export function checkCatalog(raw: unknown, expansion: Expansion): Issue[] {
  const root = toEntry(raw)
  const [upstreams, models, aliases] = [toEntry(root.upstreams), toEntry(root.models), toEntry(root.aliases)]
  return [
    ...Object.entries(upstreams).flatMap(([id, entry]) => checkUpstream(id, toEntry(entry))),
    ...Object.entries(models).flatMap(([slug, entry]) => checkModel(slug, toEntry(entry), upstreams)),
    ...Object.entries(aliases).flatMap(([alias, model]) => checkAlias(alias, model, models, expansion)),
    ...expansion.issues,
  ]
}

function checkUpstream(id: string, entry: Entry): Issue[] {
  const at: Path = ['upstreams', id]
  const issues: Issue[] = []
  const report = (field: string | null, message: string) =>
    issues.push({ segments: field === null ? at : [...at, field], message })

  if (!UPSTREAM_ID.test(id))
    report(null, `'${id}' is no upstream name: use lower-case letters, digits, '-', '_' and '.'.`)
  const { dialect, base_url: baseUrl, api_key: apiKey } = entry
  const known = typeof dialect === 'string' && Object.hasOwn(DIALECTS, dialect) ? DIALECTS[dialect] : undefined
  if (typeof dialect === 'string' && !known) report('dialect', unknownDialect(dialect))
  for (const field of known?.needs ?? [])
    if (entry[field] === undefined)
      report(null, `${field} is missing: the '${dialect}' dialect needs one, such as https://api.openai.com/v1.`)
  for (const field of known ? PARTICULAR : [])
    if (entry[field] !== undefined && !known?.has.includes(field)) report(field, toForeign(field))
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
    const time = given ? toMs(String(value), 'ms', TIMER_MS) : 0
    if (time === null)
      issues.push({
        segments: [...at, 'deadlines', name],
        message: 'must be milliseconds or a time such as 60s, 5m or 1h, at most 24 days.',
      })
    else if (/^\d+$/.test(String(value)) && time > 0 && time < SHORTEST_BARE_MS)
      issues.push({
        segments: [...at, 'deadlines', name],
        message: `${time} would be ${time} milliseconds: write the unit, such as ${time}s.`,
      })
  }
  return issues
}

const toExample = (id: string) =>
  `${id
    .toUpperCase()
    .replace(/[^A-Z0-9]/g, '_')
    .replace(/^(?=\d)/, '_')}_API_KEY`

function toForeign(field: string): string {
  const owners = Object.keys(DIALECTS).filter((name) => DIALECTS[name]?.has.includes(field))
  const names = toList(
    owners.map((name) => `'${name}'`),
    'and',
  )
  return `only the ${names} ${owners.length === 1 ? 'dialect has' : 'dialects have'} ${field}; remove it.`
}

function unknownDialect(dialect: string): string {
  const names = Object.keys(DIALECTS).map((name) => `'${name}'`)
  const known = `Known are ${toList(names, 'and')}.`
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

function checkAlias(alias: string, model: unknown, models: Entry, expansion: Expansion): Issue[] {
  const at: Path = ['aliases', alias]
  const issues: Issue[] = []
  if (!ALIAS.test(alias))
    issues.push({ segments: at, message: `'${alias}' is no alias: use letters, digits and . _ : @ + ~ / -.` })
  if (Object.hasOwn(models, alias))
    issues.push({ segments: at, message: 'there is a model of this name; an alias must not hide it.' })
  const problem = typeof model === 'string' ? explainTarget(model, models, expansion) : null
  if (problem) issues.push({ segments: at, message: problem })
  return issues
}

function explainTarget(model: string, models: Entry, { models: expanded }: Expansion): string | null {
  if (isWildcard(model))
    return `an alias stands for one model, and '${model}' is a wildcard: name one that it stands for.`
  const slugs = expanded.map(({ slug }) => slug)
  if (Object.hasOwn(models, model) || slugs.includes(model)) return null
  const wildcard = Object.keys(models).find((name) => covers(name, model))
  const hint = closest(model, [...Object.keys(models).filter((name) => !isWildcard(name)), ...slugs])
  if (!wildcard) return `there is no model '${model}' in this file${hint}.`
  // One that stands for nothing is told about in its own place.
  if (!expanded.some((one) => one.wildcard === wildcard)) return null
  return `${wildcard} does not stand for '${model}': no price is known for a model of this name${hint}. List it by its own name.`
}
