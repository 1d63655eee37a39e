/** `tollgate restore FILE`: puts a backup in the place of the database, and says what is where. */
import { resolve } from 'node:path'
import { type Restored, restore as restoreFile } from '../backup/restore.ts'
import { count } from '../domain/text.ts'
import { toSentence } from './audit.ts'
import { createProgress, toCompletion, toContents } from './backup.ts'
import { type Context, printJson, toPrintable } from './io.ts'

export interface RestoreFlags {
  asItWas?: boolean
  force?: boolean
}

export async function restore(name: string, { asItWas = false, force = false }: RestoreFlags, io: Context) {
  const { dataFolder } = io
  const file = resolve(io.cwd, name)
  const nowMs = io.nowMs()
  // Whatever is made here is for this user alone.
  process.umask(0o077)
  using progress = createProgress(io)
  const done = await restoreFile({ dataFolder, file, asItWas, force, nowMs, ...progress })
  if (io.json) printJson(io, toDocument(file, done))
  else io.stdout(toLines(file, done, dataFolder))
}

function toLines(file: string, done: Restored, dataFolder: string): string {
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

const toDocument = (file: string, done: Restored) => ({
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
