/**
 * `tollgate doctor`: looks at everything that a gateway needs and says, one line each, what is well, what is not, and what to
 * do. Works in whatever state things are in, with and without a running server, and never makes or changes anything.
 */
import type { Database } from 'bun:sqlite'
import type { Command } from 'commander'
import { CommandError } from './command-error.ts'
import type { Check } from './doctor-check.ts'
import { type Io, printJson, sharedOptions, toDataFolder } from './io.ts'
import type { ServerLookup } from './live.ts'
import { toPrintable } from './text.ts'
import { version } from './version.ts'

/** Adds the command to the program. */
export function addDoctorCommand(program: Command, io: Io): void {
  program
    .command('doctor')
    .description('look for what is wrong with this installation, and say what to do; exit 1 if there is a problem')
    .action((_options: unknown, command: Command) => doctor(command, io))
}

async function doctor(command: Command, io: Io): Promise<void> {
  const checks = await examine(toDataFolder(command, io), io)
  if (sharedOptions(command).json) printJson(io, { checks })
  else io.stdout(toLines(checks))
  const problems = checks.filter(({ status }) => status === 'problem').length
  if (problems === 0) return
  throw new CommandError('problems_found', problems === 1 ? 'There is 1 problem.' : `There are ${problems} problems.`)
}

async function examine(dataFolder: string, io: Io): Promise<Check[]> {
  const { guarded } = await import('./doctor-check.ts')
  const { checkDisk, checkFolder, checkJournal } = await import('./doctor-files.ts')
  const { checkServer } = await import('./doctor-server.ts')
  const { inspectDatabase } = await import('./doctor-database.ts')
  const { findServer } = await import('./live.ts')
  const nowMs = io.nowMs()
  const found = await findServer(dataFolder)
  const folder = checkFolder(dataFolder, found.kind !== 'none')
  if (!folder.usable) return folder.checks
  const { checks, sqlite } = inspectDatabase(dataFolder, { nowMs, isAtRest: found.kind === 'none' })
  try {
    return [
      ...folder.checks,
      ...(await guarded('disk', () => checkDisk(dataFolder))),
      ...checks,
      ...(await guarded('journal', async () =>
        checkJournal(await toAudit(sqlite, dataFolder), dataFolder, toLiving(found, sqlite)),
      )),
      ...checkServer(found, version(), nowMs),
      ...(sqlite ? await guarded('catalog', () => examineCatalog(sqlite, found, io)) : []),
    ]
  } finally {
    sqlite?.close()
  }
}

/** The instance that is running, as it says itself or has written down; null for none, undefined where nobody knows. */
function toLiving(found: ServerLookup, sqlite: Database | null): string | null | undefined {
  if (found.kind === 'server') return found.status.instance
  if (found.kind === 'none') return null
  if (!sqlite) return undefined
  const setting = sqlite.query<{ value: string }, []>("SELECT value FROM settings WHERE key = 'instance'").get()
  return setting?.value
}

async function toAudit(sqlite: Database | null, dataFolder: string) {
  const { createLedgerAudit } = await import('../store/sqlite/ledger-audit.ts')
  return sqlite && createLedgerAudit(sqlite, dataFolder)
}

async function examineCatalog(sqlite: Database, found: ServerLookup, io: Io): Promise<Check[]> {
  const { createConfigStore } = await import('../store/sqlite/config-store.ts')
  const { toSnapshot } = await import('../store/snapshot.ts')
  const { toDeclared, toRow } = await import('./upstream-rows.ts')
  const { checkModels, checkUpstreams } = await import('./doctor-catalog.ts')
  const configuration = await createConfigStore(sqlite).read()
  const status = found.kind === 'server' ? found.status : null
  const rows = toDeclared(configuration.upstreams, io.environment).map((declared) => toRow(declared, status))
  const snapshot = toSnapshot(configuration, io.environment)
  return [...checkUpstreams(rows, status !== null, io.nowMs()), ...checkModels(snapshot, rows, status !== null)]
}

const WIDTH = 'problem'.length

function toLines(checks: readonly Check[]): string {
  const width = Math.max(...checks.map(({ name }) => Bun.stringWidth(name)))
  const lines = checks.map(
    ({ name, status, message }) =>
      `${status.padEnd(WIDTH)}  ${name}${' '.repeat(width - Bun.stringWidth(name))}  ${message}`,
  )
  return [...lines, 'Whether the ledger adds up is what `tollgate audit` looks at.']
    .map((line) => `${toPrintable(line)}\n`)
    .join('')
}
