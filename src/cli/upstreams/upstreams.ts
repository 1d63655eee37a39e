/** `tollgate upstreams`. Without a running server, status comes from the database and this environment. */
import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { Option } from 'commander'
import type { ShownUpstream, UpstreamTest } from '../../documents/upstream.ts'
import { DIALECTS, isBuiltIn } from '../../domain/dialects.ts'
import { codeOf, messageOf } from '../../domain/error.ts'
import type { LimitName } from '../../domain/limits.ts'
import { count } from '../../domain/text.ts'
import { toUsd } from '../../domain/usage.ts'
import { logOf } from '../../processes/managed.ts'
import { type Status, socketPath } from '../../server/protocol.ts'
import { type AdminClient, answerOf, withAdmin } from '../admin-client.ts'
import { type AskedServer, fetchFrom, listOffers, readAnswer, toCheapest } from '../ask.ts'
import { CommandError, usageError } from '../command-error.ts'
import { type Drive, driveServer, findServer, noteServer, type ServerLookup, toPart } from '../control-client.ts'
import { type Context, printJson, toDescribedTable, toExamples, toPrintable } from '../io.ts'
import { addOldName, collect } from '../values.ts'
import type { AddFlags, DiscoverFlags, EditFlags } from './add.ts'
import { toAdvice, toUpstreamTable } from './text.ts'

const LIMITED = {
  rpm: 'requests per minute',
  tpm: 'tokens per minute',
  concurrency: 'concurrent calls',
} satisfies Record<LimitName, string>

export function addUpstreams(group: Command, context: Context): void {
  withCredential(group.command('add'))
    .description('add a provider and its models, with known limits and prices; previews before applying')
    .argument('[provider]', 'e.g. openai, anthropic, google, or openrouter; for others, pass --base-url')
    .option('--name <id>', 'upstream ID (default: the provider name)')
    .option('--base-url <url>', 'URL, if not the default, e.g. http://127.0.0.1:8000/v1')
    .addOption(new Option('--dialect <format>', 'API format, for unknown providers').choices(FORMATS))
    .option('--models <pattern>', 'only these models, e.g. gpt-5*; NAME=ID sets a different ID (repeatable)', collect)
    .option('--local', 'mark as local (free)')
    .option('--plan', 'preview changes without applying them')
    .option('--yes', 'skip confirmation')
    .addHelpText(
      'after',
      toExamples(
        'upstreams add openai',
        "upstreams add openrouter --models 'deepseek/*' --key-env OPENROUTER_API_KEY --yes",
      ),
    )
    .action(async (provider: string | undefined, flags: AddFlags) =>
      (await import('./add.ts')).add(provider, flags, context),
    )
  const discovering = group
    .command('discover')
    .description('find local model servers and provider keys in the environment')
    .option('--enable', 'add the servers that are found')
    .option('--url <url>', 'check this URL instead of the default ports (repeatable)', collect)
    .addHelpText('after', toExamples('upstreams discover', 'upstreams discover --enable'))
    .action(async (flags: DiscoverFlags) => (await import('./add.ts')).discover(flags, context))
  addOldName(discovering, '--at <url>', 'url', context)
  group
    .command('list')
    .description('list upstreams with state, breakers, timeouts, and last error')
    .addHelpText('after', toExamples('upstreams list', 'upstreams list --json'))
    .action(() => list(context))
  const editing = withCredential(group.command('edit'))
    .description('edit an upstream; edits override catalog files. If you change its URL, enter its key again')
    .argument('<id>', 'upstream ID')
    .option('--base-url <url>', 'new URL')
    .option('--models <pattern>', "list the provider's models again and add these (repeatable)", collect)
    .option('--enable', 'enable the upstream')
    .option('--disable', 'disable the upstream: send no requests')
  for (const [name, what] of Object.entries(LIMITED)) editing.option(`--${name} <n>`, `max ${what}; or none`)
  editing
    .option('--plan', 'preview changes without applying them')
    .option('--yes', 'skip confirmation')
    .addHelpText('after', toExamples('upstreams edit openai --key', "upstreams edit openai --models 'gpt-5*'"))
    .action(async (id: string, flags: EditFlags) => (await import('./add.ts')).edit(id, flags, context))
  group
    .command('remove')
    .description('delete an added upstream, with its discovered models and routes')
    .argument('<id>', 'upstream ID')
    .option('--plan', 'preview without deleting')
    .addHelpText('after', toExamples('upstreams remove openai --plan', 'upstreams remove openai'))
    .action(async (id: string, flags: { plan?: boolean }) => (await import('./add.ts')).remove(id, flags, context))
  group
    .command('test')
    .description('check upstreams at no cost; exits 1 if any fails')
    .argument('[id...]', 'upstream IDs (default: all enabled)')
    .option('--call', 'make one small billed call per named upstream (recorded as `system`)')
    .option('--model <id>', 'model for --call (default: the cheapest)')
    .addHelpText('after', toExamples('upstreams test', 'upstreams test openai --call'))
    .action(async (ids: string[], { call: isCall, model }: { call?: boolean; model?: string }) => {
      if (isCall) return call(ids, model, context)
      if (model !== undefined) throw usageError('--model requires --call.')
      return test(ids, context)
    })
  group
    .command('start')
    .description('start the model server of an upstream and wait until it is ready')
    .argument('<id>', 'upstream ID')
    .addHelpText('after', toExamples('upstreams start gemma', 'upstreams start gemma --json'))
    .action((id: string) => drive(id, 'start', context))
  group
    .command('stop')
    .description('stop the model server of an upstream after in-flight requests; the next request restarts it')
    .argument('<id>', 'upstream ID')
    .option('--now', 'stop immediately; interrupts in-flight requests')
    .addHelpText('after', toExamples('upstreams stop gemma', 'upstreams stop gemma --now'))
    .action((id: string, { now }: { now?: boolean }) => drive(id, now ? 'stop now' : 'stop', context))
  group
    .command('logs')
    .description('print the last log lines of the model server of an upstream')
    .argument('<id>', 'upstream ID')
    .option('--lines <n>', 'number of lines', '100')
    .addHelpText('after', toExamples('upstreams logs gemma', 'upstreams logs gemma --lines 1000'))
    .action((id: string, { lines }: { lines: string }) => logs(id, lines, context))
}

