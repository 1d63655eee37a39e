/** `tollgate upgrade check`: tests this version's migrations on a copy of a data folder's database. */
import type { Command } from 'commander'
import { type ContentChange, checkUpgrade, type UpgradeCheck } from '../backup/upgrade-check.ts'
import { count, toSizeText } from '../domain/text.ts'
import { SPARED_BYTES } from '../store/files.ts'
import { toSentence } from './audit.ts'
import { CommandError } from './command-error.ts'
import { type Context, printJson, toExamples, toPrintable } from './io.ts'
import { createBar } from './terminal.ts'

export function addUpgrade(group: Command, context: Context): void {
  group
    .command('check')
    .description('migrate a copy of the database and compare it; exits 1 if something would be lost')
    .addHelpText('after', toExamples('upgrade check', 'upgrade check --data /var/lib/tollgate --json'))
    .action(() => check(context))
}

async function check(io: Context): Promise<void> {
  await io.giveWay()
  const bar = createBar(io, 'Checking')
  const found = await checkUpgrade({
    ...{ dataFolder: io.dataFolder, nowMs: io.nowMs(), monotonicMs: () => performance.now(), onHour: bar },
    onStage(stage, bytes) {
      if (!io.json && io.isTerminal(2))
        io.stderr(`${stage === 'copying' ? 'Copying' : 'Migrating'} ${toSizeText(bytes)} …\n`)
    },
  })
  bar.end()
  if (io.json) printJson(io, toDocument(found))
  else io.stdout(toText(found))
  if (!found.isSafe)
    throw new CommandError(
      'upgrade_unsafe',
      "Don't upgrade: the migrated copy is not as it should be. The database was not changed. Please report it.",
    )
}

const toDocument = ({ isSafe, migrations, bytes, migrationMs, changes, findings }: UpgradeCheck) => ({
  ...{ ok: isSafe, migrations, bytes, migration_ms: migrationMs, changes },
  ...{
    kept_copy_bytes: migrations.length > 0 ? bytes : 0,
    needed_bytes: migrations.length > 0 ? bytes + SPARED_BYTES : 0,
  },
  findings: findings.map((finding) => ({ ...finding, message: toSentence(finding) })),
})

function toText({ migrations, bytes, migrationMs, changes, findings, isSafe }: UpgradeCheck): string {
  const took = `${count(migrations.length, 'migration')} of ${toSizeText(bytes)} took ${migrationMs < 1_000 ? `${migrationMs} ms` : `${(migrationMs / 1_000).toFixed(1)} s`} on a copy.`
  const head =
    migrations.length === 0
      ? 'The database is current: no migration needed.'
      : `${took}\n${migrations.map((name) => `  ${name}`).join('\n')}`
  const lines = [
    head,
    ...changes.map(toChangeText),
    ...findings.map(toSentence),
    ...(migrations.length > 0 ? [toCopyNote(bytes)] : []),
    ...(isSafe
      ? ['Requests, spend, keys, teams, models, and routes stay the same, and the ledger is consistent.']
      : []),
  ]
  return lines.map((line) => `${line.split('\n').map(toPrintable).join('\n')}\n`).join('')
}

const toCopyNote = (bytes: number) =>
  `The first start needs ${toSizeText(bytes + SPARED_BYTES)} of free space: it keeps a copy of ${toSizeText(bytes)} in backups/ until the next migration. To go back: tollgate rollback`

const MAX_SHOWN = 5

const toChangeText = ({ what, removed, added }: ContentChange): string =>
  [
    `Changed ${what}:`,
    ...removed.map((text) => `  - ${text}`).slice(0, MAX_SHOWN),
    ...added.map((text) => `  + ${text}`).slice(0, MAX_SHOWN),
  ].join('\n')
