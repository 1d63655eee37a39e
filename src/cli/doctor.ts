/**
 * `tollgate doctor`: looks at everything that a gateway needs and says, one line each, what is well, what is not, and what to
 * do. Works in whatever state things are in, with and without a running server, and never makes or changes anything.
 */

import type { Database } from 'bun:sqlite'
import { toServeConfig } from '../config.ts'
import { type Check, checkKeys } from '../documents/checks.ts'
import { toDeclared, toRow } from '../documents/upstream.ts'
import { count } from '../domain/text.ts'
import { readStandings } from '../keys/standing.ts'
import { measureDisk, toDiskState } from '../server/disk.ts'
import { toSnapshot } from '../store/snapshot.ts'
import { createConfigStore } from '../store/sqlite/config-store.ts'
import { createLedgerAudit } from '../store/sqlite/ledger-audit.ts'
import { createLedgerReader } from '../store/sqlite/ledger-reader.ts'
import { readSpace } from '../store/sqlite/prune.ts'
import { createUsageReader } from '../store/sqlite/usage-reader.ts'
import { createVault, inspectVault } from '../store/vault.ts'
import { CommandError } from './command-error.ts'
import {
  checkBackups,
  checkDisk,
  checkFolder,
  checkJournal,
  checkSpace,
  guarded,
  inspectDatabase,
} from './doctor-data.ts'
import {
  checkCatalogFile,
  checkCredentials,
  checkModels,
  checkPrices,
  checkServer,
  checkTransport,
  checkUpstreams,
} from './doctor-server.ts'
import { type Context, printJson, toIndented, toPrintable, version } from './io.ts'
import { askVault, findServer, type ServerLookup } from './live.ts'

export async function doctor(io: Context): Promise<void> {
  const checks = await examine(io)
  if (io.json) printJson(io, { checks })
  else io.stdout(toLines(checks, io))
  const problems = checks.filter(({ status }) => status === 'problem').length
  if (problems === 0) return
  throw new CommandError('problems_found', `There ${problems === 1 ? 'is' : 'are'} ${count(problems, 'problem')}.`)
}

async function examine(io: Context): Promise<Check[]> {
  const { dataFolder } = io
  const nowMs = io.nowMs()
  const found = await findServer(dataFolder)
  const folder = checkFolder(dataFolder, found.kind !== 'none')
  if (!folder.usable) return folder.checks
  const { checks, sqlite } = inspectDatabase(dataFolder, { nowMs, isAtRest: found.kind === 'none' })
  try {
    return [
      ...folder.checks,
      ...(await guarded('disk', () => inspectRoom(sqlite, found, io))),
      ...(await guarded('backup', () => [
        checkBackups(dataFolder, found.kind === 'server' ? found.status : null, nowMs),
      ])),
      ...checks,
      ...(await guarded('journal', () => {
        const audit = sqlite && createLedgerAudit(sqlite, dataFolder)
        return checkJournal(audit, dataFolder, toLiving(found, sqlite))
      })),
      ...checkServer(found, dataFolder, version(), nowMs),
      ...(sqlite ? await guarded('catalog_file', () => inspectCatalogFile(sqlite, io)) : []),
      ...(sqlite ? await guarded('catalog', () => checkCatalog(sqlite, found, io)) : []),
      ...(sqlite ? await guarded('keys', () => checkAllKeys(sqlite, nowMs)) : []),
      ...(sqlite ? await guarded('prices', () => checkPrices(createUsageReader(sqlite), nowMs)) : []),
    ]
  } finally {
    sqlite?.close()
  }
}

/** By the budget of the running server; without one, by that of the environment and the settings. */
async function inspectRoom(sqlite: Database | null, found: ServerLookup, io: Context): Promise<Check[]> {
  const { dataFolder, environment } = io
  const space = sqlite && readSpace(sqlite)
  const measured = await measureDisk(dataFolder, space)
  const settings = sqlite ? await createConfigStore(sqlite).readSettings() : {}
  const budget =
    found.kind === 'server' && found.status.disk !== null
      ? found.status.disk.budget_bytes
      : toServeConfig({ flags: {}, environment, settings }).diskBytes
  return [checkDisk(toDiskState(measured, budget)), ...(space ? checkSpace(space, dataFolder) : [])]
}

/** The instance that is running, as it says itself or has written down; null for none, undefined where nobody knows. */
function toLiving(found: ServerLookup, sqlite: Database | null): string | null | undefined {
  if (found.kind === 'server') return found.status.instance
  if (found.kind === 'none') return null
  if (!sqlite) return undefined
  const setting = sqlite.query<{ value: string }, []>("SELECT value FROM settings WHERE key = 'instance'").get()
  return setting?.value
}

const inspectCatalogFile = async (sqlite: Database, io: Context) =>
  checkCatalogFile(await createConfigStore(sqlite).readSettings(), io)

async function checkCatalog(sqlite: Database, found: ServerLookup, io: Context): Promise<Check[]> {
  const configuration = await createConfigStore(sqlite).read()
  const status = found.kind === 'server' ? found.status : null
  const opened = await createVault(io.dataFolder, io.environment).open(configuration.sealed)
  const rows = toDeclared(configuration.upstreams, io.environment, opened).map((declared) =>
    toRow(declared, status?.upstreams ?? null),
  )
  const snapshot = toSnapshot(configuration, io.environment, opened)
  const served = status && (await askVault(io.dataFolder).catch(() => null))
  const vault = served ?? (await inspectVault(createConfigStore(sqlite), io.dataFolder, io.environment))
  return [
    ...checkCredentials(vault, served !== null),
    ...checkUpstreams(rows, status !== null, io.nowMs()),
    ...checkTransport([...snapshot.upstreams.values()], io.environment),
    ...checkModels(snapshot, rows, status !== null),
  ]
}

/** By what the database has taken in: what waits in the journal is little, and told of above. */
async function checkAllKeys(sqlite: Database, nowMs: number): Promise<Check[]> {
  const reader = createLedgerReader(sqlite)
  const rows = await createConfigStore(sqlite).readKeys()
  return checkKeys(rows, (kind) => readStandings(reader, kind, nowMs), nowMs)
}

/** A line a check, which is several of a terminal. */
function toLines(checks: readonly Check[], io: Context): string {
  const width = Math.max(...checks.map(({ name }) => name.length))
  const lines = checks.map(({ name, status, message }) => {
    const line = toPrintable(message)
    const text = io.isTerminal(1) ? toIndented(line, width + 11).trimStart() : `${line}\n`
    return `${io.paint.state(status.padEnd(7))}  ${toPrintable(name.padEnd(width))}  ${text}`
  })
  return `${lines.join('')}Whether every request and every charge adds up: tollgate audit\n`
}