const FORMATS = DIALECTS.filter((dialect) => !isBuiltIn({ dialect }))

const withCredential = (command: Command) =>
  command
    .option('--key-env <variable>', "variable in the server's environment that holds the key")
    .option('--key-stdin', 'read the key from stdin; stored encrypted')
    .option('--key', 'prompt for the key; stored encrypted')
    .option('--no-key', 'no key required')

const read = async ({ api }: AdminClient): Promise<ShownUpstream[]> => (await answerOf(api.upstreams.get())).upstreams

async function list(io: Context): Promise<void> {
  const { rows, found } = await withAdmin(io, { readonly: true }, async (admin) => ({
    rows: await read(admin),
    found: admin.found,
  }))
  if (io.json) return printJson(io, { upstreams: rows, server: toServer(found) })
  noteServer(found, io, 'Showing the state from the database and this environment.')
  if (rows.length === 0)
    return io.stderr(
      'No upstreams yet. Add one (tollgate upstreams add PROVIDER) or find local ones (tollgate upstreams discover).\n',
    )
  io.stdout(toUpstreamTable(rows, io.nowMs(), io.paint))
}

export async function test(ids: readonly string[], io: Context): Promise<void> {
  const { results, found } = await withAdmin(io, { readonly: true }, async (admin) => {
    const chosen = choose(ids, await read(admin))
    if (!io.json) noteServer(admin.found, io, 'Checking from here, with the credentials of this environment.')
    const ask = ({ id }: ShownUpstream): Promise<UpstreamTest> => answerOf(admin.api.upstreams({ id }).test.post())
    return { results: await Promise.all(chosen.map(ask)), found: admin.found }
  })
  if (io.json) printJson(io, { upstreams: results, server: toServer(found) })
  else if (results.length === 0) io.stderr('No enabled upstreams. Add one: tollgate upstreams add PROVIDER\n')
  else {
    const notes = results.map(({ reason }) => [toPrintable((reason && toAdvice(reason)) ?? '')])
    io.stdout(toDescribedTable(['ID', 'STATE', 'MS', 'RESULT'], results.map(toCells), notes, io.paint))
  }
  const failed = results.filter((result) => !answers(result))
  for (const { id, reason } of results.filter((result) => answers(result) && result.reason !== null))
    io.stderr(`warning: ${toPrintable(`${id} works, but not with all of its credentials: ${reason}`)}\n`)
  if (failed.length > 0)
    throw new CommandError('upstreams_failed', `${failed.length} of ${count(results.length, 'upstream')} failed.`)
}

