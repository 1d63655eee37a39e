/**
 * From the text of a catalogue to a checked and complete `Catalog`, or to one error that names every problem with its
 * line. Called by `catalog validate | apply` and by `serve`. It reads no file but the known facts, and those only where
 * an entry lacks something; `source.ts` finds the text.
 */

import type { MemoryBudgets } from '../domain/model-server.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Environment } from '../domain/snapshot.ts'
import { resolveReference, toReferences } from '../store/credential-place.ts'
import { explain, isObject, toPath } from '../validation/explain.ts'
import { checkCatalog } from './check.ts'
import { type Catalog, lacksFacts, toModel, toUpstream } from './complete.ts'
import { type CatalogDocument, parseText } from './document.ts'
import { type Entry, type Issue, isWildcard, toEntry } from './entry.ts'
import { toIssue } from './issue-words.ts'
import { type KnownProviders, loadKnown } from './known.ts'
import { toDevices, toMemoryBudgets } from './memory.ts'
import { type CatalogFile, CatalogSchema, type ModelEntry } from './shape.ts'
import { type ExpandedModel, expandWildcards } from './wildcard.ts'

export interface ParseOptions {
  /** How messages call the file, such as `catalog.yaml`. */
  name: string
  /** Where `${NAME}` references are looked up for the warnings. */
  environment: Environment
}

export interface ParsedCatalog {
  catalog: Catalog
  memory: MemoryBudgets
  /** Whose memory the servers take that are started here, null where it does not say. */
  devices: [upstream: string, device: string | null][]
  /** Each wildcard, and how many of the models it stands for. */
  wildcards: { wildcard: string; models: number }[]
  /** Sentences about what works but not yet: `catalog.yaml:5: upstreams.openai: OPENAI_API_KEY is not set; …`. */
  warnings: string[]
}

/** Parses a catalogue. Throws a ServiceError of kind `catalog_invalid` whose message has one line for each problem. */
export async function parseCatalog(text: string, options: ParseOptions): Promise<ParsedCatalog> {
  const document = await parseText(text)
  // A running server answers others in between.
  await Bun.sleep(0)
  if (!document.readable) throw toError(document, [], options.name)
  const { raw } = document
  if (!isObject(raw)) throw toError(document, [raw === null ? EMPTY : OTHER], options.name)
  const root = toEntry(raw)
  const [upstreams, aliases] = [toEntry(root.upstreams), toEntry(root.aliases)]
  const isEntry = (model: [string, unknown]): model is [string, Entry] => isObject(model[1])
  const models = Object.entries(toEntry(root.models)).filter(isEntry)
  const written = models.filter(([slug]) => !isWildcard(slug))
  const needsKnown = written.length < models.length || written.some(([, entry]) => lacksFacts(entry, upstreams))
  const known = needsKnown ? await loadKnown() : {}
  const expansion = expandWildcards(models, { aliases: Object.keys(aliases), upstreams, known })
  const issues = [...explain(CatalogSchema, raw, { all: true }).map(toIssue), ...checkCatalog(raw, known, expansion)]
  if (document.errors.length > 0 || issues.length > 0) throw toError(document, issues, options.name)
  // The schema has just accepted it.
  const file = raw as CatalogFile
  return {
    catalog: toCatalog(file, expansion.models, known),
    memory: toMemoryBudgets(file.memory),
    devices: toDevices(upstreams),
    wildcards: countWildcards(models, expansion.models),
    warnings: toWarnings(file, document, options),
  }
}

const EMPTY: Issue = { segments: [], message: 'the file is empty: a catalogue has version, upstreams and models.' }
const OTHER: Issue = { segments: [], message: 'this is no catalogue: one has version, upstreams and models.' }

function toCatalog(file: CatalogFile, expanded: ExpandedModel[], known: KnownProviders): Catalog {
  const upstreams = file.upstreams ?? {}
  const written = Object.entries(file.models ?? {}).filter(([slug]) => !isWildcard(slug))
  return {
    upstreams: Object.entries(upstreams).map(([id, entry]) => toUpstream(id, entry)),
    models: [
      ...written.flatMap(([slug, entry]) => toModel(slug, entry, upstreams, known) ?? []),
      ...expanded.flatMap(({ slug, entry }) => {
        // What it was made from is in the file.
        const model = toModel(slug, entry as ModelEntry, upstreams, known)
        return model ? { ...model, fromWildcard: true } : []
      }),
    ],
    aliases: Object.entries(file.aliases ?? {}).map(([alias, entry]) => ({
      alias,
      listed: true,
      ...(typeof entry === 'string' ? { model: entry } : entry),
    })),
  }
}

function countWildcards(models: [string, Entry][], expanded: ExpandedModel[]): ParsedCatalog['wildcards'] {
  return models
    .map(([name]) => name)
    .filter(isWildcard)
    .map((name) => ({ wildcard: name, models: expanded.filter(({ wildcard }) => wildcard === name).length }))
}

function toWarnings(file: CatalogFile, document: CatalogDocument, options: ParseOptions): string[] {
  return Object.entries(file.upstreams ?? {}).flatMap(([id, entry]) => {
    if (entry.enabled === false) return []
    const line = document.lineOf(['upstreams', id, 'api_key'])
    return toReferences(entry.api_key).flatMap((ref) => {
      const found = resolveReference(ref, options.environment, 'here')
      if ('credential' in found) return []
      const problem = found.problem.replace(/^the variable /, '')
      return `${options.name}:${line}: upstreams.${id}: ${problem}; this upstream is not ready unless the server has it.`
    })
  })
}

function toError(document: CatalogDocument, issues: Issue[], name: string): ServiceError {
  const problems = [
    ...document.errors.map((error) => ({ ...error, path: '' })),
    ...issues.map(({ segments, message }) => {
      const path = toPath(segments)
      return { line: document.lineOf(segments), path, message }
    }),
  ].sort((a, b) => a.line - b.line)
  const count = problems.length === 1 ? 'one problem' : `${problems.length} problems`
  const lines = problems.map(({ line, path, message }) => `${name}:${line}: ${path && `${path}: `}${message}`)
  return new ServiceError(
    { kind: 'catalog_invalid', name, problems },
    [`The catalogue has ${count}:`, ...lines].join('\n'),
  )
}
