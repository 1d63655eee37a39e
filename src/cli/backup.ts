/** `tollgate backup` and `tollgate restore`. A backup with ledger findings is kept, with exit code 1. */
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { type Backup, backUp, type Stage } from '../backup/create.ts'
import { type Restored, restore as restoreFile } from '../backup/restore.ts'
import { readNodeId } from '../cluster/nodes.ts'
import { count, toSizeText } from '../domain/text.ts'
import { toSentence } from './audit.ts'
import { CommandError } from './command-error.ts'
import { flushServer } from './control-client.ts'
import { type Context, printJson, toExamples, toPrintable, toTime, withStore } from './io.ts'
import { createBar } from './terminal.ts'
import { addOldName } from './values.ts'

export function addBackup(command: Command, context: Context): void {
  command
    .argument('<file>', 'backup file; store it on another machine')
    .option('--force', 'replace an existing file')
    .option('--with-secret', 'also copy the encryption key to <file>.secret')
    .addHelpText(
      'after',
      toExamples('backup /mnt/backups/today.sqlite', 'backup today.sqlite --force --data /var/lib/tollgate'),
    )
    .action((file: string, flags: BackupFlags) => backup(file, flags, context))
}

export function addRestore(command: Command, context: Context): void {
  addOldName(command, '--as-it-was', 'reinstate-revoked', context)
  command
    .argument('<file>', 'backup file, or tollgate.db of a copied data folder')
    .option('--reinstate-revoked', 'reinstate keys and users revoked or disabled since the backup')
    .option('--force', 'restore even if its ledger is inconsistent')
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
    `The backup was written, but its ledger, like that of the database, has ${count(made.findings.length, 'finding')}.${sentences}`,
    1,
    true,
  )
}

const STAGES: Record<Stage, string> = { copying: 'Copying', checking: 'Checking' }

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

function toContents({ requests, newestMs }: Pick<Backup, 'requests' | 'newestMs'>): string {
  return `${count(requests, 'request')}${newestMs === null ? '' : `, newest ${toTime(newestMs)} UTC`}`
}

function toCompletion({ applied, givenUp }: Pick<Backup, 'applied' | 'givenUp'>): string[] {
  return [
    ...(applied > 0 ? [`Applied ${count(applied, 'ledger record')} from the journal.`] : []),
    ...(givenUp > 0
      ? [`${count(givenUp, 'request')} in flight during the backup: recorded at the reserved cost.`]
      : []),
  ]
}

function toBackupLines(made: Backup, wantsSecret: boolean, { environment }: Pick<Context, 'environment'>): string {
  const checked = made.findings.length === 0 ? ', verified' : ''
  const lines = [`${made.file}: ${toSizeText(made.bytes)}, ${toContents(made)}${checked}.`, ...toCompletion(made)]
  if (made.secretFile !== null) lines.push(`${made.secretFile}: the encryption key of the data folder.`)
  else if (wantsSecret && environment.TOLLGATE_SECRET)
    lines.push('The encryption key is in TOLLGATE_SECRET, not in a file. Back it up yourself.')
  else if (wantsSecret) lines.push('The data folder has no encryption key yet.')
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
  // Files created here are private to this user.
  process.umask(0o077)
  using progress = createProgress(io)
  const done = await restoreFile({ dataFolder, file, reinstateRevoked, force, nowMs, ...progress })
  if (io.json) printJson(io, toRestoreDocument(file, done))
  else io.stdout(toRestoreLines(file, done, dataFolder))
  if (readNodeId(dataFolder) !== null)
    io.stderr('note: this is a node of a cluster. When it starts, it takes the configuration of the cluster.\n')
}

function toRestoreLines(file: string, done: Restored, dataFolder: string): string {
  const { kept, findings, replaced } = done
  const lines = [`Restored ${file} to ${dataFolder}: ${toContents(done)}.`, ...toCompletion(done)]
  if (done.isSecretRestored) lines.push('Restored the encryption key.')
  lines.push(...findings.map(toSentence))
  if (kept && kept.revoked.length > 0)
    lines.push(`Keys revoked since the backup stay revoked: ${kept.revoked.join(', ')}.`)
  if (kept && kept.secretsEnded > 0)
    lines.push(`${count(kept.secretsEnded, 'expired secret')} stay${kept.secretsEnded === 1 ? 's' : ''} expired.`)
  if (kept && kept.withoutSecret.length > 0)
    lines.push(
      `Keys rotated since the backup, whose new secrets are lost: ${kept.withoutSecret.join(', ')}. Issue new ones: tollgate keys rotate KEY`,
    )
  if (kept && kept.people.disabled.length > 0)
    lines.push(`Users disabled since the backup stay disabled: ${kept.people.disabled.join(', ')}.`)
  if (kept && kept.people.tokens.length > 0)
    lines.push(`Tokens revoked since the backup stay revoked: ${kept.people.tokens.join(', ')}.`)
  lines.push('Everything else is as of the backup: limits, the catalog, and budget spend.')
  if (kept === null) lines.push(...UNSEEN)
  if (replaced !== null) lines.push(`The replaced database is in ${replaced}. Delete it when no longer needed.`)
  return lines.map((line) => `${toPrintable(line)}\n`).join('')
}

/** Revocations since the backup are unknown or discarded. */
const UNSEEN = [
  'Keys revoked since the backup are active again. Review them: tollgate keys list',
  'So are users disabled and tokens revoked since. Review them: tollgate admin list, tollgate admin token list',
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
