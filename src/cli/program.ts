/**
 * The command line: from words to an exit code: 0 done, 1 failed, 2 wrong usage. `main.ts` calls `runProgram`. `words/` has every
 * command and option in words. What a command does is in a file beside this one, loaded when it runs, so that none pays for
 * another.
 */
import { resolve } from 'node:path'
import { Command, CommanderError } from 'commander'
import { AgentEnded, toCommandError, usageError } from './command-error.ts'
import { type Context, type Io, toOneLine, toPrintableLines, version } from './io.ts'
import { toPaint } from './terminal.ts'
import { addAsk, addLaunch } from './words/ask.ts'
import { addCatalog, addEngines, addModels, addUpstreams } from './words/catalog.ts'
import { addExamples } from './words/examples.ts'
import { addAdmin, addKeys, addTeams } from './words/keys.ts'
import { addRequests, addUsage } from './words/reports.ts'
import { addServe } from './words/serve.ts'
import { addBackup, addUpkeep } from './words/upkeep.ts'

/** A variable of a script that is not set is no wish for the folder that is there by default. */
function toFolder(text: string): string {
  if (text === '') throw usageError('--data is empty: name a folder.')
  return text
}

/** Builds the whole command line, in the order of the help text. */
export function createProgram(io: Io): Command {
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
  addServe(program, context)
  addAsk(program, context)
  addLaunch(program, context)
  addKeys(program, context)
  addTeams(program, context)
  addCatalog(program, context)
  addModels(program, context)
  addEngines(program, context)
  addUpstreams(program, context)
  addUsage(program, context)
  addRequests(program, context)
  addAdmin(program, context)
  addBackup(program, context)
  addUpkeep(program, context)
  addExamples(program)
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
  const program = createProgram(io)
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
