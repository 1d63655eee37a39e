/** `tollgate doctor`: one line per check. Read-only; works in any state. */

import type { Command } from 'commander'
import { listScheduled } from '../../backup/backup-list.ts'
import { findJoined } from '../../cluster/url.ts'
import { toDiskBytes } from '../../config.ts'
import { type Check, checkKeys } from '../../documents/checks.ts'
import { toDeclared, toRow } from '../../documents/upstream.ts'
import { once } from '../../domain/once.ts'
import { count } from '../../domain/text.ts'
import { readSpendStatuses } from '../../keys/spend-status.ts'
import { measureDisk, toDiskState } from '../../server/disk.ts'
import { checkBackups, checkDisk } from '../../server/findings.ts'
import type { ReportReaders } from '../../store/report-store.ts'
import { toSnapshot } from '../../store/snapshot.ts'
import type { Store } from '../../store/store.ts'
import { createVault, inspectVault } from '../../store/vault.ts'
import { CommandError } from '../command-error.ts'
import { askVault, findServer, type ServerLookup } from '../control-client.ts'
import { type Context, printJson, toExamples, toIndented, toPrintable, version } from '../io.ts'
import { sharedReports } from '../shared-ledger.ts'
import { checkFolder, checkJournal, checkSpace, guarded, inspectDatabase } from './data.ts'
import {
  checkCatalogFile,
  checkCredentials,
  checkModels,
  checkPrices,
  checkServer,
  checkTransport,
  checkUpstreams,
} from './server.ts'

export function addDoctor(command: Command, context: Context): void {
  command.addHelpText('after', toExamples('doctor', 'doctor --data /var/lib/tollgate')).action(() => doctor(context))
}

export async function doctor(io: Context): Promise<void> {
  const checks = await examine(io)
  if (io.json) printJson(io, { checks })
  else io.stdout(toLines(checks, io))
  const problems = checks.filter(({ status }) => status === 'problem').length
  if (problems === 0) return
  throw new CommandError('problems_found', `Found ${count(problems, 'problem')}.`)
}

async function examine(io: Context): Promise<Check[]> {
  const { dataFolder } = io
  const nowMs = io.nowMs()
  const found = await findServer(dataFolder)
  const folder = checkFolder(dataFolder, found.kind !== 'none')
  if (!folder.usable) return folder.checks
  const { checks, store } = inspectDatabase(dataFolder, { nowMs, isAtRest: found.kind === 'none' })
  const reports = once(() => (store ? sharedReports(io, store) : Promise.reject(new Error('no database'))))
  try {
    return [
      ...folder.checks,
      ...(await guarded('disk', () => inspectRoom(store, found, io))),
      ...(await guarded('backup', () => [
        checkBackups(
          found.kind === 'server' ? found.status : null,
          listScheduled(dataFolder).at(-1)?.madeMs ?? null,
          nowMs,
        ),
      ])),
      ...checks,
      ...(await guarded('journal', () => checkJournal(store?.audit ?? null, dataFolder, toLiving(found, store)))),
      ...checkServer(found, dataFolder, version(), nowMs),
      ...(await guarded('cluster', () => inspectCluster(found, io))),
      ...(store ? await guarded('catalog_file', () => inspectCatalogFile(store, io)) : []),
      ...(store ? await guarded('catalog', () => checkCatalog(store, found, io)) : []),
      ...(store ? await guarded('keys', async () => checkAllKeys(store, await reports.get(), nowMs)) : []),
      ...(store ? await guarded('prices', async () => checkPrices((await reports.get()).usage, nowMs)) : []),
    ]
  } finally {
    store?.close()
  }
}

/** By the running server's disk budget, else that of environment and settings. */
async function inspectRoom(store: Store | null, found: ServerLookup, io: Context): Promise<Check[]> {
  const { dataFolder, environment } = io
  const space = store?.space() ?? null
  const measured = await measureDisk(dataFolder, space)
  const settings = store ? await store.config.readSettings() : {}
  const budget =
    found.kind === 'server' && found.status.disk !== null
      ? found.status.disk.budget_bytes
      : toDiskBytes({ flags: {}, environment, settings })
  return [checkDisk(toDiskState(measured, budget)), ...(space ? checkSpace(space, dataFolder) : [])]
}

/** Instance of the running server: null = none, undefined = unknown. */
function toLiving(found: ServerLookup, store: Store | null): string | null | undefined {
  if (found.kind === 'server') return found.status.instance
  if (found.kind === 'none') return null
  if (!store) return undefined
  return store.audit.lastInstance() ?? undefined
}

/** Loads no cluster code without a cluster. */
async function inspectCluster(found: ServerLookup, io: Context): Promise<Check[]> {
  const serves = found.kind === 'server' && found.status.cluster
  if (!serves && !io.environment.TOLLGATE_CLUSTER && findJoined(io.dataFolder) === null) return []
  return (await import('./cluster.ts')).checkCluster(found, io)
}

const inspectCatalogFile = async (store: Store, io: Context) => checkCatalogFile(await store.config.readSettings(), io)

async function checkCatalog(store: Store, found: ServerLookup, io: Context): Promise<Check[]> {
  const configuration = await store.config.read()
  const status = found.kind === 'server' ? found.status : null
  const opened = await createVault(io.dataFolder, io.environment).open(configuration.sealed)
  const rows = toDeclared(configuration.upstreams, io.environment, opened, configuration.sealed).map((declared) =>
    toRow(declared, status?.upstreams ?? null),
  )
  const snapshot = toSnapshot(configuration, io.environment, opened)
  const served = status && (await askVault(io.dataFolder).catch(() => null))
  const vault = served ?? (await inspectVault(store.config, io.dataFolder, io.environment))
  return [
    ...checkCredentials(vault, served !== null),
    ...checkUpstreams(rows, status !== null, io.nowMs()),
    ...checkTransport([...snapshot.upstreams.values()], io.environment),
    ...checkModels(snapshot, rows, status !== null),
  ]
}

/** Without rows of the journal, which have their own check. */
async function checkAllKeys(store: Store, { spend }: ReportReaders, nowMs: number): Promise<Check[]> {
  const rows = await store.config.readKeys()
  const read = (kind: 'key' | 'team') => readSpendStatuses(spend, kind, nowMs)
  const statuses = { key: await read('key'), team: await read('team') }
  return checkKeys(rows, (kind) => statuses[kind], nowMs)
}

function toLines(checks: readonly Check[], io: Context): string {
  const width = Math.max(...checks.map(({ name }) => name.length))
  const lines = checks.map(({ name, status, message }) => {
    const line = toPrintable(message)
    const text = io.isTerminal(1) ? toIndented(line, width + 11).trimStart() : `${line}\n`
    return `${io.paint.state(status.padEnd(7))}  ${toPrintable(name.padEnd(width))}  ${text}`
  })
  return `${lines.join('')}To verify the ledger: tollgate ledger verify\n`
}
