/** `tollgate cluster`: nodes that share a configuration, a ledger, and limits through PostgreSQL. */
import { hostname } from 'node:os'
import type { Command } from 'commander'
import { requireKnownSecret } from '../cluster/config-feed.ts'
import { createConfigLog } from '../cluster/config-log.ts'
import { findNode, forgetNodeId, listNodes, readNodeId, requireGone, setState } from '../cluster/nodes.ts'
import { findJoined, forgetJoined, keepJoined, readClusterUrl } from '../cluster/url.ts'
import { type ClusterDocument, type NodeDocument, toNodeDocument } from '../documents/cluster.ts'
import { mintTag, toShortId } from '../domain/id.ts'
import { isLocal, toPostgresUrl } from '../domain/postgres-url.ts'
import { ServiceError } from '../domain/service-error.ts'
import { capitalize, count, toSentence } from '../domain/text.ts'
import { toAgo } from '../domain/time.ts'
import { recover } from '../ledger/recover.ts'
import { createLog } from '../log.ts'
import { prepareDataFolder, takeWholeFolder } from '../store/data-folder.ts'
import { storeOf } from '../store/open.ts'
import { openPostgres, type Postgres, PostgresRefusal } from '../store/postgres/client.ts'
import { createSharedLedger } from '../store/postgres/ledger.ts'
import { migratePostgres } from '../store/postgres/migrate.ts'
import { openSecret } from '../store/secret.ts'
import { answerOf, idOf, withAdmin } from './admin-client.ts'
import { addClusterCopy } from './cluster-copy.ts'
import { CommandError, usageError } from './command-error.ts'
import { type Context, printJson, toDescribedTable, toExamples, toPrintable, toShort, version } from './io.ts'

const WHICH = 'node name, or 6+ digits of its ID'

export function addCluster(group: Command, context: Context): void {
  group
    .command('status')
    .description('list nodes with their state and pending changes')
    .addHelpText('after', toExamples('cluster status', 'cluster status --json'))
    .action(() => status(context))
  group
    .command('join')
    .description('make the data folder a node of a cluster, from the next start of its server')
    .argument(
      '[url]',
      'URL of PostgreSQL without a password; omit it to be prompted, since other users can read arguments',
    )
    .option('--url-stdin', 'read the URL from stdin')
    .addHelpText('after', toExamples('cluster join', 'cluster join --url-stdin < /run/secrets/cluster-url'))
    .action((url: string | undefined, { urlStdin }: { urlStdin?: true }) => join(url, urlStdin === true, context))
  group
    .command('drain')
    .description('let a node finish its requests, then stop it')
    .argument('<node>', WHICH)
    .addHelpText('after', toExamples('cluster drain gateway-2', 'cluster drain 4f9a21c8'))
    .action((which: string) => drain(which, context))
  group
    .command('leave')
    .description('take this data folder, or a stopped node, out of the cluster (stop its server first)')
    .argument('[node]', WHICH)
    .option('--without-postgres', 'only if the database is lost: keep what this node has')
    .addHelpText('after', toExamples('cluster leave', 'cluster leave gateway-2'))
    .action((which: string | undefined, { withoutPostgres }: { withoutPostgres?: true }) =>
      leave(which, withoutPostgres === true, context),
    )
  addClusterCopy(group, context)
}

async function status(io: Context): Promise<void> {
  const served = await withAdmin(io, { readonly: true }, async ({ api, found }) =>
    found.kind === 'server' ? answerOf(api.cluster.get()) : null,
  ).catch((error: unknown) => {
    if (error instanceof ServiceError && error.failure.kind === 'no_database') return null
    throw error
  })
  const document = served?.node ? served : await withPostgres(io, readAlone)
  if (io.json) return printJson(io, document)
  io.stdout(toText(document, io))
}

/** If no server uses the data folder. */
const readAlone = async (postgres: Postgres): Promise<ClusterDocument> => ({
  nodes: (await listNodes(postgres)).map(toNodeDocument),
  ...{ node: null, postgres: postgres.server?.address ?? null },
})

