/** The commands that look after an installation and its backups, in words; and what else the program says of itself. */
import type { Command } from 'commander'
import type { AuditLogFlags } from '../audit.ts'
import type { BackupFlags, RestoreFlags } from '../backup.ts'
import { type Context, printJson, version } from '../io.ts'
import { addParameters } from './reports.ts'

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
    async (flags: AuditLogFlags) => (await import('../audit.ts')).auditLog(flags, context),
  )
}

export function addBackup(program: Command, context: Context): void {
  program
    .command('secret')
    .description('what seals the credentials that were typed in')
    .command('rotate')
    .description('seal them all anew, by a new secret; may be cut off at any time, and done again')
    .option('--yes', 'ask nothing: for scripts')
    .action(async (flags: { yes?: boolean }) => (await import('../secret.ts')).rotate(flags, context))
  program
    .command('backup')
    .description('write all that is on record into one file, and check it; also beside a running server')
    .argument('<file>', 'the backup; keep it on another machine')
    .option('--force', 'replace a file of that name')
    .option('--with-secret', "copy the data folder's secret to <file>.secret, too")
    .action(async (file: string, flags: BackupFlags) => (await import('../backup.ts')).backup(file, flags, context))
  program
    .command('restore')
    .description('put a backup in the place of the database, which is kept; the server is stopped')
    .argument('<file>', 'a backup, or the tollgate.db of a copied data folder')
    .option('--as-it-was', 'let in again whom the replaced database had revoked or disabled since')
    .option('--force', 'restore it although its ledger does not add up')
    .action(async (file: string, flags: RestoreFlags) => (await import('../backup.ts')).restore(file, flags, context))
}
