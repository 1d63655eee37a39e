/**
 * `tollgate backup FILE` writes one checked file with all that is on record; where the audit of it has findings, which the database has, too, the
 * file stays and the exit code is 1. `tollgate restore FILE` puts a backup in the place of the database, and says what is where.
 */
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { type Backup, backUp, type Stage } from '../backup/create.ts'
import { type Restored, restore as restoreFile } from '../backup/restore.ts'
import { count, toSizeText } from '../domain/text.ts'
import { toSentence } from './audit.ts'
import { CommandError } from './command-error.ts'
import { flushServer } from './control-client.ts'
import { type Context, printJson, toExamples, toPrintable, toTime, withStore } from './io.ts'
import { createBar } from './terminal.ts'
import { addOldName } from './values.ts'

export function addBackup(command: Command, context: Context): void {
  command
    .argument('<file>', 'the backup; keep it on another machine')
    .option('--force', 'replace a file of that name')
    .option('--with-secret', "copy the data folder's secret to <file>.secret, too")
    .addHelpText(
      'after',
      toExamples('backup /mnt/backups/today.sqlite', 'backup today.sqlite --force --data /var/lib/tollgate'),
    )
    .action((file: string, flags: BackupFlags) => backup(file, flags, context))
}

export function addRestore(command: Command, context: Context): void {
  addOldName(command, '--as-it-was', 'reinstate-revoked', context)
  command
    .argument('<file>', 'a backup, or the tollgate.db of a copied data folder')
    .option('--reinstate-revoked', 'reinstate keys and users revoked or disabled since the backup')
    .option('--force', 'restore it although its ledger does not add up')
    .addHelpText(
      'after',
      toExamples(
        'restore /mnt/backups/today.sqlite',
        'restore tollgate_data/backups/replaced-…/tollgate.db --reinstate-revoked',
      ),
    )
    .action((file: string, flags: RestoreFlags) => restore(file, flags, context))
}

interface BackupFlags {
  force?: boolean
  withSecret?: boolean
}

export async function backup(file: string, { force = false, withSecret = false }: BackupFlags, io: Context) {
  const { dataFolder } = io
  await io.giveWay()
  using progress = createProgress(io)
  const made = await withStore(io, { readonly: true }, (store) =>
    backUp(store, {
      dataFolder,
      file: resolve(io.cwd, file),
      force,
      withSecret,
      flush: () => flushServer(dataFolder),
      ...progress,
    }),
  )
  if (io.json) printJson(io, toBackupDocument(made))
  else io.stdout(toBackupLines(made, withSecret, io))
  if (made.findings.length === 0) return
  const sentences = io.json ? '' : made.findings.map((finding) => `\n${toPrintable(toSentence(finding))}`).join('')
  throw new CommandError(
    'audit_failed',
    `The backup was written, but its ledger does not add up, as that of the database: ${count(made.findings.length, 'finding')}.${sentences}`,
    1,
    true,
  )
}

const STAGES: Record<Stage, string> = { copying: 'Copying', checking: 'Checking' }

/** Says on a terminal what takes its time, and how far it is. Ended with it. */
function createProgress(io: Context) {
  const bar = createBar(io, STAGES.checking)
  return {
    onStage(stage: Stage, bytes: number) {
      if (!io.json && io.isTerminal(2)) io.stderr(`${STAGES[stage]} ${toSizeText(bytes)} …\n`)
    },
    onHour: bar,
    [Symbol.dispose]: bar.end,
  }
}

/** What a backup, or what was restored of one, holds. */
function toContents({ requests, newestMs }: Pick<Backup, 'requests' | 'newestMs'>): string {
  return `${count(requests, 'request')}${newestMs === null ? '' : `, the newest of ${toTime(newestMs)} UTC`}`
}

/** What was done to complete it, a line each. */
function toCompletion({ applied, givenUp }: Pick<Backup, 'applied' | 'givenUp'>): string[] {
  return [
    ...(applied > 0 ? [`${count(applied, 'ledger record')} came from the journal.`] : []),
    ...(givenUp > 0
      ? [`${count(givenUp, 'request')} under way when it was made: in it they cost what they had reserved.`]
      : []),
  ]
}

