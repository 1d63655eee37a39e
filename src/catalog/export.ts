/**
 * The rows of the catalogue as the text of a `catalog.yaml` that says the same: a plan of it is empty, and an empty database
 * that it is applied to has the same rows, as a file's. Known facts and what wildcards stand for are written out, row by row, so
 * that it says so to every version of the program.
 */
import { ServiceError } from '../domain/service-error.ts'
import type { CatalogRows } from '../store/catalog-rows.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { shorten } from '../validation/explain.ts'
import { writeDocument } from './document.ts'
import { parseCatalog } from './file.ts'
import { KINDS } from './rows-as-entries.ts'
import { type FileEntries, toFileEntries } from './rows-as-file.ts'

export interface Exported {
  /** YAML. */
  text: string
  /** What it says, as values. */
  document: FileEntries
  /** What a file may not say, such as a row that a newer version has written: the name of the row, and why. */
  leftOut: { name: string; reason: string }[]
  /** Upstreams whose credential an administrator has typed in: a file has references only. */
  sealed: string[]
}

/** Reads the catalogue and writes it down. */
export async function exportCatalog(store: ConfigStore): Promise<Exported> {
  const [rows, sealed] = await Promise.all([store.readCatalog(), store.readSealed()])
  return toExport(rows, [...new Set(sealed.map(({ id }) => id))])
}

/** @param sealed ids of upstreams that have a credential which was typed in. */
export async function toExport(rows: CatalogRows, sealed: string[]): Promise<Exported> {
  const leftOut: Exported['leftOut'] = []
  let left = rows
  for (;;) {
    const document = toFileEntries(left)
    const text = writeDocument(document, toComments(left, sealed, leftOut))
    const problems = await findProblems(text)
    if (problems.length === 0) return { text, document, leftOut, sealed }
    const before = leftOut.length
    left = leaveOut(left, problems, leftOut)
    // Else this would go on for ever.
    if (leftOut.length === before) throw new Error(`the exported catalogue is not valid: ${problems[0]?.message}`)
  }
}

const HEAD = ` What this Tollgate's catalogue says, as its database has it: catalog apply makes another say the same.
 Facts that were known and models of wildcards are written out; credentials are references.`

function toComments(rows: CatalogRows, sealed: string[], leftOut: Exported['leftOut']) {
  const head = [HEAD, ...leftOut.map(({ name, reason }) => ` Left out: ${name}: ${reason}`)].join('\n')
  const upstreams = rows.upstreams.filter(({ id }) => sealed.includes(id))
  const at = upstreams.map(({ id }): [string[], string] => [['upstreams', id], SEALED])
  return { head, at }
}

const SEALED = ' Its credential was typed in, and is not written here: name a variable that has it, as api_key.'

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

/** The rows without those that a problem is about: a route alone where it is about that. */
function leaveOut(rows: CatalogRows, problems: readonly Problem[], leftOut: Exported['leftOut']): CatalogRows {
  const drop = (name: string, at: string, reason = explain(problems, at)): boolean => {
    if (reason === null) return false
    leftOut.push({ name, reason })
    return true
  }
  const routesOf = Map.groupBy(rows.routes, ({ model }) => model)
  const routes = new Set(rows.routes)
  for (const [slug, ofModel] of routesOf)
    for (const [index, row] of ofModel.entries())
      if (drop(KINDS.routes.nameOf(row), `models.${shorten(slug)}.routes[${index}]`)) routes.delete(row)
  // The rest of what is wrong with a model is about all of it.
  const rest = problems.filter(({ path }) => !/\.routes\[\d+\]/.test(path))
  const explainRest = (section: string, name: string) => explain(rest, `${section}.${shorten(name)}`)
  const upstreams = rows.upstreams.filter(
    (row) => !drop(KINDS.upstreams.nameOf(row), '', explainRest('upstreams', row.id)),
  )
  const models = rows.models.filter((row) => !drop(KINDS.models.nameOf(row), '', explainRest('models', row.slug)))
  const aliases = rows.aliases.filter((row) => !drop(KINDS.aliases.nameOf(row), '', explainRest('aliases', row.alias)))
  const slugs = new Set(models.map(({ slug }) => slug))
  return { upstreams, models, routes: rows.routes.filter((row) => routes.has(row) && slugs.has(row.model)), aliases }
}

/** What is wrong at a place or within it; null where nothing is. A name may go on behind a dot: only fields are meant. */
function explain(problems: readonly Problem[], at: string): string | null {
  const found = problems.find(
    ({ path }) => path === at || (path.startsWith(at) && /^(\.[a-z_]+|\[\d+\])+$/.test(path.slice(at.length))),
  )
  return found?.message ?? null
}
