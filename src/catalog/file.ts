/**
 * Parses and exports catalog text. Parsing returns a complete catalog or one error with a line per problem. Exports
 * have the effective rows with facts and wildcards expanded, so planning one makes no changes.
 */

import { RENAMED_SETTINGS, renameSettings } from '../domain/dialects.ts'
import { explain, shorten, toPath } from '../domain/explain.ts'
import { isObject } from '../domain/json.ts'
import type { MemoryBudgets } from '../domain/model-server.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Environment } from '../domain/snapshot.ts'
import { count } from '../domain/text.ts'
import type { CatalogRows } from '../store/catalog-rows.ts'
import { resolveReference, toReferences } from '../store/credential-binding.ts'
import type { ToExport } from './change.ts'
import { checkCatalog, toIssue } from './check.ts'
import { type Catalog, lacksFacts, toModel, toUpstream } from './complete.ts'
import { type CatalogDocument, parseText, writeDocument } from './document.ts'
import { type Entry, type Issue, isWildcard, toEntry } from './entry.ts'
import { type CatalogFile, CatalogSchema, type FileEntries, KINDS, type ModelEntry, toFileEntries } from './fields.ts'
import { type KnownProviders, loadKnown } from './known.ts'
import { explainDevice, toDevices, toMemoryBudgets } from './process.ts'
import { type CatalogSource, MODELS_FOLDER, type ModelFile } from './source.ts'
import { type ExpandedModel, expandWildcards } from './wildcard.ts'

export interface ParseOptions {
  /** Shown in messages, such as `catalog.yaml`. */
  name: string
  /** For warnings about `${NAME}` references. */
  environment: Environment
}

export interface ParsedCatalog {
  catalog: Catalog
  memory: MemoryBudgets
  /** Devices of local model servers; null if not set. */
  devices: [upstream: string, device: string | null][]
  /** Each wildcard and its number of models. */
  wildcards: { wildcard: string; models: number }[]
  /** Such as `catalog.yaml:5: upstreams.openai: OPENAI_API_KEY is not set; …`. */
  warnings: string[]
  /** The warnings about old names of settings. */
  renamed: string[]
}

/** @throws a ServiceError of kind `catalog_invalid` whose message has a line per problem */
export async function parseCatalog(text: string, options: ParseOptions): Promise<ParsedCatalog> {
  const document = await parseText(text)
  // Yields to other requests.
  await Bun.sleep(0)
  if (!document.readable) throw toError(document, [], options.name)
  if (!isObject(document.raw)) throw toError(document, [document.raw === null ? EMPTY : OTHER], options.name)
  const renamed: Issue[] = []
  const raw = withNewNames(document.raw, (id, was) => {
    const message = `renamed to ${RENAMED_SETTINGS[was]}. The next release drops the old name.`
    renamed.push({ segments: ['upstreams', id, was], message })
  })
  const root = toEntry(raw)
  const [upstreams, aliases] = [toEntry(root.upstreams), toEntry(root.aliases)]
  const isEntry = (model: [string, unknown]): model is [string, Entry] => isObject(model[1])
  const models = Object.entries(toEntry(root.models)).filter(isEntry)
  const written = models.filter(([slug]) => !isWildcard(slug))
  const needsKnown = written.length < models.length || written.some(([, entry]) => lacksFacts(entry, upstreams))
  const known = needsKnown ? await loadKnown() : {}
  const expansion = expandWildcards(models, { aliases: Object.keys(aliases), upstreams, known })
  const issues = [
    ...explain(CatalogSchema, raw, { all: true }).map((problem) => toIssue(problem)),
    ...checkCatalog(raw, known, expansion),
  ]
  // Problems name the new settings, which the file may not have.
  if (document.errors.length > 0 || issues.length > 0) throw toError(document, [...issues, ...renamed], options.name)
  // The schema has accepted it.
  const file = raw as CatalogFile
  const notes = renamed.map((issue) => toLine(options.name, toProblem(document, issue)))
  return {
    catalog: toCatalog(file, expansion.models, known),
    memory: toMemoryBudgets(file.memory),
    devices: toDevices(upstreams),
    wildcards: countWildcards(models, expansion.models),
    warnings: [...notes, ...toWarnings(file, document, options)],
    renamed: notes,
  }
}

function withNewNames(raw: object, onRenamed: (id: string, was: keyof typeof RENAMED_SETTINGS) => void): object {
  if (!('upstreams' in raw) || !isObject(raw.upstreams)) return raw
  const entries = Object.entries(raw.upstreams).map(([id, entry]) => [
    id,
    isObject(entry) ? renameSettings(entry, (was) => onRenamed(id, was)) : entry,
  ])
  return { ...raw, upstreams: Object.fromEntries(entries) }
}

