/**
 * `tollgate catalog validate | plan | apply | export | history | revert | refresh`. Files and lists of facts are read here, by whoever asks,
 * and carried into the catalog by the admin API. `validate` needs nobody.
 */

import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { type Applied, type DestructiveOptions, toApplyOptions } from '../catalog/apply.ts'
import { toUnseenNote } from '../catalog/change.ts'
import { toNames } from '../catalog/discover.ts'
import { unusable } from '../catalog/facts-file.ts'
import { type Exported, parseSource } from '../catalog/file.ts'
import type { Refreshed } from '../catalog/refresh.ts'
import { type CatalogSource, loadSource } from '../catalog/source.ts'
import { differs, toAppliedDocument, toPlanDocument, type toVersionDocument } from '../documents/catalog.ts'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import { count } from '../domain/text.ts'
import { fetchFacts, toFactsSource } from '../server/outward/facts.ts'
import { putFile } from '../store/files.ts'
import { answerOf, withAdmin } from './admin-client.ts'
import {
  type DecideFlags,
  requireDecided,
  requireYes,
  toCountText,
  toOverriddenLines,
  toStayingLines,
  toWriteLines,
} from './catalog-changes.ts'
import { CommandError, usageError } from './command-error.ts'
import {
  type Context,
  printJson,
  toDescribedTable,
  toExamples,
  toPrintable,
  toShort,
  toShortSource,
  toTable,
  toTime,
  toWholeSource,
  version,
} from './io.ts'
import { toCatalogFile } from './serve/serve.ts'

const CATALOG_FILE = 'the catalogue; else <data>/catalog.yaml, else ./catalog.yaml, else the built-in one'
const PRUNE = 'delete what a file has declared and this one no longer does'
const DISCARD_EDITS = 'forget what was changed by hand of what it declares'

export function addCatalog(group: Command, context: Context): void {
  const fileOf = (name: string | undefined, flags: { catalog?: string }) =>
    toCatalogFile(name ?? flags.catalog, context)
  group
    .command('validate')
    .description('name every problem of a catalogue')
    .argument('[file]', CATALOG_FILE)
    .option('--catalog <file>', 'the same as the argument')
    .addHelpText('after', toExamples('catalog validate', 'catalog validate new.yaml'))
    .action((name, flags) => validate(fileOf(name, flags), context))
  group
    .command('plan')
    .description('show how the database differs from a catalogue, and what an apply would do; changes nothing')
    .argument('[file]', CATALOG_FILE)
    .option('--catalog <file>', 'the same as the argument')
    .option('--prune', PRUNE)
    .option('--discard-edits', DISCARD_EDITS)
    .option('--check', 'exit 1 where they differ')
    .addHelpText('after', toExamples('catalog plan', 'catalog plan new.yaml --prune --check'))
    .action((name, flags) => plan(fileOf(name, flags), flags, context))
  group
    .command('apply')
    .description('make the database say what a catalogue says')
    .argument('[file]', CATALOG_FILE)
    .option('--catalog <file>', 'the same as the argument')
    .option('--prune', PRUNE)
    .option('--discard-edits', DISCARD_EDITS)
    .addHelpText('after', toExamples('catalog apply', 'catalog apply new.yaml --prune'))
    .action((name, flags) => apply(fileOf(name, flags), flags, context))
  group
    .command('refresh')
    .description(
      'bring the prices and facts of models that were found out up to date. Shows first what that would change',
    )
    .argument('[file]', 'an api.json of models.dev; else it is fetched')
    .option('--from <url>', 'where it is published (or TOLLGATE_FACTS; default https://models.dev/api.json)')
    .option('--plan', 'show what that would change, and change nothing')
    .option('--yes', 'ask nothing: for scripts')
    .addHelpText('after', toExamples('catalog refresh', 'catalog refresh api.json --plan'))
    .action((file, flags) => refresh(file, flags, context))
  group
    .command('export')
    .description('write what the database says as a catalogue: as YAML, or with --json as JSON')
    .argument('[file]', 'where to write it; else to standard output')
    .option('--force', 'replace the file if there is one')
    .addHelpText('after', toExamples('catalog export new.yaml', 'catalog export --json'))
    .action((name, flags) => exportTo(name, flags, context))
  group
    .command('history')
    .description('list the versions of the catalogue that are kept, oldest first: the newest hundred')
    .argument('[n]', 'show what this one changed')
    .addHelpText('after', toExamples('catalog history', 'catalog history 12'))
    .action((number) => history(number, context))
  group
    .command('revert')
    .description('make the catalogue what it was after a version; itself a version, which can be reverted')
    .argument('<n>', 'its number in the history')
    .option('--plan', 'show what that would change, and change nothing')
    .addHelpText('after', toExamples('catalog revert 12 --plan', 'catalog revert 12'))
    .action((number, flags) => revert(number, flags, context))
}