function toText({ nodes, postgres, node }: ClusterDocument, io: Context): string {
  const living = nodes.filter((one) => one.living)
  const leader = living.find(({ facts }) => facts.leader === true)
  const head = `${count(living.length, 'living node')} of ${nodes.length}, on PostgreSQL at ${postgres ?? 'unknown'}; ${leader ? `${toPrintable(leader.name)} leads` : 'none leads'}.`
  const rows = nodes.map((one) => [
    ...[toShort(one.name) + (one.id === node?.id ? ' *' : ''), toShortId(one.id), toStateWord(one)],
    ...[toAgo(-one.seen_ms_ago, 0), one.version, toShort(one.address, 40)],
  ])
  const notes = nodes.map(({ facts }) => [toNotes(facts, io.nowMs()).join(', ')])
  return `${head}\n\n${toDescribedTable(['NAME', 'ID', 'STATE', 'SEEN', 'VERSION', 'ADDRESS'], rows, notes, io.paint)}`
}

function toNotes(facts: NodeDocument['facts'], nowMs: number): string[] {
  const number = (name: string) => Number(facts[name] ?? 0)
  const staleMs = number('config_stale_since_ms')
  return [
    facts.config_seq == null ? [] : `configuration ${number('config_seq')}`,
    staleMs > 0 ? `last updated ${toAgo(staleMs, nowMs)}` : [],
    number('ledger_pending_entries') > 0 ? `${count(number('ledger_pending_entries'), 'request')} to send` : [],
    number('ledger_refused_entries') > 0
      ? `${count(number('ledger_refused_entries'), 'request')} that PostgreSQL refused`
      : [],
    facts.limits == null ? [] : `limits in ${toPrintable(String(facts.limits))}`,
    facts.limits_apart === true ? "which it can't reach" : [],
    typeof facts.problem === 'string' ? toPrintable(facts.problem) : [],
  ].flat()
}

const toStateWord = ({ state, living }: NodeDocument) => (living || state === 'stopped' ? state : 'silent')

async function join(argument: string | undefined, isPiped: boolean, io: Context): Promise<void> {
  const url = await readUrl(argument, isPiped, io)
  const parsed = toPostgresUrl(url)
  if (parsed === null)
    throw usageError(
      'The URL must be like postgres://tollgate@db.internal/tollgate, with parameters that Tollgate knows.',
    )
  if (argument !== undefined && parsed.password !== null)
    throw usageError('Other users can read arguments. Omit the URL to be prompted, or pipe it in with --url-stdin.')
  const { dataFolder } = io
  prepareDataFolder(dataFolder)
  const postgres = openPostgres({ url, log: createLog({ now: io.nowMs, write: async () => {} }) })
  try {
    await explained(migratePostgres(postgres))
    const head = await explained(createConfigLog(postgres, '').readHead())
    if (head) requireKnownSecret(head, openSecret(dataFolder, io.environment).read())
    const nodes = await explained(listNodes(postgres))
    keepJoined(dataFolder, url)
    const address = postgres.server?.address ?? ''
    if (io.json) return printJson(io, { postgres: address, nodes: nodes.length })
    if (parsed.tls === 'disable' && !parsed.addresses.every(isLocal))
      io.stderr('note: the connection is not encrypted. Use it only in a network that you trust.\n')
    io.stdout(`Joined ${count(nodes.length, 'node')} on PostgreSQL at ${address}. `)
    io.stdout(`It takes effect at the next start: tollgate restart, or tollgate serve --data ${dataFolder}\n`)
  } finally {
    await postgres.close()
  }
}

export async function readUrl(argument: string | undefined, isPiped: boolean, io: Context): Promise<string> {
  if (isPiped && argument !== undefined) throw usageError('Pass either a URL or --url-stdin, not both.')
  if (argument !== undefined) return argument
  const typed = isPiped ? await io.stdin() : await io.ask('URL of PostgreSQL (hidden): ', true)
  if (typed !== null && typed.trim() !== '') return typed.trim()
  throw new CommandError('no_url', 'No URL. Pass it, pipe it in with --url-stdin, or run in a terminal.', 2)
}

async function drain(which: string, io: Context): Promise<void> {
  const { draining } = await withAdmin(io, {}, async ({ api, found }) => {
    if (found.kind !== 'server')
      throw new CommandError('no_server', 'This command needs a running node. Run it on another one.')
    return answerOf(api.cluster(idOf(which)).drain.post())
  })
  if (io.json) return printJson(io, { draining })
  io.stdout(`Asked node ${toPrintable(draining)} to finish its requests and stop. Follow it: tollgate cluster status\n`)
}