function toBackupLines(made: Backup, wantsSecret: boolean, { environment }: Pick<Context, 'environment'>): string {
  const checked = made.findings.length === 0 ? ', checked' : ''
  const lines = [`${made.file}: ${toSizeText(made.bytes)}, ${toContents(made)}${checked}.`, ...toCompletion(made)]
  if (made.secretFile !== null) lines.push(`${made.secretFile}: the secret of the data folder.`)
  else if (wantsSecret && environment.TOLLGATE_SECRET)
    lines.push('The secret is in TOLLGATE_SECRET, and not in a file: keep it by yourself.')
  else if (wantsSecret) lines.push('The data folder has no secret yet.')
  return lines.map((line) => `${toPrintable(line)}\n`).join('')
}

const toBackupDocument = (made: Backup) => ({
  file: made.file,
  bytes: made.bytes,
  secret_file: made.secretFile,
  requests: made.requests,
  cost_nano_usd: made.costNanoUsd,
  newest_ms: made.newestMs,
  from_journal: made.applied,
  given_up: made.givenUp,
  ok: made.findings.length === 0,
  findings: made.findings.map((finding) => ({ ...finding, message: toSentence(finding) })),
})

interface RestoreFlags {
  reinstateRevoked?: boolean
  force?: boolean
}

export async function restore(name: string, { reinstateRevoked = false, force = false }: RestoreFlags, io: Context) {
  const { dataFolder } = io
  const file = resolve(io.cwd, name)
  const nowMs = io.nowMs()
  // Whatever is made here is for this user alone.
  process.umask(0o077)
  using progress = createProgress(io)
  const done = await restoreFile({ dataFolder, file, reinstateRevoked, force, nowMs, ...progress })
  if (io.json) printJson(io, toRestoreDocument(file, done))
  else io.stdout(toRestoreLines(file, done, dataFolder))
}

function toRestoreLines(file: string, done: Restored, dataFolder: string): string {
  const { kept, findings, replaced } = done
  const lines = [`${dataFolder} is as ${file} has it: ${toContents(done)}.`, ...toCompletion(done)]
  if (done.isSecretRestored) lines.push('Its secret was restored, too.')
  lines.push(...findings.map(toSentence))
  if (kept && kept.revoked.length > 0) lines.push(`Revoked since, and kept so: ${kept.revoked.join(', ')}.`)
  if (kept && kept.secretsEnded > 0) lines.push(`${count(kept.secretsEnded, 'secret')} that had ended stay so.`)
  if (kept && kept.withoutSecret.length > 0)
    lines.push(
      `Keys that were given another secret since, which the backup does not have: ${kept.withoutSecret.join(', ')}. Give each a new one with: tollgate keys rotate`,
    )
  if (kept && kept.people.disabled.length > 0)
    lines.push(`Disabled since, and kept so: ${kept.people.disabled.join(', ')}.`)
  if (kept && kept.people.tokens.length > 0)
    lines.push(`Tokens revoked since, and kept so: ${kept.people.tokens.join(', ')}.`)
  lines.push('All else is as it was then: limits of keys and teams, the catalogue, what budgets have used up.')
  if (kept === null) lines.push(...UNSEEN)
  if (replaced !== null) lines.push(`What it replaces is in ${replaced}; delete that once nobody misses it.`)
  return lines.map((line) => `${toPrintable(line)}\n`).join('')
}

/** It was asked for, or nothing there could tell which those are. */
const UNSEEN = [
  'Keys that were revoked after it was made let in again: look over them with: tollgate keys list',
  'So do people who were disabled, and tokens that were revoked: tollgate admin list, tollgate admin token list',
]

const toRestoreDocument = (file: string, done: Restored) => ({
  file,
  requests: done.requests,
  cost_nano_usd: done.costNanoUsd,
  newest_ms: done.newestMs,
  from_journal: done.applied,
  given_up: done.givenUp,
  kept_revoked: done.kept?.revoked ?? [],
  secrets_ended: done.kept?.secretsEnded ?? 0,
  without_secret: done.kept?.withoutSecret ?? [],
  kept_disabled: done.kept?.people.disabled ?? [],
  tokens_kept_revoked: done.kept?.people.tokens ?? [],
  secret_restored: done.isSecretRestored,
  replaced: done.replaced,
  findings: done.findings.map((finding) => ({ ...finding, message: toSentence(finding) })),
})
