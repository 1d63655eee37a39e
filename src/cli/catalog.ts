/** `tollgate catalog`. The command reads files and price lists and applies them through the admin API. */

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
  toPlanText,
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

const CATALOG_FILE = 'catalog (default <data>/catalog.yaml, ./catalog.yaml, then the built-in one)'
const PRUNE = 'delete entries that this file omits, from earlier files and built-in (default: keep them)'
const DISCARD_EDITS = 'discard manual edits of entries that the file declares'

export function addCatalog(group: Command, context: Context): void {
  const fileOf = (name: string | undefined, flags: { catalog?: string }) =>
    toCatalogFile(name ?? flags.catalog, context)
  group
    .command('validate')
    .description('check a catalog and list all problems')
    .argument('[file]', CATALOG_FILE)
    .option('--catalog <file>', 'same as the argument')
    .addHelpText('after', toExamples('catalog validate', 'catalog validate new.yaml'))
    .action((name, flags) => validate(fileOf(name, flags), context))
  group
    .command('plan')
    .description('preview changes without applying them')
    .argument('[file]', CATALOG_FILE)
    .option('--catalog <file>', 'same as the argument')
    .option('--prune', PRUNE)
    .option('--discard-edits', DISCARD_EDITS)
    .option('--check', 'exit 1 if there are changes')
    .addHelpText('after', toExamples('catalog plan', 'catalog plan new.yaml --prune --check'))
    .action((name, flags) => plan(fileOf(name, flags), flags, context))
  group
    .command('apply')
    .description('apply a catalog')
    .argument('[file]', CATALOG_FILE)
    .option('--catalog <file>', 'same as the argument')
    .option('--prune', PRUNE)
    .option('--discard-edits', DISCARD_EDITS)
    .addHelpText('after', toExamples('catalog apply', 'catalog apply new.yaml --prune'))
    .action((name, flags) => apply(fileOf(name, flags), flags, context))
  group
    .command('refresh')
    .description('refresh known prices and model facts; previews first')
    .argument('[file]', 'api.json of models.dev (default: fetch it)')
    .option('--from <url>', 'URL to fetch (env TOLLGATE_FACTS; default https://models.dev/api.json)')
    .option('--plan', 'preview changes without applying them')
    .option('--yes', 'skip confirmation')
    .addHelpText('after', toExamples('catalog refresh', 'catalog refresh api.json --plan'))
    .action((file, flags) => refresh(file, flags, context))
  group
    .command('export')
    .description('export the catalog as YAML, or as JSON with --json')
    .argument('[file]', 'output file (default: stdout)')
    .option('--force', 'replace an existing file')
    .addHelpText('after', toExamples('catalog export new.yaml', 'catalog export --json'))
    .action((name, flags) => exportTo(name, flags, context))
  group
    .command('history')
    .description('list catalog versions, oldest first (the last 100 are kept)')
    .argument('[n]', 'version whose changes to show')
    .addHelpText('after', toExamples('catalog history', 'catalog history 12'))
    .action((number) => history(number, context))
  group
    .command('revert')
    .description('roll back to a version (creates a new version)')
    .argument('<n>', 'version number')
    .option('--plan', 'preview changes without applying them')
    .addHelpText('after', toExamples('catalog revert 12 --plan', 'catalog revert 12'))
    .action((number, flags) => revert(number, flags, context))
  group
    .command('undo')
    .description("undo one version's change and keep later ones (creates a new version)")
    .argument('<n>', 'version number')
    .option('--plan', 'preview changes without applying them')
    .addHelpText('after', toExamples('catalog undo 12 --plan', 'catalog undo 12'))
    .action((number, flags) => undo(number, flags, context))
}

async function validate(file: string | undefined, io: Context): Promise<void> {
  const { source, catalog, wildcards, warnings } = await load(file, io).catch((error) => {
    if (io.json && error instanceof ServiceError && error.failure.kind === 'catalog_invalid') {
      const { name, problems } = error.failure
      printJson(io, { valid: false, path: resolve(io.cwd, name), problems })
      throw new CommandError('catalog_invalid', `The catalog has ${count(problems.length, 'problem')}.`)
    }
    throw error
  })
  const [upstreams, models, aliases] = [catalog.upstreams.length, catalog.models.length, catalog.aliases.length]
  if (io.json) return printJson(io, { valid: true, path: source.path, upstreams, models, aliases, wildcards, warnings })
  const parts = wildcards.map(({ wildcard, models }) => `${models} of ${wildcard}`).join(', ')
  const what = `${count(models, 'model')}${parts && ` (${parts})`}, ${aliases} ${aliases === 1 ? 'alias' : 'aliases'}`
  io.stdout(`${toTitle(source)} is valid: ${count(upstreams, 'upstream')}, ${what}.\n`)
}

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
    if (found.deleted > 0) io.stdout(`Deletes ${count(found.deleted, 'row')}:\n`)
    io.stdout(
      `${toWriteLines(found, io.paint)}${toStayingLines(found, origin, io.paint)}${toClosing(source, found, toApplyCommand(file, flags))}`,
    )
  }
  if (flags.check && differs(found))
    throw new CommandError(
      'catalog_differs',
      `The database differs from ${source.path ?? 'the built-in catalog'}. Apply it: ${toApplyCommand(file, flags)}`,
    )
}