const EMPTY: Issue = { segments: [], message: 'the file is empty. A catalog has version, upstreams, and models.' }
const OTHER: Issue = { segments: [], message: 'this is not a catalog, which has version, upstreams, and models.' }

function toCatalog(file: CatalogFile, expanded: ExpandedModel[], known: KnownProviders): Catalog {
  const upstreams = file.upstreams ?? {}
  const written = Object.entries(file.models ?? {}).filter(([slug]) => !isWildcard(slug))
  return {
    upstreams: Object.entries(upstreams).map(([id, entry]) => toUpstream(id, entry)),
    models: [
      ...written.flatMap(([slug, entry]) => toModel(slug, entry, upstreams, known) ?? []),
      ...expanded.flatMap(({ slug, entry }) => {
        // Expanded from a checked entry.
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
      return `${options.name}:${line}: upstreams.${id}: ${problem}. Until the server has it, this upstream is unavailable.`
    })
  })
}

function toError(document: CatalogDocument, issues: Issue[], name: string): ServiceError {
  const problems = [
    ...document.errors.map((error) => ({ ...error, path: '' })),
    ...issues.map((issue) => toProblem(document, issue)),
  ].sort((a, b) => a.line - b.line)
  return toInvalid(
    name,
    problems,
    problems.map((problem) => toLine(name, problem)),
  )
}

type AtLine = Problem & { line: number }

const toProblem = (document: CatalogDocument, { segments, message }: Issue): AtLine => ({
  line: document.lineOf(segments),
  path: toPath(segments),
  message,
})

const toLine = (name: string, { line, path, message }: AtLine) => `${name}:${line}: ${path && `${path}: `}${message}`

const toInvalid = (name: string, problems: AtLine[], lines: string[]) =>
  new ServiceError(
    { kind: 'catalog_invalid', name, problems },
    [`The catalog has ${count(problems.length, 'problem')}:`, ...lines].join('\n'),
  )

/** @throws as `parseCatalog` */
export async function parseSource(
  { name, text, modelFiles }: Pick<CatalogSource, 'name' | 'text' | 'modelFiles'>,
  environment: Environment,
): Promise<ParsedCatalog> {
  let all = text === null ? NOTHING : await parseCatalog(text, { name, environment })
  const files = [{ name, devices: all.devices }]
  for (const file of modelFiles) {
    const parsed = await parseCatalog(file.text, { name: file.name, environment })
    requireNew(all.catalog, parsed.catalog, file)
    files.push({ name: file.name, devices: parsed.devices })
    all = {
      catalog: {
        upstreams: [...all.catalog.upstreams, ...parsed.catalog.upstreams],
        models: [...all.catalog.models, ...parsed.catalog.models],
        aliases: [...all.catalog.aliases, ...parsed.catalog.aliases],
      },
      memory: all.memory.size > 0 ? all.memory : parsed.memory,
      devices: [...all.devices, ...parsed.devices],
      wildcards: [...all.wildcards, ...parsed.wildcards],
      warnings: [...all.warnings, ...parsed.warnings],
      renamed: [...all.renamed, ...parsed.renamed],
    }
  }
  for (const file of files) requireDevices(all, file)
  return all
}

/** @throws as `parseSource` */
export const parseModelFiles = ({ modelFiles }: Pick<CatalogSource, 'modelFiles'>, environment: Environment) =>
  parseSource({ name: MODELS_FOLDER, text: null, modelFiles }, environment)

const NOTHING: ParsedCatalog = {
  ...{ catalog: { upstreams: [], models: [], aliases: [] }, memory: new Map(), devices: [] },
  ...{ wildcards: [], warnings: [], renamed: [] },
}

interface OfFile {
  name: string
  devices: ParsedCatalog['devices']
}

/** Devices may be declared in another file than the memory limits. */
function requireDevices({ memory }: ParsedCatalog, { name, devices }: OfFile): void {
  const problems = devices.flatMap(([id, device]) => {
    const message = explainDevice(memory, device)
    return message === null ? [] : [{ line: 1, path: `upstreams.${id}.device`, message }]
  })
  refuse(name, problems)
}