/** Without upstreams, which are listed separately. */
function toServer(found: ServerLookup): Omit<Status, 'upstreams'> | null {
  if (found.kind !== 'server') return null
  const { upstreams: _, ...server } = found.status
  return server
}

/** Default: all enabled ones. */
function choose(ids: readonly string[], rows: readonly ShownUpstream[]): ShownUpstream[] {
  if (ids.length === 0) return rows.filter(({ enabled }) => enabled)
  return [...new Set(ids)].map((id) => {
    const found = rows.find((row) => row.id === id)
    if (found?.enabled) return found
    if (found)
      throw new CommandError(
        'upstream_disabled',
        `Upstream ${toPrintable(id)} is disabled. Enable it: tollgate upstreams edit ${toPrintable(id)} --enable`,
      )
    throw unknownUpstream(id, rows)
  })
}

function unknownUpstream(id: string, rows: readonly ShownUpstream[]): CommandError {
  const names = rows.map((row) => row.id).join(', ')
  return new CommandError('unknown_upstream', `Unknown upstream '${toPrintable(id)}'. Upstreams: ${names || 'none'}.`)
}

const answers = ({ state }: UpstreamTest) => state === 'ready' || state === 'unknown'

const toCells = (result: UpstreamTest) => [
  toPrintable(result.id),
  result.state.replace('_', ' '),
  result.ms === null ? '-' : String(result.ms),
  toMessage(result),
]

function toMessage({ state, reason }: UpstreamTest): string {
  if (state === 'ready') return 'ok'
  if (state === 'unknown') return 'reachable; a free check is not supported'
  return toPrintable(reason ?? state)
}

async function drive(id: string, what: Drive, io: Context): Promise<void> {
  const status = await driveServer(io.dataFolder, id, what)
  const { state, reason } = status
  const name = toPrintable(id)
  const isStart = what === 'start'
  const isDone = !isStart || state === 'ready' || state === 'sleeping'
  if (io.json) printJson(io, { id, ...status })
  else if (isStart ? isDone : state === 'stopped' || state === 'failed') io.stdout(`${name}: ${state}.\n`)
  else if (isDone) io.stdout(`${name}: stopped, now ${state} again for queued requests.\n`)
  if (isDone) return
  const why = reason === null ? `state is ${state}` : toPrintable(reason)
  throw new CommandError('server_failed', `Couldn't start the model server of ${name}: ${why}.`)
}

async function logs(id: string, lines: string, io: Context): Promise<void> {
  const most = Number(lines)
  if (!Number.isInteger(most) || most < 1) throw usageError('--lines must be a whole number of 1 or more.')
  // Other names could be paths.
  const path = /^[a-z0-9][a-z0-9._-]*$/.test(id) ? logOf(io.dataFolder, id) : null
  const texts = path === null ? [] : await Promise.all([`${path}.1`, path].map(readLog))
  const text = texts.join('')
  if (text === '') {
    const rows = await withAdmin(io, { readonly: true }, read)
    if (!rows.some((row) => row.id === id)) throw unknownUpstream(id, rows)
    throw new CommandError(
      'no_log',
      `No log for ${toPrintable(id)}: Tollgate has not started a model server for it. Start one: tollgate upstreams start ${toPrintable(id)}`,
    )
  }
  const written = text.trimEnd().split('\n').slice(-most)
  if (io.json) return printJson(io, { id, lines: written })
  io.stdout(`${written.map(toPrintable).join('\n')}\n`)
}

