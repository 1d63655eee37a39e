/** `tollgate catalog`, `models`, `upstreams` and `engines` in words; the files of those names do what they say. */
import { type Command, Option } from 'commander'
import { DIALECTS, isBuiltIn } from '../../domain/dialects.ts'
import { usageError } from '../command-error.ts'
import type { InstallFlags } from '../engines.ts'
import type { Context } from '../io.ts'
import type { ModelFlags } from '../local-model.ts'
import type { AddFlags, DiscoverFlags, EditFlags } from '../upstreams-add.ts'
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

export function addModels(program: Command, context: Context): void {
  const models = program.command('models').description('show the models that may be asked for, and add those of files')
  models
    .command('list')
    .description('list models: context, USD per million tokens, whether they are ready, what they can do')
    .argument('[pattern...]', 'those that match, such as openai/*')
    .option(
      '--all',
      'also those that are disabled, that GET /v1/models does not list, or that are of a wildcard and not ready',
    )
    .action(async (patterns: string[], flags: { all?: boolean }) => {
      await (await import('../models.ts')).list(patterns, flags, context)
    })
  models
    .command('show')
    .description('show a model: facts, prices, routes, and why it is not ready')
    .argument('<slug>', 'its name, or another name that it has')
    .action(async (slug: string) => (await import('../models.ts')).show(slug, context))
  models
    .command('add')
    .description(
      'have a model of a file served here: reads what it is, and says how it is run in models.d/ of the data folder',
    )
    .argument('<path>', 'a .gguf file, any part of one, or a folder with one model')
    .option('--name <slug>', 'what it is called (default: local/ and the name of its file)')
    .option('--context <n>', 'tokens of one request (default: what fits into the memory, at most 32768)')
    .option('--slots <n>', 'requests that it answers at a time (default 2)')
    .option('--memory <size>', 'what is planned for it, such as 4G (default: estimated)')
    .option(
      '--device <name>',
      'whose memory it takes, such as CUDA0 or cpu, where memory in the catalogue is by device',
    )
    .option('--mmproj <file>', 'the projector by which it reads pictures or sound')
    .option(
      '--catalog <file>',
      'the catalogue that the server begins with, if not a usual one: it must not have the same',
    )
    .action(async (path: string, { catalog, ...flags }: ModelFlags & { catalog?: string }) =>
      (await import('../models-add.ts')).add(path, { ...flags, catalog: toCatalogFile(catalog, context) }, context),
    )
  models
    .command('remove')
    .description('take away a model that was added from a file; that stays')
    .argument('<slug>', 'its name')
    .option('--plan', 'show what that would delete, and delete nothing')
    .action(async (slug: string, flags: { plan?: boolean }) =>
      (await import('../models-add.ts')).remove(slug, flags, context),
    )
}