async function validate(file: string | undefined, io: Context): Promise<void> {
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
interface ApplyFlags {
  prune?: boolean
  discardEdits?: boolean
  check?: boolean
}

export async function plan(file: string | undefined, flags: ApplyFlags, io: Context): Promise<void> {
  const { source, catalog, warnings } = await load(file, io)
  const { origin } = source
  const options = toApplyOptions(source, version(), { ...toDestructiveOptions(flags, source), isPlan: true })
  const found = await withAdmin(io, { readonly: true }, ({ operator }) =>
    answerOf(operator.catalog.apply.post({ catalog, ...options })),
  )
  if (io.json) printJson(io, { path: source.path, ...toPlanDocument(found, origin, warnings) })
  else {
    for (const name of found.unseen) io.stderr(`warning: ${toPrintable(toUnseenNote(name))}\n`)
    io.stdout(
      `${toWriteLines(found, io.paint)}${toStayingLines(found, origin, io.paint)}${toClosing(source, found, toApplyCommand(file, flags))}`,
    )
  }
  if (flags.check && differs(found))
    throw new CommandError('catalog_differs', `The database differs from ${source.path ?? 'the built-in catalogue'}.`)
}

/** @param command what would do it. */
function toClosing(source: CatalogSource, found: Applied, command: string): string {
  const title = toTitle(source)
  const staying = found.overridden.length + found.kept.length
  if (found.changes.length === 0)
    return staying === 0
      ? `${title}: the database says the same.\n`
      : `${title}: an apply would change nothing; ${staying} that differ stay as they are.\n`
  const stays = staying === 0 ? '' : `; ${staying} that differ would stay as they are`
  return `${title} would make: ${toCountText(found)}${stays}. Nothing is changed yet: ${command}\n`
}

function toApplyCommand(file: string | undefined, { prune = false, discardEdits = false }: ApplyFlags): string {
  const wishes = [prune && '--prune', discardEdits && '--discard-edits']
  const words = ['tollgate catalog apply', file && toPrintable(file), ...wishes]
  return words.filter(Boolean).join(' ')
}

export async function apply(file: string | undefined, flags: ApplyFlags, io: Context): Promise<void> {
  const { source, catalog, warnings } = await load(file, io)
  const options = toApplyOptions(source, version(), toDestructiveOptions(flags, source))
  const summary = await withAdmin(io, {}, ({ operator }) =>
    answerOf(operator.catalog.apply.post({ catalog, ...options })),
  )
  if (io.json) return printJson(io, { path: source.path, ...toAppliedDocument(summary, source.origin), warnings })
  if (summary.overridden.length > 0) io.stderr(toOverriddenNote(summary.overridden.map(({ name }) => name)))
  if (summary.kept.length > 0) io.stderr(toKeptNote(summary.kept))
  io.stdout(
    summary.version === null
      ? `${toTitle(source)}: nothing to change.\n`
      : `${toTitle(source)} applied: ${toCountText(summary)}. It is version ${summary.version} of the catalogue${toWayBack(summary.version)}.\n`,
  )
}

/** The first version has none before it to go back to. */
const toWayBack = (version: number) => (version > 1 ? `; back with: tollgate catalog revert ${version - 1}` : '')

const toOverriddenNote = (names: readonly string[]) =>
  `note: set by hand, which goes on to count: ${toNames(names.map(toPrintable))}. Forget what was set by hand with --discard-edits.\n`

function toKeptNote(kept: readonly string[]): string {
  return `note: no longer declared, and kept: ${toNames(kept.map(toPrintable))}. Delete what is not declared with --prune; a server that begins with this file does so, too.\n`
}

function toDestructiveOptions(
  { prune = false, discardEdits = false }: ApplyFlags,
  { origin }: CatalogSource,
): DestructiveOptions {
  if (discardEdits && origin === 'builtin')
    throw usageError('--discard-edits needs a catalogue of your own: name its file.')
  return { prune, discardEdits }
}

async function load(file: string | undefined, io: Context) {
  const source = await loadSource({ file, dataFolder: io.dataFolder, cwd: io.cwd })
  const parsed = await parseSource(source, io.environment)
  if (!io.json) for (const warning of parsed.warnings) io.stderr(`warning: ${warning}\n`)
  return { source, ...parsed }
}

const toTitle = (source: CatalogSource) => source.path ?? 'The built-in catalogue'

/** @param file where to write it; standard output without one. */
async function exportTo(file: string | undefined, { force = false }: { force?: boolean }, io: Context) {
  const path = file === undefined ? null : resolve(io.cwd, file)
  if (path !== null && !force && existsSync(path))
    throw new CommandError(
      'file_exists',
      `There is a file ${path} already. Name another file, or have it replaced with --force.`,
    )
  const exported = await withAdmin(io, { readonly: true }, ({ api }) => answerOf(api.catalog.get()))
  const { document, yaml, left_out, sealed } = exported
  const warnings = toWarnings(exported)
  if (path !== null) write(path, yaml)
  const [upstreams, models] = [Object.keys(document.upstreams).length, Object.keys(document.models).length]
  const aliases = Object.keys(document.aliases ?? {}).length
  if (path !== null && io.json) return printJson(io, { path, upstreams, models, aliases, left_out, sealed, warnings })
  for (const warning of warnings) io.stderr(`warning: ${toPrintable(warning)}\n`)
  // A catalogue may be written as JSON, too.
  if (path === null) return io.json ? printJson(io, document) : io.stdout(yaml)
  const what = `${count(upstreams, 'upstream')}, ${count(models, 'model')}, ${aliases} ${aliases === 1 ? 'alias' : 'aliases'}`
  io.stdout(`${path} says what the database says: ${what}.\n`)
}

function toWarnings({ left_out, sealed }: { left_out: Exported['leftOut']; sealed: string[] }): string[] {
  return [
    ...left_out.map(({ name, reason }) => `${name} is left out: ${reason}`),
    ...sealed.map(
      (id) => `upstreams.${id}: its credential was typed in and is not written: name a variable that has it.`,
    ),
  ]
}

/** Whole or not at all: what is replaced stays until then. */
function write(path: string, text: string): void {
  try {
    putFile(path, text, { mode: 0o666 })
  } catch (cause) {
    throw new CommandError(
      'file_unwritable',
      `Cannot write ${path}: ${codeOf(cause) || messageOf(cause)}. Name another file.`,
    )
  }
}

/** @param number the version to show; all of them are listed without one. */
export async function history(number: string | undefined, io: Context): Promise<void> {
  if (number !== undefined) return show(toNumber(number), io)
  const { versions } = await withAdmin(io, { readonly: true }, ({ api }) => answerOf(api.catalog.history.get()))
  if (io.json) return printJson(io, { versions })
  if (versions.length === 0) return io.stderr('Nothing was applied yet.\n')
  io.stdout(toTable(HEADINGS, versions.map(toCells), io.paint))
}

const HEADINGS = ['N', 'WHEN (UTC)', 'WHO', 'WHAT', 'ROWS', 'SOURCE']

const toCells = (version: ReturnType<typeof toVersionDocument>) => [
  String(version.number),
  toTime(version.at_ms),
  toShort(version.actor_name ?? version.actor),
  version.action.replace(/^catalog\./, ''),
  // As a plan marks them.
  `+${version.created} ~${version.updated} -${version.deleted}`,
  toShortSource(version.subject),
]

async function show(number: number, io: Context): Promise<void> {
  const shown = await withAdmin(io, { readonly: true }, ({ api }) => answerOf(api.catalog.history({ number }).get()))
  if (io.json) return printJson(io, shown)
  const { subject, changes } = shown
  io.stdout(toDescribedTable(HEADINGS, [toCells(shown)], [[toWholeSource(subject)]], io.paint))
  io.stdout(
    changes
      ? toWriteLines({ changes }, io.paint)
      : 'What it changed is not known: the version before it is not kept any more.\n',
  )
}

export async function revert(text: string, { plan = false }: { plan?: boolean }, io: Context): Promise<void> {
  const number = toNumber(text)
  const done = await withAdmin(io, { readonly: plan }, ({ api }) => answerOf(api.catalog.revert.post({ number, plan })))
  if (io.json) return printJson(io, done)
  io.stdout(toWriteLines(done, io.paint))
  if (done.changes.length === 0)
    return io.stdout(`The catalogue is what it was after version ${number}: nothing to change.\n`)
  const what = toCountText(done)
  if (plan) return io.stdout(`To go back to version ${number} would make: ${what}.\n`)
  io.stdout(`The catalogue is what it was after version ${number}: ${what}. This is version ${done.version}.\n`)
  io.stderr(
    'note: the catalogue file says what it said, and wins again once it is applied: by you, by a reload, or by a server that starts after the file, or its own version, has changed. Write this one down with: tollgate catalog export FILE\n',
  )
}

function toNumber(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw usageError(`'${text}' is no version: see their numbers with: tollgate catalog history`)
  return Number(text)
}

/** Of a note. */
const MAX_REFRESHED = 20

interface RefreshFlags extends DecideFlags {
  from?: string
}

export async function refresh(file: string | undefined, flags: RefreshFlags, io: Context): Promise<void> {
  requireDecided(flags, io)
  if (file !== undefined && flags.from !== undefined) throw usageError('Name a file, or an address with --from.')
  const source = file === undefined ? (flags.from ?? toFactsSource(io.environment)) : resolve(io.cwd, file)
  const text = file === undefined ? await fetchFacts(source) : await readFile(source)
  const send = (isPlan: boolean) =>
    withAdmin(io, { readonly: isPlan }, async ({ operator }) => {
      const {
        left_out: wrong,
        models,
        ...told
      } = await answerOf(operator.catalog.refresh.post({ text, source, plan: isPlan }))
      return { wrong, models, told }
    })
  const { wrong, models, told: planned } = await send(true)
  if (wrong > 0)
    io.stderr(`note: ${wrong} of the ${models + wrong} models in it are not as they should be, and left out.\n`)
  const isIdle = planned.changes.length === 0
  if (io.json && (flags.plan || isIdle)) return printJson(io, planned)
  if (!io.json) {
    io.stdout(toWriteLines(planned, io.paint) + toOverriddenLines(planned.overridden, 'discovered', io.paint))
    tellPrices(planned, io)
    if (isIdle) return io.stdout(`The catalogue says what ${toPrintable(source)} does: nothing to change.\n`)
    if (flags.plan) return io.stdout(`That would make: ${toCountText(planned)}. Nothing is changed yet.\n`)
  }
  if (!flags.yes) await requireYes('Change this?', io)
  const { told: done } = await send(false)
  if (io.json) return printJson(io, done)
  const back = done.version === null ? '' : toWayBack(done.version)
  io.stdout(`${toCountText(done)}. It is version ${done.version} of the catalogue${back}\n`)
}

function tellPrices({ unpriced, free }: Pick<Refreshed, 'unpriced' | 'free'>, io: Context): void {
  if (free.length > 0)
    io.stderr(
      `note: by this list they cost nothing from now on, and no budget ends them: ${toNames(free.map(toPrintable), MAX_REFRESHED)}. Whoever knows better gives them prices in the dashboard.\n`,
    )
  if (unpriced.length > 0)
    io.stderr(
      `note: still unpriced, and so disabled: ${toNames(unpriced.map(toPrintable), MAX_REFRESHED)}. Give them prices in the dashboard.\n`,
    )
}

async function readFile(path: string): Promise<string> {
  try {
    return await Bun.file(path).text()
  } catch {
    throw unusable(`${path} cannot be read. Name the api.json of models.dev, or leave the name out to have it fetched.`)
  }
}
