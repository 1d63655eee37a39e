/**
 * `tollgate backup FILE`: writes one checked file with all that is on record. Where the audit of it has findings, which the
 * database has, too, the file stays and the exit code is 1.
 */
import { resolve } from 'node:path'
import { type Backup, backUp, type Stage } from '../backup/create.ts'
import { count } from '../domain/text.ts'
import { toSentence } from './audit.ts'
import { CommandError } from './command-error.ts'
import { toSize } from './doctor-check.ts'
import { type Context, printJson, toPrintable, toTime, withStore } from './io.ts'
import { flushServer } from './live.ts'
import { createBar } from './progress.ts'

export interface BackupFlags {
  force?: boolean
  withSecret?: boolean
}

export async function backup(file: string, { force = false, withSecret = false }: BackupFlags, io: Context) {
  const { dataFolder } = io
  await io.giveWay()
  using progress = createProgress(io)
  const made = await withStore(io, { readonly: true }, (_, sqlite) =>
    backUp(sqlite, {
      dataFolder,
      file: resolve(io.cwd, file),
      force,
      withSecret,
      flush: () => flushServer(dataFolder),
      ...progress,
    }),
  )
  if (io.json) printJson(io, toDocument(made))
  else io.stdout(toLines(made, withSecret, io))
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
export function createProgress(io: Context) {
  const bar = createBar(io, STAGES.checking)
  return {
    onStage(stage: Stage, bytes: number) {
      if (!io.json && io.isTerminal(2)) io.stderr(`${STAGES[stage]} ${toSize(bytes)} …\n`)
    },
    onHour: bar,
    [Symbol.dispose]: bar.end,
  }
}

/** What a backup, or what was restored of one, holds. */
export function toContents({ requests, newestMs }: Pick<Backup, 'requests' | 'newestMs'>): string {
  return `${count(requests, 'request')}${newestMs === null ? '' : `, the newest of ${toTime(newestMs)} UTC`}`
}

/** What was done to complete it, a line each. */
export function toCompletion({ applied, givenUp }: Pick<Backup, 'applied' | 'givenUp'>): string[] {
  return [
    ...(applied > 0 ? [`${count(applied, 'ledger record')} came from the journal.`] : []),
    ...(givenUp > 0
      ? [`${count(givenUp, 'request')} under way when it was made: in it they cost what they had reserved.`]
      : []),
  ]
}

function toLines(made: Backup, wantsSecret: boolean, { environment }: Pick<Context, 'environment'>): string {
  const checked = made.findings.length === 0 ? ', checked' : ''
  const lines = [`${made.file}: ${toSize(made.bytes)}, ${toContents(made)}${checked}.`, ...toCompletion(made)]
  if (made.secretFile !== null) lines.push(`${made.secretFile}: the secret of the data folder.`)
  else if (wantsSecret && environment.TOLLGATE_SECRET)
    lines.push('The secret is in TOLLGATE_SECRET, and not in a file: keep it by yourself.')
  else if (wantsSecret) lines.push('The data folder has no secret yet.')
  return lines.map((line) => `${toPrintable(line)}\n`).join('')
}

const toDocument = (made: Backup) => ({
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
