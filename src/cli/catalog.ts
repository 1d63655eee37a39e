/**
 * `tollgate catalog validate | plan | apply`. `validate` needs no database, `plan` only reads it; `apply` works beside a
 * running server, which uses the change when the command returns.
 */

import { resolve } from 'node:path'
import { type ApplyWishes, applyCatalog, planApply, toApplyOptions } from '../catalog/apply.ts'
import { parseSource } from '../catalog/parse-source.ts'
import type { CatalogPlan } from '../catalog/plan.ts'
import { type CatalogSource, loadSource } from '../catalog/source.ts'
import { differs, toPlanDocument } from '../documents/catalog.ts'
import { ServiceError } from '../domain/service-error.ts'
import { count } from '../domain/text.ts'
import { toCountText, toLeftLines, toWriteLines } from './catalog-changes.ts'
import { CommandError, usageError } from './command-error.ts'
import { type Context, printJson, toPrintable, version, withStore } from './io.ts'

export async function validate(file: string | undefined, io: Context): Promise<void> {
  const { source, catalog, wildcards, warnings } = await load(file, io).catch((error) => {
    if (io.json && error instanceof ServiceError && error.failure.kind === 'catalog_invalid') {
      const { name, problems } = error.failure
      printJson(io, { valid: false, path: resolve(io.cwd, name), problems })
      throw new CommandError('catalog_invalid', `The catalogue has ${count(problems.length, 'problem')}.`)
    }
    throw error
  })
  const [upstreams, models, aliases] = [catalog.upstreams.length, catalog.models.length, catalog.aliases.length]
  if (io.json) return printJson(io, { valid: true, path: source.path, upstreams, models, aliases, wildcards, warnings })
  const parts = wildcards.map(({ wildcard, models }) => `${models} of ${wildcard}`).join(', ')
  const what = `${count(models, 'model')}${parts && ` (${parts})`}, ${aliases} ${aliases === 1 ? 'alias' : 'aliases'}`
  io.stdout(`${toTitle(source)} is valid: ${count(upstreams, 'upstream')}, ${what}.\n`)
}

/** The options of `catalog plan` and `catalog apply`. */
export interface ApplyFlags {
  prune?: boolean
  takeOver?: boolean
  check?: boolean
}

export async function plan(file: string | undefined, flags: ApplyFlags, io: Context): Promise<void> {
  const { source, catalog, warnings } = await load(file, io)
  const { origin } = source
  const wishes = toWishes(flags, source)
  const found = await withStore(io, { readonly: true }, (store) => planApply(store, catalog, { origin, ...wishes }))
  const { left } = found
  if (io.json) printJson(io, { path: source.path, ...toPlanDocument(found, origin, warnings) })
  else
    io.stdout(
      `${toWriteLines(found, io.paint)}${toLeftLines(left, origin, io.paint)}${toClosing(source, found, toApplyCommand(file, flags))}`,
    )
  if (flags.check && differs(found))
    throw new CommandError('catalog_differs', `The database differs from ${source.path ?? 'the built-in catalogue'}.`)
}

/** @param command what would do it. */
function toClosing(source: CatalogSource, found: CatalogPlan, command: string): string {
  const { changes, adopted, left } = found
  const title = toTitle(source)
  const isSilent = changes.length + adopted === 0
  if (isSilent && left.length > 0)
    return `${title}: an apply would change nothing; ${left.length} that differ stay as they are.\n`
  if (isSilent) return `${title}: the database says the same.\n`
  if (changes.length + left.length === 0)
    return `${title}: the database says the same; an apply makes it the owner of ${adopted}.\n`
  const stays = left.length === 0 ? '' : `; ${left.length} that differ would stay as they are`
  return `${title} would make: ${toCountText(found)}${stays}. Nothing is changed yet: ${command}\n`
}

function toApplyCommand(file: string | undefined, { prune = false, takeOver = false }: ApplyFlags): string {
  const words = ['tollgate catalog apply', file && toPrintable(file), prune && '--prune', takeOver && '--take-over']
  return words.filter(Boolean).join(' ')
}

export async function apply(file: string | undefined, flags: ApplyFlags, io: Context): Promise<void> {
  const { source, catalog, warnings } = await load(file, io)
  const by = { actor: 'cli', nowMs: io.nowMs(), ...toWishes(flags, source) }
  const options = toApplyOptions(source, version(), by)
  const summary = await withStore(io, {}, (store) => applyCatalog(store, catalog, options))
  if (io.json) return printJson(io, { path: source.path, origin: source.origin, ...summary, warnings })
  for (const conflict of summary.conflicts) io.stderr(`conflict: ${toPrintable(conflict)}\n`)
  if (summary.kept.length > 0) io.stderr(toKeptNote(summary.kept))
  io.stdout(
    summary.version === null
      ? `${toTitle(source)}: nothing to change.\n`
      : `${toTitle(source)} applied: ${toCountText(summary)}. It is version ${summary.version} of the catalogue${toWayBack(summary.version)}.\n`,
  )
}

/** The first version has none before it to go back to. */
const toWayBack = (version: number) => (version > 1 ? `; back with: tollgate catalog revert ${version - 1}` : '')

/** How many names fit into a sentence. */
const MOST_NAMED = 5

function toKeptNote(kept: readonly string[]): string {
  const names = kept.slice(0, MOST_NAMED).map(toPrintable).join(', ')
  const more = kept.length > MOST_NAMED ? ` and ${kept.length - MOST_NAMED} more` : ''
  return `note: no longer declared, and kept: ${names}${more}. Delete what is not declared with --prune; a server that begins with this file does so, too.\n`
}

function toWishes({ prune = false, takeOver = false }: ApplyFlags, { origin }: CatalogSource): ApplyWishes {
  if (takeOver && origin === 'builtin') throw usageError('--take-over needs a catalogue of your own: name its file.')
  return { prune, takeOver }
}

async function load(file: string | undefined, io: Context) {
  const source = await loadSource({ file, dataFolder: io.dataFolder, cwd: io.cwd })
  const parsed = await parseSource(source, io.environment)
  if (!io.json) for (const warning of parsed.warnings) io.stderr(`warning: ${warning}\n`)
  return { source, ...parsed }
}

const toTitle = (source: CatalogSource) => source.path ?? 'The built-in catalogue'
