/**
 * `tollgate audit`: says whether ledger and rollup agree and nothing is open that should not be. One line a finding and
 * a closing sentence; exit code 1 where there are findings. Works beside a running server.
 */
import type { Command } from 'commander'
import { toUsd } from '../domain/usage.ts'
import type { Audit, Finding } from '../ledger/audit.ts'
import type { Behind } from './catch-up.ts'
import { CommandError } from './command-error.ts'
import { type Io, printJson, sharedOptions, toDataFolder } from './io.ts'
import { toPrintable, toTime } from './text.ts'

/** Adds the command to the program. */
export function addAuditCommand(program: Command, io: Io): void {
  program
    .command('audit')
    .description('check that ledger and rollup agree and nothing is left open; exit 1 if not')
    .action((_options: unknown, command: Command) => audit(command, io))
}

async function audit(command: Command, io: Io): Promise<void> {
  const { openForCommand } = await import('../store/sqlite/open.ts')
  const { auditLedger } = await import('../ledger/audit.ts')
  const { createLedgerAudit } = await import('../store/sqlite/ledger-audit.ts')
  const { catchUp, toBehindNote } = await import('./catch-up.ts')
  const dataFolder = toDataFolder(command, io)
  const { sqlite } = openForCommand(dataFolder, { readonly: true })
  try {
    const behind = await catchUp(sqlite, dataFolder)
    const found = auditLedger(createLedgerAudit(sqlite, dataFolder), dataFolder, io.nowMs())
    if (sharedOptions(command).json) printJson(io, toDocument(found, behind))
    // Without a server what waits is a finding.
    else io.stdout(toLines(found, behind.isServed ? toBehindNote(behind) : null))
    const count = found.findings.length
    if (count === 0) return
    const what = count === 1 ? 'There is 1 finding' : `There are ${count} findings`
    throw new CommandError('audit_failed', `${what}. ${toScope(found)} were looked at.`)
  } finally {
    sqlite.close()
  }
}

const toDocument = ({ findings, hours, requests, costNanoUsd }: Audit, { waiting }: Behind) => ({
  ok: findings.length === 0,
  findings: findings.map((finding) => ({ ...finding, message: toSentence(finding) })),
  hours,
  requests,
  cost_nano_usd: costNanoUsd,
  waiting,
})

function toLines(found: Audit, note: string | null): string {
  const lines = found.findings.map(toSentence)
  if (found.findings.length === 0) lines.push(`Ledger and rollup agree: ${toScope(found)}.`)
  return (note ?? '') + lines.map((line) => `${toPrintable(line)}\n`).join('')
}

const toScope = ({ hours, requests, costNanoUsd }: Audit) =>
  `${hours} ${hours === 1 ? 'hour' : 'hours'}, ${requests} settled ${requests === 1 ? 'request' : 'requests'}, $${toUsd(costNanoUsd)}`

const PROBLEMS = {
  orphans: 'calls are in the ledger and the request is not',
  attempts: 'another number of attempts than of calls in the ledger',
  sums: 'additional calls cost more, or took more tokens, than the whole request',
}

function toSentence(finding: Finding): string {
  switch (finding.kind) {
    case 'difference': {
      const what = finding.fields.map(
        ({ field, ledger, rollup }) => `${field} ${ledger} in the ledger, ${rollup} in the rollup`,
      )
      const place = `${toTime(finding.hour_ms)}, key ${finding.key_id}, ${finding.model} on ${finding.upstream}`
      return `${place}: ${what.join('; ') || 'in the rollup without a row in the ledger'}.`
    }
    case 'calls': {
      const what = finding.requests === 1 ? '1 request' : `${finding.requests} requests`
      return `${toTime(finding.hour_ms)}, ${what} such as ${finding.request_id}: ${PROBLEMS[finding.problem]}.`
    }
    case 'open': {
      const what = finding.rows === 1 ? '1 row is' : `${finding.rows} rows are`
      return `${what} open in ${finding.table} for instance ${finding.instance}, which is gone, the oldest since ${toTime(finding.oldest_ms)}: the next start gives them up.`
    }
    case 'journal':
      return `${finding.file} holds ${finding.records} records of an instance that is gone: the next start applies them.`
    case 'rejected':
      return `${finding.file} keeps records that the database would not take: look at them, and move the file away.`
  }
}
