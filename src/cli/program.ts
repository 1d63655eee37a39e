/**
 * The command line: from words to an exit code: 0 done, 1 failed, 2 wrong usage. `main.ts` calls `runProgram`. A command stands in a file
 * beside this one, with its options, examples and what it does; it is loaded when it, or its help, is asked for: none pays for another.
 */
import { resolve } from 'node:path'
import { Command, CommanderError } from 'commander'
import { AgentEnded, toCommandError, usageError } from './command-error.ts'
import { type Context, type Io, printJson, toExamples, toOneLine, toPrintableLines, version } from './io.ts'
import { toPaint } from './terminal.ts'

/** A variable of a script that is not set is no wish for the folder that is there by default. */
function toFolder(text: string): string {
  if (text === '') throw usageError('--data is empty: name a folder.')
  return text
}

interface Group {
  name: string
  summary: string
  /** Its options, or the commands below it. */
  load(): Promise<(command: Command, context: Context) => void>
}

/** In the order of the help text. */
const GROUPS: readonly Group[] = [
  {
    name: 'serve',
    summary: 'run the gateway; the first start sets everything up',
    load: async () => (await import('./serve/serve.ts')).addServe,
  },
  {
    name: 'ask',
    summary: 'ask a model one question through a running server; says what it took on standard error',
    load: async () => (await import('./ask.ts')).addAsk,
  },
  {
    name: 'launch',
    summary: 'start a coding agent against the server that runs here, with a key of its own that ends when it does',
    load: async () => (await import('./launch.ts')).addLaunch,
  },
  {
    name: 'keys',
    summary: 'make, show, change and revoke keys',
    load: async () => (await import('./keys.ts')).addKeys,
  },
  {
    name: 'teams',
    summary: 'make, show and change teams: keys that share limits and a budget',
    load: async () => (await import('./teams.ts')).addTeams,
  },
  {
    name: 'catalog',
    summary: 'check, apply and go back to catalogues of models and upstreams',
    load: async () => (await import('./catalog.ts')).addCatalog,
  },
  {
    name: 'models',
    summary: 'show the models that may be asked for, and add those of files',
    load: async () => (await import('./models/models.ts')).addModels,
  },
  {
    name: 'engines',
    summary: 'install the programs that serve models of files',
    load: async () => (await import('./engines.ts')).addEngines,
  },
  {
    name: 'upstreams',
    summary: 'add, show, change and test the places that answer',
    load: async () => (await import('./upstreams/upstreams.ts')).addUpstreams,
  },
  {
    name: 'usage',
    summary: 'report cost, requests, tokens, and latency (table in a terminal, CSV in a pipe)',
    load: async () => (await import('./usage.ts')).addUsage,
  },
  {
    name: 'requests',
    summary: 'show what was asked, and what it was charged for',
    load: async () => (await import('./requests.ts')).addRequests,
  },
  {
    name: 'admin',
    summary: 'who may sign in to the dashboard, and tokens for scripts',
    load: async () => (await import('./admin.ts')).addAdmin,
  },
  {
    name: 'secret',
    summary: 'what seals the credentials that were typed in',
    load: async () => (await import('./secret.ts')).addSecret,
  },
  {
    name: 'backup',
    summary: 'write all that is on record into one file, and check it; also beside a running server',
    load: async () => (await import('./backup.ts')).addBackup,
  },
  {
    name: 'restore',
    summary: 'put a backup in the place of the database, which is kept; the server is stopped',
    load: async () => (await import('./backup.ts')).addRestore,
  },
  {
    name: 'ledger',
    summary: 'verify that the ledger is consistent',
    load: async () => (await import('./audit.ts')).addLedger,
  },
  {
    name: 'audit',
    summary: 'show the audit log: who changed what',
    load: async () => (await import('./audit.ts')).addAudit,
  },
  {
    name: 'compact',
    summary: 'give the empty room of the database back to the disk; only while no server runs',
    load: async () => (await import('./audit.ts')).addCompact,
  },
  {
    name: 'doctor',
    summary: 'look for what is wrong with this installation, and say what to do; exit 1 if there is a problem',
    load: async () => (await import('./doctor/doctor.ts')).addDoctor,
  },
  {
    name: 'completions',
    summary: 'print what makes a shell complete these commands',
    load: async () => (await import('./completions.ts')).addCompletions,
  },
]

/**
 * Builds the command line.
 * @param isWanted whether a command, by its first word, needs more than its name and its summary.
 */
export async function createProgram(io: Io, isWanted: (name: string) => boolean = () => true): Promise<Command> {
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
    get paint() {
      return toPaint(io.isTerminal(1), io.environment)
    },
  }
  for (const { name, summary, load } of GROUPS) {
    const command = program.command(name).description(summary)
    if (isWanted(name)) (await load())(command, context)
  }
  program
    .command('complete', { hidden: true })
    .description('what the last of these words may become, for a script of a shell')
    .argument('[words...]')
    .action(async (words: string[]) => io.stdout((await import('./completions.ts')).toCompletions(program, words)))
  program
    .command('version')
    .description('print the version')
    .addHelpText('after', toExamples('version', 'version --json'))
    .action(() => (context.json ? printJson(io, { version: version() }) : io.stdout(`${version()}\n`)))
  return program
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

/** `help keys create` as `keys create --help`; what is no command is left to be refused as one. */
function withoutHelpWord(program: Command, argv: readonly string[]): readonly string[] {
  if (argv[0] !== 'help' || argv.length === 1) return argv
  let command = program
  const path: string[] = []
  for (const word of argv.slice(1)) {
    const next = command.commands.find((one) => one.name() === word)
    if (!next && command.commands.length > 0 && !word.startsWith('-')) return [...path, word]
    if (!next) break
    command = next
    path.push(word)
  }
  return [...path, '--help']
}

/** Runs the command that the words (without the program's own name) asks for, and returns the exit code. Never throws. */
export async function runProgram(words: readonly string[], io: Io): Promise<number> {
  const program = await createProgram(io, (name) => words.includes(name))
  const argv = withoutHelpWord(program, words)
  try {
    await program.parseAsync(argv, { from: 'user' })
    return 0
  } catch (cause) {
    if (cause instanceof CommanderError && cause.exitCode === 0) return 0
    if (cause instanceof AgentEnded) return cause.exitCode
    // Asked for nothing: the help text is already on stderr.
    if (cause instanceof CommanderError && cause.code === 'commander.help') return 2
    const { kind, message, exitCode, hasLines } = toCommandError(cause, nameCommand(program, argv))
    const paint = toPaint(io.isTerminal(2), io.environment)
    io.stderr(
      argv.includes('--json')
        ? `${JSON.stringify({ error: { kind, message } })}\n`
        : `${paint.bad('error:')} ${hasLines ? toPrintableLines(message) : toOneLine(message)}\n`,
    )
    return exitCode
  }
}