async function leave(which: string | undefined, isLost: boolean, io: Context): Promise<void> {
  const name = which === undefined ? await leaveWithFolder(isLost, io) : await remove(which, io)
  if (io.json) return printJson(io, { left: name })
  io.stdout(`Node ${toPrintable(name)} has left the cluster.\n`)
  if (which === undefined && io.environment.TOLLGATE_CLUSTER)
    io.stderr(
      'note: TOLLGATE_CLUSTER is set. Unset it to serve this folder alone; to join again, start with an empty one.\n',
    )
}

/** Through the running node, or in this process. */
async function remove(which: string, io: Context): Promise<string> {
  const removed = await withAdmin(io, {}, async ({ api, found }) =>
    found.kind === 'server' ? answerOf(api.cluster(idOf(which)).delete()) : null,
  )
  if (removed) return removed.name
  return withPostgres(io, async (postgres) => {
    const { id, name } = requireGone(findNode(await listNodes(postgres), which))
    await setState(postgres, id, null, 'left')
    return name
  })
}

async function leaveWithFolder(isLost: boolean, io: Context): Promise<string> {
  const { dataFolder } = io
  const id = readNodeId(dataFolder)
  if (id === null && findJoined(dataFolder) === null)
    throw new CommandError('no_cluster', `${dataFolder} doesn't belong to a cluster. Pass another folder with --data.`)
  // Fails while its server runs, and prevents a start.
  const unlock = takeWholeFolder(dataFolder)
  try {
    // Without an ID, it has joined but never started.
    const name =
      id === null
        ? hostname()
        : isLost
          ? await leaveWith(null, id, io)
          : await withPostgres(io, (postgres) => leaveWith(postgres, id, io))
    forgetJoined(dataFolder)
    forgetNodeId(dataFolder)
    return name
  } finally {
    unlock()
  }
}

async function leaveWith(postgres: Postgres | null, id: string, io: Context): Promise<string> {
  const { dataFolder, nowMs: now } = io
  const options = { version: version(), startedMs: now(), now, log: createLog({ now, write: async () => {} }) }
  const store = await storeOf(dataFolder).serve(options)
  try {
    if (postgres === null) {
      ;(await store.loadReplica()).leave()
      return toShortId(id)
    }
    const outbox = store.ship(true)
    // A killed server leaves records in the journal, and requests in progress.
    const checkpoint = async () => (await store.checkpoint()) !== 'nowhere'
    const writer = { ...store.writer, checkpoint }
    const { leases } = store
    await recover({ store: writer, leases, dataFolder, instance: mintTag(), nowMs: now(), log: options.log })
    const { seq } = await createSharedLedger(postgres, id).cursor()
    const waiting = (outbox?.range().last ?? 0) - seq
    if (waiting > 0)
      throw new CommandError(
        'ledger_behind',
        `${count(waiting, 'record')} of this node ${waiting === 1 ? 'is' : 'are'} not in PostgreSQL yet. Start its server, wait until \`tollgate cluster status\` shows none, stop it, and try again.`,
      )
    const node = (await listNodes(postgres)).find((one) => one.id === id)
    await setState(postgres, id, null, 'left')
    ;(await store.loadReplica()).leave()
    return node?.name ?? toShortId(id)
  } finally {
    store.close()
  }
}

/** Uses TOLLGATE_CLUSTER, else the cluster that the folder has joined. */
export async function withPostgres<T>(io: Context, work: (postgres: Postgres) => Promise<T>): Promise<T> {
  const given = io.environment.TOLLGATE_CLUSTER || findJoined(io.dataFolder)
  if (!given)
    throw new CommandError(
      'no_cluster',
      'No cluster is known here. Run this where a node runs, set TOLLGATE_CLUSTER, or join one: tollgate cluster join',
    )
  return connectTo(readClusterUrl(given), io, work)
}

export async function connectTo<T>(url: string, io: Context, work: (postgres: Postgres) => Promise<T>): Promise<T> {
  const postgres = openPostgres({ url, log: createLog({ now: io.nowMs, write: async () => {} }) })
  try {
    return await explained(work(postgres))
  } finally {
    await postgres.close()
  }
}

async function explained<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof PostgresRefusal)) throw error
    if (error.sqlstate === NO_TABLE)
      throw new CommandError(
        'no_cluster',
        'This database has no cluster yet. Start a node: tollgate serve --cluster URL',
      )
    throw new ServiceError({ kind: 'cluster_unreachable', isInDoubt: false }, toSentence(capitalize(error.message)))
  }
}

const NO_TABLE = '42P01'