/** '' if missing. */
async function readLog(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return ''
    throw new CommandError('log_unreadable', `Can't read the log ${path} (${codeOf(error) || 'unknown reason'}).`)
  }
}

interface Called {
  id: string
  state: 'ready' | 'failed'
  reason: string | null
  advice: string | null
  ms: number | null
  model: string | null
  request_id: string | null
  cost_nano_usd: number | null
}

const MAX_TOKENS = 16

async function call(ids: readonly string[], model: string | undefined, io: Context): Promise<void> {
  if (ids.length === 0) throw usageError('--call is billed, so it requires upstream IDs.')
  const found = await findServer(io.dataFolder)
  if (found.kind === 'silent') throw new CommandError('server_silent', `Can't reach the server: ${found.why}.`)
  if (found.kind === 'none')
    throw new CommandError(
      'no_server',
      `--call requires a running server. Start it: tollgate serve --data ${io.dataFolder}`,
    )
  const chosen = await withAdmin(io, { readonly: true }, async (admin) => choose(ids, await read(admin)))
  const results: Called[] = []
  for (const { id } of chosen) results.push(await callOne(id, model, io))
  if (io.json) printJson(io, { upstreams: results })
  else io.stdout(toText(results, io))
  const failed = results.filter(({ state }) => state === 'failed')
  if (failed.length > 0)
    throw new CommandError('upstreams_failed', `${failed.length} of ${count(results.length, 'upstream')} failed.`)
}

async function callOne(id: string, wanted: string | undefined, io: Context): Promise<Called> {
  const base = `http://localhost/system/upstreams/${toPart(id)}/v1`
  const server: AskedServer = { base, unix: socketPath(io.dataFolder), key: null, keyFrom: '--key' }
  const startedMs = performance.now()
  const failed = (reason: string, model: string | null): Called => {
    const ms = Math.round(performance.now() - startedMs)
    return { id, state: 'failed', reason, advice: toAdvice(reason), ms, model, request_id: null, cost_nano_usd: null }
  }
  const model = wanted ?? toCheapest(await listOffers(server))?.id
  if (model === undefined)
    return failed('no ready model uses an enabled upstream with this ID. List upstreams: tollgate upstreams list', null)
  try {
    const response = await fetchFrom(server, '/chat/completions', {
      model,
      messages: [{ role: 'user', content: 'Say OK.' }],
      max_tokens: MAX_TOKENS,
      stream: true,
      stream_options: { include_usage: true },
    })
    const { requestId, usage } = await readAnswer(response)
    const ms = Math.round(performance.now() - startedMs)
    const more = { ms, model, request_id: requestId, cost_nano_usd: usage.cost_nano_usd }
    return { id, state: 'ready', reason: null, advice: null, ...more }
  } catch (error) {
    return failed(await whyFailed(id, messageOf(error), io), model)
  }
}

/** Clients see less than the server knows. */
async function whyFailed(id: string, told: string, io: Context): Promise<string> {
  const found = await findServer(io.dataFolder)
  const upstream = found.kind === 'server' ? found.status.upstreams.find((one) => one.id === id) : undefined
  const known = upstream?.last_error?.message ?? upstream?.reason
  return known && !told.includes(known) ? `${told.replace(/\.$/, '')}: ${known}` : told
}

function toText(results: readonly Called[], io: Context): string {
  const rows = results.map(({ id, state, ms, model }) => [id, state, ms === null ? '-' : String(ms), model ?? '-'])
  const notes = results.map((result) =>
    [toOutcome(result), result.advice ?? ''].filter((line) => line !== '').map(toPrintable),
  )
  const cells = rows.map((row) => row.map(toPrintable))
  return toDescribedTable(['ID', 'STATE', 'MS', 'MODEL'], cells, notes, io.paint)
}

const toOutcome = ({ reason, request_id: requestId, cost_nano_usd: cost }: Called) =>
  reason ?? `ok; ${requestId}, ${cost === 0 ? 'free' : `$${toUsd(cost ?? 0)}`}`
