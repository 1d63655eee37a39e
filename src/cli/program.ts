/**
 * The command line: every command and option in words (those of `serve` in a file of its own), and from words to an exit code:
 * 0 done, 1 failed, 2 wrong usage. `main.ts` calls `runProgram`. What a command does is in a file beside it, loaded when it
 * runs, so that none pays for another.
 */
import { resolve } from 'node:path'
import { Command, CommanderError } from 'commander'
import type { AskFlags } from './ask.ts'
import { toCommandError, usageError } from './command-error.ts'
import { type Context, type Io, printJson, version } from './io.ts'
import { addKeyOptions, BUDGET, type KeyFlags } from './key-options.ts'
import type { ListFlags } from './requests.ts'
import { addServe, toCatalogFile } from './serve.ts'

const CATALOG_FILE = 'the catalogue; else <data>/catalog.yaml, else ./catalog.yaml, else the built-in one'
const PRUNE = 'delete rows of a file that this one no longer declares'
const TAKE_OVER = 'have the file win over an administrator: what both declare becomes the file’s'

/** A variable of a script that is not set is no wish for the folder that is there by default. */
function toFolder(text: string): string {
  if (text === '') throw usageError('--data is empty: name a folder.')
  return text
}

/** Builds the whole command line, in the order of the help text. */
function createProgram(io: Io): Command {
  const program = new Command('tollgate')
    .description('One address, one set of keys and one ledger in front of every language model.')
    .version(version(), '--version', 'print the version')
    .option('--data <folder>', 'the data folder (or TOLLGATE_DATA; default ./tollgate_data)', toFolder)
    .option('--json', 'print one JSON document')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => io.stdout(text),
      writeErr: (text) => io.stderr(text),
      // `runProgram` says it, in the form that was asked for.
      outputError: () => {},
    })
    .exitOverride()
  const context: Context = {
    ...io,
    get dataFolder() {
      return resolve(io.cwd, program.opts().data || io.environment.TOLLGATE_DATA || 'tollgate_data')
    },
    get json() {
      return program.opts().json === true
    },
  }
  addServe(program, context)
  addAsk(program, context)
  addKeys(program, context)
  addTeams(program, context)
  addCatalog(program, context)
  addModels(program, context)
  addUpstreams(program, context)
  addRequests(program, context)
  program
    .command('audit')
    .description('check that ledger and rollup agree and nothing is left open; exit 1 if not')
    .action(async () => (await import('./audit.ts')).audit(context))
  program
    .command('doctor')
    .description('look for what is wrong with this installation, and say what to do; exit 1 if there is a problem')
    .action(async () => (await import('./doctor.ts')).doctor(context))
  program
    .command('version')
    .description('print the version')
    .action(() => (context.json ? printJson(io, { version: version() }) : io.stdout(`${version()}\n`)))
  return program
}

function addAsk(program: Command, context: Context): void {
  program
    .command('ask')
    .description('ask a model one question through a running server; says what it took on standard error')
    .argument('[question...]', 'what to ask; what is piped in is put behind it')
    .option('--model <slug>', 'whom to ask (default: the cheapest that is ready, the demo last)')
    .option(
      '--key <key>',
      'ask with this key, as a client does (or TOLLGATE_KEY); without one as owner of the data folder',
    )
    .option('--url <address>', 'ask the server there; needs a key (default: the one that runs on the data folder)')
    .action(async (words: string[], flags: AskFlags) => (await import('./ask.ts')).ask(words, flags, context))
}

const WHICH_KEY = 'its name, six digits or more of its id, or the last four characters of the key itself'

function addKeys(program: Command, context: Context): void {
  const keys = program.command('keys').description('make, show, change and revoke keys')
  addKeyOptions(keys.command('create'), { canBeNone: false })
    .description('make a key and print it, once; it needs a --name')
    .action(async (flags: KeyFlags) => (await import('./keys.ts')).create(flags, context))
  keys
    .command('list')
    .description('list the keys that let somebody in, oldest first, with what each has spent of its budget')
    .option('--all', 'revoked and expired ones, too')
    .action(async (flags: { all?: boolean }) => (await import('./keys.ts')).list(flags, context))
  keys
    .command('show')
    .description('show all that is known of a key')
    .argument('<key>', WHICH_KEY)
    .action(async (key: string) => (await import('./keys.ts')).show(key, context))
  addKeyOptions(keys.command('edit'), { canBeNone: true })
    .description(
      'change a key; what is not said stays, and so does what it has spent. `none` takes a limit away: --budget none',
    )
    .argument('<key>', WHICH_KEY)
    .action(async (key: string, flags: KeyFlags) => (await import('./keys.ts')).edit(key, flags, context))
  keys
    .command('rotate')
    .description('give a key a new secret and print it, once; the one before works on for a while')
    .argument('<key>', WHICH_KEY)
    .option('--overlap <time>', 'how long both work, such as 7d; 0 ends the one before at once (default 24h)')
    .action(async (key: string, flags: { overlap?: string }) => (await import('./keys.ts')).rotate(key, flags, context))
  keys
    .command('revoke')
    .description('stop a key for good, with all of its secrets')
    .argument('<key>', WHICH_KEY)
    .action(async (key: string) => (await import('./keys.ts')).revoke(key, context))
}

