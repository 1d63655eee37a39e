/**
 * From words on the command line to an exit code: 0 done, 1 failed, 2 wrong usage. `main.ts` calls `runProgram`. Only
 * what parses the words is loaded here; each command imports what it needs when it runs, so that none pays for another.
 */
import { Command, CommanderError } from 'commander'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import { addAuditCommand } from './audit.ts'
import { addCatalogCommands } from './catalog.ts'
import { CommandError, toCommandError } from './command-error.ts'
import { addDoctorCommand } from './doctor.ts'
import { type Io, printJson } from './io.ts'
import { addKeysCommands } from './keys.ts'
import { addServeCommand } from './serve.ts'
import { addTeamsCommands } from './teams.ts'
import { addUpstreamsCommands } from './upstreams.ts'
import { version } from './version.ts'

/** Builds the whole command line. Each group adds itself, in the order of the help text. */
export function createProgram(io: Io): Command {
  const program = new Command('tollgate')
    .description('One address, one set of keys and one ledger in front of every language model.')
    .version(version(), '--version', 'print the version')
    .option('--data <folder>', 'the data folder (or TOLLGATE_DATA; default ./tollgate_data)')
    .option('--json', 'print one JSON document')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => io.stdout(text),
      writeErr: (text) => io.stderr(text),
      // `runProgram` says it, in the form that was asked for.
      outputError: () => {},
    })
    .exitOverride()
  addServeCommand(program, io)
  addKeysCommands(program, io)
  addTeamsCommands(program, io)
  addCatalogCommands(program, io)
  addUpstreamsCommands(program, io)
  addAuditCommand(program, io)
  addDoctorCommand(program, io)
  program
    .command('version')
    .description('print the version')
    .action((_options: unknown, command: Command) => {
      if (command.optsWithGlobals().json) return printJson(io, { version: version() })
      io.stdout(`${version()}\n`)
    })
  return program
}

/** Runs the command that `argv` (without the program's own name) asks for, and returns the exit code. Never throws. */
export async function runProgram(argv: readonly string[], io: Io): Promise<number> {
  try {
    await createProgram(io).parseAsync(argv, { from: 'user' })
    return 0
  } catch (cause) {
    if (cause instanceof CommanderError && cause.exitCode === 0) return 0
    // Asked for nothing: the help text is already on stderr.
    if (cause instanceof CommanderError && cause.code === 'commander.help') return 2
    const { kind, message, exitCode } = explain(cause)
    io.stderr(argv.includes('--json') ? `${JSON.stringify({ error: { kind, message } })}\n` : `error: ${message}\n`)
    return exitCode
  }
}

function explain(cause: unknown): CommandError {
  if (cause instanceof ServiceError) return toCommandError(cause)
  if (cause instanceof CommandError) return cause
  if (cause instanceof CommanderError) {
    const sentence = cause.message
      .replace(/^error: /, '')
      .replaceAll('\n', ' ')
      .replace(/\.$/, '')
    return new CommandError('usage', `${sentence}. See the right words with: tollgate --help`, 2)
  }
  const code = codeOf(cause)
  if (code.startsWith('SQLITE_BUSY'))
    return new CommandError(
      'database_busy',
      'Another process is writing to the database. Nothing was changed; try again.',
    )
  if (/^SQLITE_(READONLY|CANTOPEN|PERM)/.test(code))
    return new CommandError(
      'database_unwritable',
      'The database cannot be opened for writing. Run this as the user that the server runs as.',
    )
  if (code.startsWith('SQLITE_FULL'))
    return new CommandError('disk_full', 'The disk is full. Nothing was changed; make room and try again.')
  return new CommandError('internal', `Something went wrong: ${messageOf(cause)}`)
}
