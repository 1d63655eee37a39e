/**
 * `tollgate catalog validate | apply`. `validate` needs no database and writes nothing; `apply` works beside a running
 * server, which takes the change within moments.
 */
import type { Command } from 'commander'
import type { CatalogSource } from '../catalog/source.ts'
import { type Io, printJson, sharedOptions, toDataFolder, withStore } from './io.ts'
import { version } from './version.ts'

/** Adds the group to the program. */
export function addCatalogCommands(program: Command, io: Io): void {
  const catalog = program.command('catalog').description('check and apply the catalogue of models and upstreams')
  const file = 'the catalogue; else <data>/catalog.yaml, else ./catalog.yaml, else the built-in one'
  catalog
    .command('validate')
    .description('name every problem of a catalogue')
    .argument('[file]', file)
    .option('--catalog <file>', 'the same as the argument')
    .action((name: string | undefined, options: { catalog?: string }, command: Command) =>
      validate(name ?? options.catalog, command, io),
    )
  catalog
    .command('apply')
    .description('make the database say what a catalogue says')
    .argument('[file]', file)
    .option('--catalog <file>', 'the same as the argument')
    .action((name: string | undefined, options: { catalog?: string }, command: Command) =>
      apply(name ?? options.catalog, command, io),
    )
}

async function validate(file: string | undefined, command: Command, io: Io): Promise<void> {
  const { source, catalog, wildcards } = await load(file, command, io)
  const counts = {
    upstreams: catalog.upstreams.length,
    models: catalog.models.length,
    aliases: catalog.aliases.length,
  }
  if (sharedOptions(command).json) return printJson(io, { valid: true, path: source.path, ...counts, wildcards })
  const parts = wildcards.map(({ wildcard, models }) => `${models} of ${wildcard}`).join(', ')
  const words = Object.entries(counts).map(([name, count]) => {
    const detail = name === 'models' && parts !== '' ? ` (${parts})` : ''
    return `${count} ${count === 1 ? one(name) : name}${detail}`
  })
  io.stdout(`${toTitle(source)} is valid: ${words.join(', ')}.\n`)
}

async function apply(file: string | undefined, command: Command, io: Io): Promise<void> {
  const { source, catalog } = await load(file, command, io)
  const { applyCatalog, toApplyOptions } = await import('../catalog/apply.ts')
  const options = toApplyOptions(source, version(), { actor: 'cli', nowMs: io.nowMs() })
  const summary = await withStore(command, io, {}, (store) => applyCatalog(store, catalog, options))
  if (sharedOptions(command).json) return printJson(io, { path: source.path, origin: source.origin, ...summary })
  for (const conflict of summary.conflicts) io.stderr(`conflict: ${conflict}\n`)
  const { created, updated, deleted, unchanged } = summary
  io.stdout(
    created + updated + deleted === 0
      ? `${toTitle(source)}: nothing to change.\n`
      : `${toTitle(source)} applied: ${created} created, ${updated} updated, ${deleted} deleted, ${unchanged} unchanged.\n`,
  )
}

async function load(file: string | undefined, command: Command, io: Io) {
  const { loadSource } = await import('../catalog/source.ts')
  const { parseCatalog } = await import('../catalog/file.ts')
  const source = await loadSource({
    file: file ?? (io.environment.TOLLGATE_CATALOG || undefined),
    dataFolder: toDataFolder(command, io),
    cwd: io.cwd,
  })
  const parsed = await parseCatalog(source.text, { name: source.name, environment: io.environment })
  for (const warning of parsed.warnings) io.stderr(`warning: ${warning}\n`)
  return { source, ...parsed }
}

const toTitle = (source: CatalogSource) => source.path ?? 'The built-in catalogue'
const one = (name: string) => (name === 'aliases' ? 'alias' : name.slice(0, -1))