function requireNew(before: Catalog, added: Catalog, { name }: ModelFile): void {
  const namesOf = ({ upstreams, models, aliases }: Catalog) => [
    ...upstreams.map(({ id }) => `upstreams.${id}`),
    ...models.map(({ slug }) => `models.${slug}`),
    ...aliases.map(({ alias }) => `aliases.${alias}`),
  ]
  const known = new Set(namesOf(before))
  const problems = namesOf(added)
    .filter((path) => known.has(path))
    .map((path) => ({ line: 1, path, message: 'is also declared in another file. Remove it from one of them.' }))
  refuse(name, problems)
}

function refuse(name: string, problems: { line: number; path: string; message: string }[]): void {
  if (problems.length === 0) return
  const lines = problems.map(({ path, message }) => `${name}: ${path} ${message}`)
  throw toInvalid(name, problems, lines)
}

export interface Exported {
  /** YAML. */
  text: string
  /** The same, as values. */
  document: FileEntries
  /** Rows that a file can't have, such as newer ones, and why. */
  leftOut: { name: string; reason: string }[]
  /** Upstreams with stored credentials, which a file can't have. */
  sealed: string[]
}

export async function toExport({ rows, sealed, unseen }: ToExport): Promise<Exported> {
  const leftOut: Exported['leftOut'] = unseen.map((name) => ({ name, reason: UNSEEN }))
  let left = rows
  for (;;) {
    const document = toFileEntries(left)
    const text = writeDocument(document, toComments(left, sealed, leftOut))
    const problems = await findProblems(text)
    if (problems.length === 0) return { text, document, leftOut, sealed }
    const before = leftOut.length
    left = leaveOut(left, problems, leftOut)
    // Prevents an endless loop.
    if (leftOut.length === before) throw new Error(`the exported catalog is invalid: ${problems[0]?.message}`)
  }
}

const UNSEEN = 'it was set manually, and nothing declares it anymore'

const HEAD = ` Exported from this Tollgate's database. To use it elsewhere, run tollgate catalog apply.
 Known facts and models of wildcards are included; credentials are references only.`

function toComments(rows: CatalogRows, sealed: string[], leftOut: Exported['leftOut']) {
  const head = [HEAD, ...leftOut.map(({ name, reason }) => ` Left out: ${name}: ${reason}`)].join('\n')
  const upstreams = rows.upstreams.filter(({ id }) => sealed.includes(id))
  const at = upstreams.map(({ id }): [string[], string] => [['upstreams', id], SEALED])
  return { head, at }
}

const SEALED = ' Its credential is stored and not exported. Set api_key to a variable that has it.'

type Problem = { path: string; message: string }

async function findProblems(text: string): Promise<readonly Problem[]> {
  try {
    await parseCatalog(text, { name: 'export', environment: {} })
    return []
  } catch (error) {
    if (error instanceof ServiceError && error.failure.kind === 'catalog_invalid') return error.failure.problems
    throw error
  }
}

/** A problem within a route removes only that. */
function leaveOut(rows: CatalogRows, problems: readonly Problem[], leftOut: Exported['leftOut']): CatalogRows {
  const drop = (name: string, at: string, reason = explainAt(problems, at)): boolean => {
    if (reason === null) return false
    leftOut.push({ name, reason })
    return true
  }
  const routesOf = Map.groupBy(rows.routes, ({ model }) => model)
  const routes = new Set(rows.routes)
  for (const [slug, ofModel] of routesOf)
    for (const [index, row] of ofModel.entries())
      if (drop(KINDS.routes.nameOf(row), `models.${shorten(slug)}.routes[${index}]`)) routes.delete(row)
  // Other problems concern the whole model.
  const rest = problems.filter(({ path }) => !/\.routes\[\d+\]/.test(path))
  const explainRest = (section: string, name: string) => explainAt(rest, `${section}.${shorten(name)}`)
  const upstreams = rows.upstreams.filter(
    (row) => !drop(KINDS.upstreams.nameOf(row), '', explainRest('upstreams', row.id)),
  )
  const models = rows.models.filter((row) => !drop(KINDS.models.nameOf(row), '', explainRest('models', row.slug)))
  const aliases = rows.aliases.filter((row) => !drop(KINDS.aliases.nameOf(row), '', explainRest('aliases', row.alias)))
  const slugs = new Set(models.map(({ slug }) => slug))
  return { upstreams, models, routes: rows.routes.filter((row) => routes.has(row) && slugs.has(row.model)), aliases }
}

/**
 * The first problem at a path or below it; null if none. Names may contain dots, so only field names count as below.
 */
function explainAt(problems: readonly Problem[], at: string): string | null {
  const found = problems.find(
    ({ path }) => path === at || (path.startsWith(at) && /^(\.[a-z_]+|\[\d+\])+$/.test(path.slice(at.length))),
  )
  return found?.message ?? null
}
