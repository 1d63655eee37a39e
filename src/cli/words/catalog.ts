/** `tollgate catalog` in words. `../catalog.ts` does what they say. */
import type { Command } from 'commander'
import type { Context } from '../io.ts'
import { toCatalogFile } from './serve.ts'

const CATALOG_FILE = 'the catalogue; else <data>/catalog.yaml, else ./catalog.yaml, else the built-in one'
const PRUNE = 'delete what a file has declared and this one no longer does'
const DISCARD_EDITS = 'forget what was changed by hand of what it declares'

export function addCatalog(program: Command, context: Context): void {
  const catalog = program
    .command('catalog')
    .description('check, apply and go back to catalogues of models and upstreams')
  const fileOf = (name: string | undefined, flags: { catalog?: string }) =>
    toCatalogFile(name ?? flags.catalog, context)
  catalog
    .command('validate')
    .description('name every problem of a catalogue')
    .argument('[file]', CATALOG_FILE)
    .option('--catalog <file>', 'the same as the argument')
    .action(async (name, flags) => (await import('../catalog.ts')).validate(fileOf(name, flags), context))
  catalog
    .command('plan')
    .description('show how the database differs from a catalogue, and what an apply would do; changes nothing')
    .argument('[file]', CATALOG_FILE)
    .option('--catalog <file>', 'the same as the argument')
    .option('--prune', PRUNE)
    .option('--discard-edits', DISCARD_EDITS)
    .option('--check', 'exit 1 where they differ')
    .action(async (name, flags) => (await import('../catalog.ts')).plan(fileOf(name, flags), flags, context))
  catalog
    .command('apply')
    .description('make the database say what a catalogue says')
    .argument('[file]', CATALOG_FILE)
    .option('--catalog <file>', 'the same as the argument')
    .option('--prune', PRUNE)
    .option('--discard-edits', DISCARD_EDITS)
    .action(async (name, flags) => (await import('../catalog.ts')).apply(fileOf(name, flags), flags, context))
  catalog
    .command('refresh')
    .description(
      'bring the prices and facts of models that were found out up to date. Shows first what that would change',
    )
    .argument('[file]', 'an api.json of models.dev; else it is fetched')
    .option('--from <url>', 'where it is published (or TOLLGATE_FACTS; default https://models.dev/api.json)')
    .option('--plan', 'show what that would change, and change nothing')
    .option('--yes', 'ask nothing: for scripts')
    .action(async (file, flags) => (await import('../catalog.ts')).refresh(file, flags, context))
  catalog
    .command('export')
    .description('write what the database says as a catalogue: as YAML, or with --json as JSON')
    .argument('[file]', 'where to write it; else to standard output')
    .option('--force', 'replace the file if there is one')
    .action(async (name, flags) => (await import('../catalog.ts')).exportTo(name, flags, context))
  catalog
    .command('history')
    .description('list the versions of the catalogue that are kept, oldest first: the newest hundred')
    .argument('[n]', 'show what this one changed')
    .action(async (number) => (await import('../catalog.ts')).history(number, context))
  catalog
    .command('revert')
    .description('make the catalogue what it was after a version; itself a version, which can be reverted')
    .argument('<n>', 'its number in the history')
    .option('--plan', 'show what that would change, and change nothing')
    .action(async (number, flags) => (await import('../catalog.ts')).revert(number, flags, context))
}
