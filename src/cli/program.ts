/** The command line. Exit codes: 0 done, 1 failed, 2 wrong usage. Commands are loaded on demand. */
import { resolve } from 'node:path'
import { Command, CommanderError } from 'commander'
import { AgentEnded, toCommandError, usageError } from './command-error.ts'
import { type Context, type Io, printJson, toExamples, toOneLine, toPrintableLines, version } from './io.ts'
import { toPaint } from './terminal.ts'

/** An unset script variable would otherwise select the default folder. */
function toFolder(text: string): string {
  if (text === '') throw usageError('--data is empty. Pass a folder.')
  return text
}

interface Group {
  name: string
  summary: string
  load(): Promise<(command: Command, context: Context) => void>
}

/** In the order of the help text. */
const GROUPS: readonly Group[] = [
  {
    name: 'serve',
    summary: 'start the gateway (creates the data folder on first run)',
    load: async () => (await import('./serve/serve.ts')).addServe,
  },
  {
    name: 'service',
    summary: 'run the gateway as a systemd service: install, uninstall, status, logs',
    load: async () => (await import('./service/service.ts')).addService,
  },
  {
    name: 'restart',
    summary: 'start a new server in place of the running one, without an interruption',
    load: async () => (await import('./restart.ts')).addRestart,
  },
  {
    name: 'reload',
    summary: 'apply the catalog, credential files, and certificates again',
    load: async () => (await import('./restart.ts')).addReload,
  },
  {
    name: 'ask',
    summary: 'send one prompt to a model; prints tokens, cost, and time to stderr',
    load: async () => (await import('./ask.ts')).addAsk,
  },
  {
    name: 'launch',
    summary: 'run a coding agent against the local server with a temporary key',
    load: async () => (await import('./launch.ts')).addLaunch,
  },
  {
    name: 'keys',
    summary: 'manage API keys',
    load: async () => (await import('./keys.ts')).addKeys,
  },
  {
    name: 'teams',
    summary: 'manage teams: keys that share limits and a budget',
    load: async () => (await import('./teams.ts')).addTeams,
  },
  {
    name: 'catalog',
    summary: 'validate, apply, and roll back catalogs of models and upstreams',
    load: async () => (await import('./catalog.ts')).addCatalog,
  },
  {
    name: 'models',
    summary: 'list models, and add or remove local GGUF models',
    load: async () => (await import('./models/models.ts')).addModels,
  },
  {
    name: 'engines',
    summary: 'install llama.cpp builds, which serve local models',
    load: async () => (await import('./engines.ts')).addEngines,
  },
  {
    name: 'upstreams',
    summary: 'manage upstreams: providers and model servers',
    load: async () => (await import('./upstreams/upstreams.ts')).addUpstreams,
  },
  {
    name: 'usage',
    summary: 'report cost, requests, tokens, and latency (table in a terminal, CSV in a pipe)',
    load: async () => (await import('./usage.ts')).addUsage,
  },
  {
    name: 'reconcile',
    summary: "compare a provider's bill with the ledger; exits 1 if they differ",
    load: async () => (await import('./reconcile/reconcile.ts')).addReconcile,
  },
  {
    name: 'requests',
    summary: 'list requests, follow them live, and show their cost',
    load: async () => (await import('./requests.ts')).addRequests,
  },
  {
    name: 'alerts',
    summary: 'send alerts to chats and webhooks, test them, and see deliveries',
    load: async () => (await import('./alerts.ts')).addAlerts,
  },
  {
    name: 'admin',
    summary: 'manage dashboard users and admin API tokens',
    load: async () => (await import('./admin.ts')).addAdmin,
  },
  {
    name: 'secret',
    summary: 'manage the encryption key of stored credentials',
    load: async () => (await import('./secret.ts')).addSecret,
  },
  {
    name: 'backup',
    summary: 'write a verified backup file; works while the server runs',
    load: async () => (await import('./backup.ts')).addBackup,
  },
  {
    name: 'restore',
    summary: 'replace the database with a backup (keeps the old one; stop the server first)',
    load: async () => (await import('./backup.ts')).addRestore,
  },
  {
    name: 'upgrade',
    summary: 'check what this version would change in a data folder',
    load: async () => (await import('./upgrade.ts')).addUpgrade,
  },
  {
    name: 'rollback',
    summary: 'undo the last migration for the older version, and keep the requests since (stop the server first)',
    load: async () => (await import('./rollback.ts')).addRollback,
  },
  {
    name: 'update',
    summary: 'replace this executable with a newer signed release; keeps the old one',
    load: async () => (await import('./update/update.ts')).addUpdate,
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
    summary: 'reclaim unused disk space (stop the server first)',
    load: async () => (await import('./audit.ts')).addCompact,
  },
  {
    name: 'cluster',
    summary: 'join several servers to one cluster, manage its nodes, import, and export',
    load: async () => (await import('./cluster.ts')).addCluster,
  },
  {
    name: 'status',
    summary: 'show whether the server is well, and what needs attention',
    load: async () => (await import('./status.ts')).addStatus,
  },
  {
    name: 'doctor',
    summary: 'diagnose problems and suggest fixes; exits 1 on problems',
    load: async () => (await import('./doctor/doctor.ts')).addDoctor,
  },
  {
    name: 'completions',
    summary: 'print a shell completion script',
    load: async () => (await import('./completions.ts')).addCompletions,
  },
]