export function addUpstreams(program: Command, context: Context): void {
  const upstreams = program.command('upstreams').description('add, show, change and test the places that answer')
  withCredential(upstreams.command('add'))
    .description(
      'add a provider with its models: as it lists them, with the facts and prices that are known. Shows first what that would make',
    )
    .argument('[provider]', 'its name, such as openai, anthropic, google or openrouter; of others, their --base-url')
    .option('--name <id>', 'what the upstream is called (default: as the provider)')
    .option('--base-url <url>', 'its address, if not the usual one, such as http://127.0.0.1:8000/v1')
    .addOption(new Option('--dialect <format>', 'what it speaks, if nobody knows').choices(FORMATS))
    .option(
      '--models <pattern>',
      'these models only, such as gpt-5*; NAME=SLUG has one called otherwise here (may be repeated)',
      collect,
    )
    .option('--local', 'it costs nothing')
    .option('--plan', 'show what that would make, and change nothing')
    .option('--yes', 'ask nothing: for scripts')
    .action(async (provider: string | undefined, flags: AddFlags) =>
      (await import('../upstreams-add.ts')).add(provider, flags, context),
    )
  upstreams
    .command('discover')
    .description(
      'look which model servers answer on this machine, and for which providers there is a key in the environment. Loads and changes nothing',
    )
    .option('--enable', 'add the servers that are found')
    .option('--at <url>', 'look there, and not at the usual ports (may be repeated)', collect)
    .action(async (flags: DiscoverFlags) => (await import('../upstreams-add.ts')).discover(flags, context))
  upstreams
    .command('list')
    .description('list all upstreams: state, breakers, deadlines, last error')
    .action(async () => (await import('../upstreams.ts')).list(context))
  withCredential(upstreams.command('edit'))
    .description(
      'change an upstream, which then is an administrator’s: no file changes it. Where it moves, its key is to be given again',
    )
    .argument('<id>', 'what it is called')
    .option('--base-url <url>', 'its address')
    .option(
      '--models <pattern>',
      'ask it for its list again, and add these models, as for add (may be repeated)',
      collect,
    )
    .option('--enable', 'it may be asked again')
    .option('--disable', 'nothing is sent to it')
    .option('--rpm <n>', 'requests per minute that its provider allows; none = no limit')
    .option('--tpm <n>', 'tokens per minute that its provider allows; none = no limit')
    .option('--concurrency <n>', 'calls at a time that its provider allows; none = no limit')
    .option('--plan', 'show what that would change, and change nothing')
    .option('--yes', 'ask nothing: for scripts')
    .action(async (id: string, flags: EditFlags) => (await import('../upstreams-add.ts')).edit(id, flags, context))
  upstreams
    .command('remove')
    .description('delete an upstream that was added, with the models and routes that were found there')
    .argument('<id>', 'what it is called')
    .option('--plan', 'show what that would delete, and delete nothing')
    .action(async (id: string, flags: { plan?: boolean }) =>
      (await import('../upstreams-add.ts')).remove(id, flags, context),
    )
  upstreams
    .command('test')
    .description(
      'ask upstreams, by what costs nothing, whether they could answer now; exit 1 if one could not. A running server asks, and goes by what it finds',
    )
    .argument('[id...]', 'the ones to ask; else all that are enabled')
    .option('--call', 'make one tiny call to each that is named: paid, and on record under the key `system`')
    .option('--model <slug>', 'the model that --call asks; else the cheapest')
    .action(async (ids: string[], { call, model }: { call?: boolean; model?: string }) => {
      if (call) return (await import('../upstreams.ts')).call(ids, model, context)
      if (model !== undefined) throw usageError('--model is for --call alone: without it nothing is asked of a model.')
      return (await import('../upstreams.ts')).test(ids, context)
    })
  upstreams
    .command('start')
    .description('start the model server of an upstream that the running server has, and wait until it is ready')
    .argument('<id>', 'what it is called')
    .action(async (id: string) => (await import('../upstreams.ts')).drive(id, 'start', context))
  upstreams
    .command('stop')
    .description('stop the model server of an upstream once its answers have ended; the next request starts it again')
    .argument('<id>', 'what it is called')
    .option('--now', 'at once, where it hangs; its answers break off')
    .action(async (id: string, { now }: { now?: boolean }) =>
      (await import('../upstreams.ts')).drive(id, now ? 'stop now' : 'stop', context),
    )
  upstreams
    .command('logs')
    .description('print the end of what the model server of an upstream has written')
    .argument('<id>', 'what it is called')
    .option('--lines <n>', 'how many lines', '100')
    .action(async (id: string, { lines }: { lines: string }) =>
      (await import('../upstreams.ts')).logs(id, lines, context),
    )
}

const FORMATS = DIALECTS.filter((dialect) => !isBuiltIn({ dialect }))

const collect = (pattern: string, before: string[] = []) => [...before, pattern]

const withCredential = (command: Command) =>
  command
    .option('--key-env <variable>', 'the variable of the server’s environment that has its key')
    .option('--key-stdin', 'its key is piped in, and stored sealed')
    .option('--key', 'its key is asked for, and stored sealed')
    .option('--no-key', 'it needs none')

export function addEngines(program: Command, context: Context): void {
  const engines = program.command('engines').description('install the programs that serve models of files')
  engines
    .command('install')
    .description('unpack a build of llama.cpp beside the data, try it, and use it; the one before is kept')
    .option('--from <file>', 'a .tar.gz that you have downloaded')
    .option('--sha256 <hex>', 'what its publisher says that it has')
    .action(async (flags: InstallFlags) => (await import('../engines.ts')).installEngine(flags, context))
  engines
    .command('list')
    .description('list what is installed, and which is used')
    .action(async () => (await import('../engines.ts')).list(context))
}