function toClosing(source: CatalogSource, found: Applied, command: string): string {
  const [title, stays] = [toTitle(source), toStaysText(found, source)]
  if (found.changes.length === 0) return `${title}: no changes${stays}.\n`
  return `${title}: ${toPlanText(found)}${stays}. Apply: ${command}\n`
}

/** Such as `; keeps 3 rows that aren't in the file; 1 row is overridden`. */
function toStaysText({ overridden, kept }: Pick<Applied, 'overridden' | 'kept'>, { origin }: CatalogSource): string {
  const [hidden, staying] = [overridden.length, kept.length]
  return [
    staying > 0
      ? `; keeps ${count(staying, 'row')} that ${staying === 1 ? "isn't" : "aren't"} in the ${origin === 'file' ? 'file' : 'catalog'}`
      : '',
    hidden > 0 ? `; ${count(hidden, 'row')} ${hidden === 1 ? 'is' : 'are'} overridden` : '',
  ].join('')
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
      ? `${toTitle(source)}: no changes${toStaysText(summary, source)}.\n`
      : `Applied ${toSubject(source)}: ${toCountText(summary)}${toStaysText(summary, source)}. Saved as version ${summary.version}.${toUndo(summary.version)}\n`,
  )
}

/** The first version has no predecessor. */
const toUndo = (version: number) => (version > 1 ? ` Undo: tollgate catalog revert ${version - 1}` : '')

const toOverriddenNote = (names: readonly string[]) =>
  `note: overridden by manual changes: ${toNames(names.map(toPrintable))}. Use --discard-edits to discard those.\n`

function toKeptNote(kept: readonly string[]): string {
  return `note: not in the file but kept: ${toNames(kept.map(toPrintable))}. Use --prune to delete; a server that starts with this file deletes them too.\n`
}

function toDestructiveOptions(
  { prune = false, discardEdits = false }: ApplyFlags,
  { origin }: CatalogSource,
): DestructiveOptions {
  if (discardEdits && origin === 'builtin')
    throw usageError('--discard-edits requires your own catalog. Pass its file.')
  return { prune, discardEdits }
}

async function load(file: string | undefined, io: Context) {
  const source = await loadSource({ file, dataFolder: io.dataFolder, cwd: io.cwd })
  const parsed = await parseSource(source, io.environment)
  if (!io.json) for (const warning of parsed.warnings) io.stderr(`warning: ${warning}\n`)
  return { source, ...parsed }
}

const toTitle = (source: CatalogSource) => source.path ?? 'The built-in catalog'
const toSubject = (source: CatalogSource) => source.path ?? 'the built-in catalog'

async function exportTo(file: string | undefined, { force = false }: { force?: boolean }, io: Context) {
  const path = file === undefined ? null : resolve(io.cwd, file)
  if (path !== null && !force && existsSync(path))
    throw new CommandError('file_exists', `${path} already exists. Choose another file, or replace it with --force.`)
  const exported = await withAdmin(io, { readonly: true }, ({ api }) => answerOf(api.catalog.get()))
  const { document, yaml, left_out, sealed } = exported
  const warnings = toWarnings(exported)
  if (path !== null) write(path, yaml)
  const [upstreams, models] = [Object.keys(document.upstreams).length, Object.keys(document.models).length]
  const aliases = Object.keys(document.aliases ?? {}).length
  if (path !== null && io.json) return printJson(io, { path, upstreams, models, aliases, left_out, sealed, warnings })
  for (const warning of warnings) io.stderr(`warning: ${toPrintable(warning)}\n`)
  if (path === null) return io.json ? printJson(io, document) : io.stdout(yaml)
  const what = `${count(upstreams, 'upstream')}, ${count(models, 'model')}, ${aliases} ${aliases === 1 ? 'alias' : 'aliases'}`
  io.stdout(`Exported to ${path}: ${what}.\n`)
}

function toWarnings({ left_out, sealed }: { left_out: Exported['leftOut']; sealed: string[] }): string[] {
  return [
    ...left_out.map(({ name, reason }) => `${name} was omitted: ${reason}`),
    ...sealed.map((id) => `upstreams.${id}: its stored credential was not exported. Reference a variable in api_key.`),
  ]
}

/** Keeps a replaced file until the new one is complete. */
function write(path: string, text: string): void {
  try {
    putFile(path, text, { mode: 0o666 })
  } catch (cause) {
    throw new CommandError(
      'file_unwritable',
      `Can't write ${path}: ${codeOf(cause) || messageOf(cause)}. Choose another file.`,
    )
  }
}

export async function history(number: string | undefined, io: Context): Promise<void> {
  if (number !== undefined) return show(toNumber(number), io)
  const { versions } = await withAdmin(io, { readonly: true }, ({ api }) => answerOf(api.catalog.history.get()))
  if (io.json) return printJson(io, { versions })
  if (versions.length === 0) return io.stderr('No versions yet. Apply a catalog: tollgate catalog apply\n')
  io.stdout(toTable(HEADINGS, versions.map(toCells), io.paint))
}

