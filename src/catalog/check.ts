/**
 * What the fields of a catalogue must mean, beyond their types: addresses, references, prices, names that point at
 * each other. Called by `file.ts` on the raw document, right after the schema and whatever the schema said, so that
 * every problem is named at once; a field of the wrong type is the schema's business and skipped here. Pure.
 */
import { isObject } from '../validation/explain.ts'
import { checkModel } from './check-model.ts'
import { checkUpstream } from './check-upstream.ts'
import { closest, type Entry, type Issue, issue, isWildcard, type Path, toEntry } from './entry.ts'
import type { KnownProviders } from './known.ts'
import { checkMemory } from './memory.ts'
import { covers, type Expansion } from './wildcard.ts'

const ALIAS = /^[A-Za-z0-9][A-Za-z0-9._:@+~/-]{0,127}$/

/** Names every problem that the schema cannot see; `expansion` is what the wildcards in the file stand for. */
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
  if (!ALIAS.test(alias)) yield issue(at, `'${alias}' is no alias: use letters, digits and . _ : @ + ~ / -.`)
  if (Object.hasOwn(models, alias)) yield issue(at, 'there is a model of this name; an alias must not hide it.')
  const problem = typeof model === 'string' ? explainTarget(model, models, expansion) : null
  if (problem) yield issue(isObject(entry) ? [...at, 'model'] : at, problem)
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
