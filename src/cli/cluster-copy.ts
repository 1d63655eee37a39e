/** `tollgate cluster import` and `export`: copies a single node's data folder to a cluster, or back. */
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { requireSettled } from '../backup/replace-database.ts'
import { type Exported, exportCluster } from '../cluster/export.ts'
import { type Imported, importFolder } from '../cluster/import.ts'
import { findJoined, keepJoined, readClusterUrl } from '../cluster/url.ts'
import { ServiceError } from '../domain/service-error.ts'
import { count } from '../domain/text.ts'
import { findLost } from '../ledger/mark.ts'
import { createLog } from '../log.ts'
import { requireReadable } from '../store/data-folder.ts'
import { connectTo, readUrl, withPostgres } from './cluster.ts'
import { CommandError } from './command-error.ts'
import { type Context, printJson, toExamples, toPrintable, version } from './io.ts'
import { toRounded } from './money.ts'
import { createBar } from './terminal.ts'

export function addClusterCopy(group: Command, context: Context): void {
  group
    .command('import')
    .description("make a single node's data folder the first node of a new cluster, with its history")
    .argument('<folder>', 'data folder; stop its server first')
    .option('--url-stdin', 'read the URL of PostgreSQL from stdin')
    .addHelpText(
      'after',
      toExamples('cluster import /var/lib/tollgate', 'cluster import tollgate_data --url-stdin < /run/secrets/url'),
    )
    .action((folder: string, { urlStdin }: { urlStdin?: true }) => importData(folder, urlStdin === true, context))
  group
    .command('export')
    .description('write the configuration and ledger of all nodes to a data folder for a single node')
    .argument('<folder>', 'new data folder')
    .addHelpText(
      'after',
      toExamples('cluster export /mnt/single', 'cluster export /mnt/single --data /var/lib/tollgate'),
    )
    .action((folder: string) => exportData(folder, context))
}

const quiet = (io: Context) => createLog({ now: io.nowMs, write: async () => {} })

async function importData(folder: string, isPiped: boolean, io: Context): Promise<void> {
  const dataFolder = resolve(io.cwd, folder)
  requireReadable(dataFolder)
  requireSettled(dataFolder)
  const lost = findLost(dataFolder)
  if (lost !== null) throw new ServiceError({ kind: 'database_lost', dataFolder }, lost)
  const known = isPiped ? null : io.environment.TOLLGATE_CLUSTER || findJoined(dataFolder)
  const url = known ? readClusterUrl(known) : await readUrl(undefined, isPiped, io)
  // Files created here are private to this user.
  process.umask(0o077)
  const bar = createBar(io, 'Importing')
  const imported = await connectTo(url, io, (postgres) =>
    importFolder({
      ...{ dataFolder, postgres, environment: io.environment, nodeName: hostname(), version: version() },
      ...{ log: quiet(io), now: io.nowMs, onProgress: bar },
    }),
  ).finally(bar.end)
  if (!known) keepJoined(dataFolder, url)
  if (io.json) return printJson(io, toDocument(imported))
  io.stdout(`Imported ${toContents(imported)}\n`)
  io.stdout('All totals are the same in PostgreSQL.\n')
  io.stdout(`Credentials are encrypted with ${toPrintable(imported.secret)}: other nodes need the same.\n`)
  io.stdout(
    `Next: tollgate serve --data ${dataFolder}${known === io.environment.TOLLGATE_CLUSTER ? ', with TOLLGATE_CLUSTER set' : ''}\n`,
  )
}

async function exportData(folder: string, io: Context): Promise<void> {
  const target = resolve(io.cwd, folder)
  process.umask(0o077)
  const exported = await withPostgres(io, (postgres) =>
    exportCluster({
      ...{ target, dataFolder: io.dataFolder, postgres, environment: io.environment, version: version() },
      ...{ log: quiet(io), now: io.nowMs, onProgress: createCounter(io) },
    }),
  )
  const { difference, living, secret } = exported
  if (io.json)
    printJson(io, { ...toDocument(exported), ok: difference === null, living: living.map(({ name }) => name) })
  else {
    io.stdout(`Exported ${toContents(exported)}\n`)
    if (difference === null) io.stdout('All totals are the same as in PostgreSQL.\n')
    io.stdout(`Credentials are encrypted with ${toPrintable(secret)}.\n`)
    io.stdout(`To use it without the cluster: tollgate serve --data ${target}\n`)
  }
  if (living.length > 0)
    io.stderr(
      `note: ${count(living.length, 'node')} of the cluster ${living.length === 1 ? 'runs' : 'run'}, whose next requests are not in it. To move, stop all nodes first.\n`,
    )
  if (difference === null) return
  throw new CommandError(
    'sums_differ',
    `The folder was written, but its totals differ from those in PostgreSQL, first in ${difference.table} ${difference.key.join(' ')}. Check it: tollgate ledger verify --data ${target}`,
  )
}

function createCounter(io: Context): (done: number) => void {
  let tellMs = io.nowMs()
  return (done) => {
    if (io.json || !io.isTerminal(2) || io.nowMs() - tellMs < 1_000) return
    tellMs = io.nowMs()
    io.stderr(`Exporting, ${count(done, 'request')} so far\n`)
  }
}

const toContents = ({ requests, kept, costNanoUsd, sums }: Imported | Exported): string =>
  `${count(Number(requests), 'request')} of all time, ${toRounded(costNanoUsd)}, in ${count(sums, 'total')}; ${kept === Number(requests) ? 'all' : kept} of them with details.`

const toDocument = ({ requests, kept, costNanoUsd, sums }: Imported | Exported) => ({
  ...{ requests, requests_kept: kept, cost_nano_usd: costNanoUsd, totals_compared: sums },
})