const HEADINGS = ['#', 'TIME (UTC)', 'ACTOR', 'ACTION', 'ROWS', 'SOURCE']

const toCells = (version: ReturnType<typeof toVersionDocument>) => [
  String(version.number),
  toTime(version.at_ms),
  toShort(version.actor_name ?? version.actor),
  version.action.replace(/^catalog\./, ''),
  `+${version.created} ~${version.updated} -${version.deleted}`,
  toShortSource(version.subject),
]

async function show(number: number, io: Context): Promise<void> {
  const shown = await withAdmin(io, { readonly: true }, ({ api }) => answerOf(api.catalog.history({ number }).get()))
  if (io.json) return printJson(io, shown)
  const { subject, changes } = shown
  io.stdout(toDescribedTable(HEADINGS, [toCells(shown)], [[toWholeSource(subject)]], io.paint))
  io.stdout(changes ? toWriteLines({ changes }, io.paint) : 'Changes are unknown: the previous version was deleted.\n')
}

export async function revert(text: string, { plan = false }: { plan?: boolean }, io: Context): Promise<void> {
  const number = toNumber(text)
  const done = await withAdmin(io, { readonly: plan }, ({ api }) => answerOf(api.catalog.revert.post({ number, plan })))
  if (io.json) return printJson(io, done)
  io.stdout(toWriteLines(done, io.paint))
  if (done.changes.length === 0) return io.stdout(`The catalog already matches version ${number}. No changes.\n`)
  if (plan) return io.stdout(`Version ${number}: ${toPlanText(done)}. Roll back: tollgate catalog revert ${number}\n`)
  io.stdout(`Rolled back to version ${number}: ${toCountText(done)}. Saved as version ${done.version}.\n`)
  io.stderr(FILE_UNCHANGED)
}

const FILE_UNCHANGED =
  'note: the catalog file is unchanged. It replaces this version when applied: by you, on reload, or when a server starts with a changed file or a new Tollgate version. To keep this version: tollgate catalog export FILE\n'

export async function undo(text: string, { plan = false }: { plan?: boolean }, io: Context): Promise<void> {
  const number = toNumber(text)
  const done = await withAdmin(io, { readonly: plan }, ({ api }) => answerOf(api.catalog.undo.post({ number, plan })))
  if (io.json) return printJson(io, done)
  io.stdout(toWriteLines(done, io.paint))
  if (done.changes.length === 0) return io.stdout(`Nothing of version ${number} is in effect. No changes.\n`)
  if (plan) return io.stdout(`Undo of version ${number}: ${toPlanText(done)}. Undo: tollgate catalog undo ${number}\n`)
  io.stdout(`Undid version ${number}: ${toCountText(done)}. Saved as version ${done.version}.\n`)
  io.stderr(FILE_UNCHANGED)
}

function toNumber(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw usageError(`Invalid version '${text}'. List versions: tollgate catalog history`)
  return Number(text)
}

const MAX_REFRESHED = 20

interface RefreshFlags extends DecideFlags {
  from?: string
}

export async function refresh(file: string | undefined, flags: RefreshFlags, io: Context): Promise<void> {
  requireDecided(flags, io)
  if (file !== undefined && flags.from !== undefined) throw usageError('Pass either a file or --from URL.')
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
  if (wrong > 0) io.stderr(`note: skipped ${wrong} invalid of ${count(models + wrong, 'model')}.\n`)
  const isIdle = planned.changes.length === 0
  if (io.json && (flags.plan || isIdle)) return printJson(io, planned)
  if (!io.json) {
    io.stdout(toWriteLines(planned, io.paint) + toOverriddenLines(planned.overridden, 'discovered', io.paint))
    tellPrices(planned, io)
    if (isIdle) return io.stdout(`The catalog matches ${toPrintable(source)}. No changes.\n`)
    if (flags.plan) return io.stdout(`Preview: ${toPlanText(planned)}. To apply, run without --plan.\n`)
  }
  if (!flags.yes) await requireYes('Apply these changes?', io)
  const { told: done } = await send(false)
  if (io.json) return printJson(io, done)
  const saved = done.version === null ? '' : ` Saved as version ${done.version}.${toUndo(done.version)}`
  io.stdout(`${toCountText(done)}.${saved}\n`)
}

function tellPrices({ unpriced, free }: Pick<Refreshed, 'unpriced' | 'free'>, io: Context): void {
  if (free.length > 0)
    io.stderr(
      `note: now free by this list, so budgets don't limit them: ${toNames(free.map(toPrintable), MAX_REFRESHED)}. If that is wrong, set prices in the dashboard.\n`,
    )
  if (unpriced.length > 0)
    io.stderr(
      `note: still disabled until priced: ${toNames(unpriced.map(toPrintable), MAX_REFRESHED)}. Set prices in the dashboard.\n`,
    )
}

async function readFile(path: string): Promise<string> {
  try {
    return await Bun.file(path).text()
  } catch {
    throw unusable(`Can't read ${path}. Pass the api.json of models.dev, or omit it to fetch it.`)
  }
}