/** @param isWanted whether to load a command, given by its first word, beyond its name and summary. */
export async function createProgram(io: Io, isWanted: (name: string) => boolean = () => true): Promise<Command> {
  const program = new Command('tollgate')
    .description('Self-hosted LLM gateway: one endpoint, one set of API keys, one ledger.')
    .version(version(), '--version', 'print the version')
    .option('--data <folder>', 'data folder (env TOLLGATE_DATA; default ./tollgate_data)', toFolder)
    .option('--json', 'print JSON')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => io.stdout(text),
      writeErr: (text) => io.stderr(text),
      // `runProgram` prints errors, as text or JSON.
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
    .description('list completions of the last word, for shell scripts')
    .argument('[words...]')
    .action(async (words: string[]) => io.stdout((await import('./completions.ts')).toCompletions(program, words)))
  program
    .command('version')
    .description('print the version; with --json, also the commit, newest migration, target, and version of Bun')
    .addHelpText('after', toExamples('version', 'version --json'))
    .action(async () => {
      if (context.json) printJson(io, (await import('./update/build.ts')).thisBuild())
      else io.stdout(`${version()}\n`)
    })
  return program
}

/** Such as `tollgate keys create`. */
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

/** `help keys create` becomes `keys create --help`; an unknown command stays, to be rejected. */
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

/** @param words without the program's own name. Returns the exit code; never throws. */
export async function runProgram(words: readonly string[], io: Io): Promise<number> {
  const program = await createProgram(io, (name) => words.includes(name))
  const argv = withoutHelpWord(program, words)
  try {
    await program.parseAsync(argv, { from: 'user' })
    return 0
  } catch (cause) {
    if (cause instanceof CommanderError && cause.exitCode === 0) return 0
    if (cause instanceof AgentEnded) return cause.exitCode
    // Commander has already printed the help.
    if (cause instanceof CommanderError && cause.code === 'commander.help') return 2
    const { kind, message, exitCode, hasLines } = toCommandError(cause, nameCommand(program, argv))
    if (process.send) await (await import('./serve/successor.ts')).tellFailure(message)
    const paint = toPaint(io.isTerminal(2), io.environment)
    io.stderr(
      argv.includes('--json')
        ? `${JSON.stringify({ error: { kind, message } })}\n`
        : `${paint.bad('error:')} ${hasLines ? toPrintableLines(message) : toOneLine(message)}\n`,
    )
    return exitCode
  }
}