function addTeams(program: Command, context: Context): void {
  const teams = program.command('teams').description('make and list teams: keys that share a budget')
  teams
    .command('create')
    .description('make a team')
    .option('--name <name>', 'what it is called (required); no two have the same name')
    .option('--budget <usd>', `of all its keys together: ${BUDGET}`)
    .action(async (flags: { name?: string; budget?: string }) => (await import('./teams.ts')).create(flags, context))
  teams
    .command('list')
    .description('list all teams, oldest first')
    .action(async () => (await import('./teams.ts')).list(context))
}

function addCatalog(program: Command, context: Context): void {
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
    .action(async (name, flags) => (await import('./catalog.ts')).validate(fileOf(name, flags), context))
  catalog
    .command('plan')
    .description('show how the database differs from a catalogue, and what an apply would do; changes nothing')
    .argument('[file]', CATALOG_FILE)
    .option('--catalog <file>', 'the same as the argument')
    .option('--prune', PRUNE)
    .option('--take-over', TAKE_OVER)
    .option('--check', 'exit 1 where they differ')
    .action(async (name, flags) => (await import('./catalog.ts')).plan(fileOf(name, flags), flags, context))
  catalog
    .command('apply')
    .description('make the database say what a catalogue says')
    .argument('[file]', CATALOG_FILE)
    .option('--catalog <file>', 'the same as the argument')
    .option('--prune', PRUNE)
    .option('--take-over', TAKE_OVER)
    .action(async (name, flags) => (await import('./catalog.ts')).apply(fileOf(name, flags), flags, context))
  catalog
    .command('history')
    .description('list the versions of the catalogue that are kept, oldest first: the newest hundred')
    .argument('[n]', 'show what this one changed')
    .action(async (number) => (await import('./catalog-history.ts')).history(number, context))
  catalog
    .command('revert')
    .description('make the catalogue what it was after a version; itself a version, which can be reverted')
    .argument('<n>', 'its number in the history')
    .option('--plan', 'show what that would change, and change nothing')
    .action(async (number, flags) => (await import('./catalog-history.ts')).revert(number, flags, context))
}

function addModels(program: Command, context: Context): void {
  const models = program.command('models').description('show the models that may be asked for')
  models
    .command('list')
    .description('list models: context, USD per million tokens, whether they are ready, what they can do')
    .argument('[pattern...]', 'those that match, such as openai/*')
    .option('--all', 'also those that GET /v1/models does not list, and those of a wildcard that are not ready')
    .action(async (patterns: string[], flags: { all?: boolean }) => {
      await (await import('./models.ts')).list(patterns, flags, context)
    })
  models
    .command('show')
    .description('show a model: facts, prices, routes, and why it is not ready')
    .argument('<slug>', 'its name, or another name that it has')
    .action(async (slug: string) => (await import('./models.ts')).show(slug, context))
}

function addUpstreams(program: Command, context: Context): void {
  const upstreams = program.command('upstreams').description('show and test the places that answer')
  upstreams
    .command('list')
    .description('list all upstreams: state, breakers, deadlines, last error')
    .action(async () => (await import('./upstreams.ts')).list(context))
  upstreams
    .command('test')
    .description(
      'ask upstreams, by what costs nothing, whether they could answer now; exit 1 if one could not. A running server asks, and goes by what it finds',
    )
    .argument('[id...]', 'the ones to ask; else all that are enabled')
    .action(async (ids: string[]) => (await import('./upstreams.ts')).test(ids, context))
}

function addRequests(program: Command, context: Context): void {
  const requests = program.command('requests').description('show what was asked, and what it was charged for')
  const filtered = (name: string) =>
    requests
      .command(name)
      .option('--key <key>', 'of this key: its name, or digits of its id')
      .option('--team <team>', 'of keys that were in this team then')
      .option('--model <pattern>', 'for models that match, such as openai/*')
      .option('--upstream <id>', 'that this upstream was asked for last')
      .option(
        '--status <status>',
        'that ended so, or are open: ok, failed, cut, abandoned, open (may be repeated)',
        (status, before: string[] = []) => [...before, status],
      )
      .option('--errors', 'that did not end well: failed, cut, abandoned')
      .option('--user <user>', 'whose client said that they are of this user')
  filtered('list')
    .description('list requests, newest first')
    .option('--limit <n>', 'how many at most', '50')
    .option('--before <id>', 'only those before the one of this id: `next` of the page before')
    .option('--since <time>', 'from then on: 7d, 12h (ago), or a date such as 2027-01-31')
    .option('--until <time>', 'up to then')
    .action(async (flags: ListFlags) => (await import('./requests.ts')).list(flags, context))
}

/** The command that the words name, as far as they name one, such as `tollgate keys create`. */
function nameCommand(program: Command, argv: readonly string[]): string {
  let command = program
  let name = program.name()
  for (const word of argv) {
    const next = command.commands.find((one) => one.name() === word)
    if (!next) continue
    command = next
    name += ` ${word}`
  }
  return name
}

/** Runs the command that `argv` (without the program's own name) asks for, and returns the exit code. Never throws. */
export async function runProgram(argv: readonly string[], io: Io): Promise<number> {
  const program = createProgram(io)
  try {
    await program.parseAsync(argv, { from: 'user' })
    return 0
  } catch (cause) {
    if (cause instanceof CommanderError && cause.exitCode === 0) return 0
    // Asked for nothing: the help text is already on stderr.
    if (cause instanceof CommanderError && cause.code === 'commander.help') return 2
    const { kind, message, exitCode } = toCommandError(cause, nameCommand(program, argv))
    io.stderr(argv.includes('--json') ? `${JSON.stringify({ error: { kind, message } })}\n` : `error: ${message}\n`)
    return exitCode
  }
}
