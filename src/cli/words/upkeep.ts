/** The commands that look after an installation, in words; and what else the program says of itself. */
import type { Command } from 'commander'
import type { AuditLogFlags } from '../audit-log.ts'
import { type Context, printJson, version } from '../io.ts'
import { addParameters } from './words.ts'

export function addUpkeep(program: Command, context: Context): void {
  addAudit(program, context)
  program
    .command('compact')
    .description('give the empty room of the database back to the disk; only while no server runs')
    .action(async () => (await import('../audit.ts')).compact(context))
  program
    .command('doctor')
    .description('look for what is wrong with this installation, and say what to do; exit 1 if there is a problem')
    .action(async () => (await import('../doctor.ts')).doctor(context))
  program
    .command('completions')
    .description('print what makes a shell complete these commands')
    .argument('<shell>', 'bash, zsh or fish')
    .action(async (shell: string) => context.stdout((await import('../completions.ts')).toScript(shell)))
  program
    .command('complete', { hidden: true })
    .description('what the last of these words may become, for such a script')
    .argument('[words...]')
    .action(async (words: string[]) =>
      context.stdout((await import('../completions.ts')).toCompletions(program, words)),
    )
  program
    .command('version')
    .description('print the version')
    .action(() => (context.json ? printJson(context, { version: version() }) : context.stdout(`${version()}\n`)))
}

function addAudit(program: Command, context: Context): void {
  const audit = program
    .command('audit')
    .description(
      'check that requests, their calls and the sums of usage agree, and that nothing is left open; exit 1 if not',
    )
    .action(async () => (await import('../audit.ts')).audit(context))
  const log = audit.command('log').description('list changes of keys, teams, the catalog, and settings, newest first')
  addParameters(log, ['since', 'actor', 'action', 'subject', 'limit', 'before'], { defaults: { limit: '50' } }).action(
    async (flags: AuditLogFlags) => (await import('../audit-log.ts')).auditLog(flags, context),
  )
}
