/** `tollgate backup`, `tollgate restore` and `tollgate secret`, in words. */
import type { Command } from 'commander'
import type { BackupFlags, RestoreFlags } from '../backup.ts'
import type { Context } from '../io.ts'

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
