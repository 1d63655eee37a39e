/** `tollgate rollback`: back to the database from before the last migration, for the older version. Run by the newer one. */
import { existsSync } from 'node:fs'
import { execPath } from 'node:process'
import type { Command } from 'commander'
import { type Rollback, type RollbackStage, rollBack } from '../backup/rollback.ts'
import { readNodeId } from '../cluster/nodes.ts'
import { count, toSizeText } from '../domain/text.ts'
import { type Context, printJson, toExamples, toPrintable, toShort, toTime, version } from './io.ts'
import { toRounded } from './money.ts'

export function addRollback(command: Command, context: Context): void {
  command
    .option('--dry-run', 'show what would be carried over and what would be lost')
    .option('--force', 'even if an earlier version migrated the database, to go back to before that one')
    .addHelpText('after', toExamples('rollback --dry-run', 'rollback --data /var/lib/tollgate'))
    .action((flags: Flags) => rollback(flags, context))
}

interface Flags {
  dryRun?: boolean
  force?: boolean
}

const STAGES: Record<RollbackStage, string> = { copying: 'Copying', checking: 'Checking' }

async function rollback({ dryRun = false, force = false }: Flags, io: Context): Promise<void> {
  const { dataFolder } = io
  // Files created here are private to this user.
  process.umask(0o077)
  const done = await rollBack({
    ...{ dataFolder, dryRun, force, version: version(), nowMs: io.nowMs() },
    onStage(stage, bytes) {
      if (!io.json && io.isTerminal(2)) io.stderr(`${STAGES[stage]} ${toSizeText(bytes)} …\n`)
    },
  })
  if (io.json) printJson(io, toDocument(done))
  else
    io.stdout(
      toLines(done, readNodeId(dataFolder) !== null)
        .map((line) => `${toPrintable(line)}\n`)
        .join(''),
    )
}

const MAX_SHOWN = 20

/** @param isNode true for a node of a cluster, which keeps later changes. */
function toLines(done: Rollback, isNode: boolean): string[] {
  const { copy, requests, spend, undone, replaced } = done
  const { carried, costNanoUsd, rejected } = requests
  const isDone = replaced !== null
  const older = copy.version ?? 'the older version'
  const from = `the database from before the migration of ${toTime(copy.madeMs)} UTC`
  const lines = [
    `${isDone ? 'Restored' : 'Would restore'} ${from}, without ${undone.join(', ')}.`,
    `${isDone ? 'Carried over' : 'Would carry over'} ${count(carried, 'request')} since then, ${toRounded(BigInt(costNanoUsd))}.`,
  ]
  if (rejected.length > 0)
    lines.push(
      `The older tables can't hold ${count(rejected.length, 'request')} of these. The records stay in journal/.`,
    )
  if (spend.length > 0) lines.push('Spend differs, since requests since then were deleted (--retention) or rejected:')
  for (const { key, name, newer, restored } of spend.slice(0, MAX_SHOWN))
    lines.push(`  ${toShort(name ?? key)}: ${toRounded(BigInt(newer))} before, ${toRounded(BigInt(restored))} now`)
  if (spend.length > MAX_SHOWN) lines.push(`  and ${count(spend.length - MAX_SHOWN, 'more key')}`)
  lines.push(...(isNode ? ['When this node starts, it takes the configuration of its cluster.'] : toLost(done)))
  if (replaced === null) return [...lines, 'Nothing was changed. To roll back: tollgate rollback']
  return [
    ...lines,
    `The newer database is in ${replaced}, with all of this in rollback.json. Delete it when no longer needed.`,
    `Next: ${toNext(older)}`,
    `To go forward again, start ${version()}: it migrates the database again.`,
  ]
}

function toLost({ changes, kept }: Rollback): string[] {
  const lines = [
    changes.length > 0
      ? `Lost: ${count(changes.length, 'change')} since then. Repeat those that you need:`
      : 'Nothing else was changed since then.',
  ]
  for (const { atMs, actor, action, subject, name } of changes.slice(0, MAX_SHOWN))
    lines.push(`  ${toTime(atMs)}  ${action}  ${toShort(name ?? subject)}  by ${actor}`)
  if (changes.length > MAX_SHOWN) lines.push(`  and ${changes.length - MAX_SHOWN} more`)
  if (changes.some(({ action }) => action === 'database.reseal'))
    lines.push('The encryption key was rotated since: enter stored credentials again. `tollgate doctor` lists them.')
  const ended = [...kept.revoked, ...kept.people.disabled, ...kept.people.tokens]
  if (ended.length > 0) lines.push(`What was revoked or disabled since stays so: ${ended.join(', ')}.`)
  if (kept.withoutSecret.length > 0)
    lines.push(`Keys rotated since, whose new secrets are lost: ${kept.withoutSecret.join(', ')}. Rotate them again.`)
  return lines
}

function toNext(older: string): string {
  const previous = `${execPath}.previous`
  return readVersionOf(previous) === older
    ? `put ${older} back (mv ${previous} ${execPath}), and start it.`
    : `put ${older} back in place of ${execPath}, and start it. Don't start this version.`
}

const START_MS = 10_000

/**
 * `tollgate update` leaves the former executable next to the new one: it may be newer than the copy's version. Null if
 * there is none.
 */
function readVersionOf(program: string): string | null {
  if (!existsSync(program)) return null
  try {
    return Bun.spawnSync([program, '--version'], { timeout: START_MS }).stdout.toString().trim()
  } catch {
    return null
  }
}

const toDocument = ({ copy, undone, requests, spend, changes, kept, replaced }: Rollback) => ({
  ...{ copy: copy.path, copied_ms: copy.madeMs, copied_by: copy.madeBy, version: copy.version, migrations: undone },
  ...{ requests: requests.carried, cost_nano_usd: BigInt(requests.costNanoUsd), rejected: requests.rejected },
  spend: spend.map(({ key, name, newer, restored }) => ({
    ...{ key_id: key, name, newer_nano_usd: BigInt(newer), restored_nano_usd: BigInt(restored) },
  })),
  changes: changes.map(({ atMs, ...change }) => ({ at_ms: atMs, ...change })),
  ...{ kept_revoked: kept.revoked, secrets_ended: kept.secretsEnded, without_secret: kept.withoutSecret },
  ...{ kept_disabled: kept.people.disabled, tokens_kept_revoked: kept.people.tokens, replaced },
})
