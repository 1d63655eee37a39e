/**
 * `tollgate upstreams list | test | start | stop | logs`. What only a running server knows is told where one runs; else the command says so
 * and goes by the database and its own environment. `test --call` makes one tiny call to each upstream through the running server, on
 * record and paid as any other, under the key `system`.
 */
import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { Option } from 'commander'
import type { ShownUpstream, UpstreamTest } from '../../documents/upstream.ts'
import { DIALECTS, isBuiltIn } from '../../domain/dialects.ts'
import { codeOf, messageOf } from '../../domain/error.ts'
import type { LimitName } from '../../domain/limits.ts'
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

/** What each limit of an upstream allows. */
const LIMITED = {
  rpm: 'requests per minute',
  tpm: 'tokens per minute',
  concurrency: 'calls at a time',
} satisfies Record<LimitName, string>

export function addUpstreams(group: Command, context: Context): void {
  withCredential(group.command('add'))
    .description(
      'add a provider with its models: as it lists them, with the facts and prices that are known. Shows first what that would make',
    )
    .argument('[provider]', 'its name, such as openai, anthropic, google or openrouter; of others, their --base-url')
    .option('--name <id>', 'what the upstream is called (default: as the provider)')
    .option('--base-url <url>', 'its address, if not the usual one, such as http://127.0.0.1:8000/v1')
    .addOption(new Option('--dialect <format>', 'what it speaks, if nobody knows').choices(FORMATS))
    .option(
      '--models <pattern>',
      'these models only, such as gpt-5*; NAME=SLUG has one called otherwise here (may be repeated)',
      collect,
    )
    .option('--local', 'it costs nothing')
    .option('--plan', 'show what that would make, and change nothing')
    .option('--yes', 'ask nothing: for scripts')
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
    .description('find local model servers and provider keys in the environment; read-only')
    .option('--enable', 'add the servers that are found')
    .option('--url <url>', 'check this URL instead of the default ports (repeatable)', collect)
    .addHelpText('after', toExamples('upstreams discover', 'upstreams discover --enable'))
    .action(async (flags: DiscoverFlags) => (await import('./add.ts')).discover(flags, context))
  addOldName(discovering, '--at <url>', 'url', context)
  group
    .command('list')
    .description('list all upstreams: state, breakers, deadlines, last error')
    .addHelpText('after', toExamples('upstreams list', 'upstreams list --json'))
    .action(() => list(context))
  const editing = withCredential(group.command('edit'))
    .description(
      'change an upstream, which then is an administrator’s: no file changes it. Where it moves, its key is to be given again',
    )
    .argument('<id>', 'what it is called')
    .option('--base-url <url>', 'its address')
    .option(
      '--models <pattern>',
      'ask it for its list again, and add these models, as for add (may be repeated)',
      collect,
    )
    .option('--enable', 'it may be asked again')
    .option('--disable', 'nothing is sent to it')
  for (const [name, what] of Object.entries(LIMITED))
    editing.option(`--${name} <n>`, `${what} that its provider allows; none = no limit`)
  editing
    .option('--plan', 'show what that would change, and change nothing')
    .option('--yes', 'ask nothing: for scripts')
    .addHelpText('after', toExamples('upstreams edit openai --key', "upstreams edit openai --models 'gpt-5*'"))
    .action(async (id: string, flags: EditFlags) => (await import('./add.ts')).edit(id, flags, context))
  group
    .command('remove')
    .description('delete an upstream that was added, with the models and routes that were found there')
    .argument('<id>', 'what it is called')
    .option('--plan', 'show what that would delete, and delete nothing')
    .addHelpText('after', toExamples('upstreams remove openai --plan', 'upstreams remove openai'))
    .action(async (id: string, flags: { plan?: boolean }) => (await import('./add.ts')).remove(id, flags, context))
  group
    .command('test')
    .description(
      'ask upstreams, by what costs nothing, whether they could answer now; exit 1 if one could not. A running server asks, and goes by what it finds',
    )
    .argument('[id...]', 'the ones to ask; else all that are enabled')
    .option('--call', 'make one tiny call to each that is named: paid, and on record under the key `system`')
    .option('--model <slug>', 'the model that --call asks; else the cheapest')
    .addHelpText('after', toExamples('upstreams test', 'upstreams test openai --call'))
    .action(async (ids: string[], { call: isCall, model }: { call?: boolean; model?: string }) => {
      if (isCall) return call(ids, model, context)
      if (model !== undefined) throw usageError('--model is for --call alone: without it nothing is asked of a model.')
      return test(ids, context)
    })
  group
    .command('start')
    .description('start the model server of an upstream that the running server has, and wait until it is ready')
    .argument('<id>', 'what it is called')
    .addHelpText('after', toExamples('upstreams start gemma', 'upstreams start gemma --json'))
    .action((id: string) => drive(id, 'start', context))
  group
    .command('stop')
    .description('stop the model server of an upstream once its answers have ended; the next request starts it again')
    .argument('<id>', 'what it is called')
    .option('--now', 'at once, where it hangs; its answers break off')
    .addHelpText('after', toExamples('upstreams stop gemma', 'upstreams stop gemma --now'))
    .action((id: string, { now }: { now?: boolean }) => drive(id, now ? 'stop now' : 'stop', context))
  group
    .command('logs')
    .description('print the end of what the model server of an upstream has written')
    .argument('<id>', 'what it is called')
    .option('--lines <n>', 'how many lines', '100')
    .addHelpText('after', toExamples('upstreams logs gemma', 'upstreams logs gemma --lines 1000'))
    .action((id: string, { lines }: { lines: string }) => logs(id, lines, context))
}

const FORMATS = DIALECTS.filter((dialect) => !isBuiltIn({ dialect }))

const withCredential = (command: Command) =>
  command
    .option('--key-env <variable>', 'the variable of the server’s environment that has its key')
    .option('--key-stdin', 'its key is piped in, and stored sealed')
    .option('--key', 'its key is asked for, and stored sealed')
    .option('--no-key', 'it needs none')

const read = async ({ api }: AdminClient): Promise<ShownUpstream[]> => (await answerOf(api.upstreams.get())).upstreams

async function list(io: Context): Promise<void> {
  const { rows, found } = await withAdmin(io, { readonly: true }, async (admin) => ({
    rows: await read(admin),
    found: admin.found,
  }))
  if (io.json) return printJson(io, { upstreams: rows, server: toServer(found) })
  noteServer(found, io, 'This is what the database and this environment say.')
  if (rows.length === 0)
    return io.stderr('There are no upstreams yet. Add one: tollgate upstreams add, upstreams discover\n')
  io.stdout(toUpstreamTable(rows, io.nowMs(), io.paint))
}

export async function test(ids: readonly string[], io: Context): Promise<void> {
  const { results, found } = await withAdmin(io, { readonly: true }, async (admin) => {
    const chosen = choose(ids, await read(admin))
    if (!io.json) noteServer(admin.found, io, 'Asking from here, with the credentials of this environment.')
    const ask = ({ id }: ShownUpstream): Promise<UpstreamTest> => answerOf(admin.api.upstreams({ id }).test.post())
    return { results: await Promise.all(chosen.map(ask)), found: admin.found }
  })
  if (io.json) printJson(io, { upstreams: results, server: toServer(found) })
  else if (results.length === 0) io.stderr('There is no upstream to ask.\n')
  else {
    const notes = results.map(({ reason }) => [toPrintable((reason && toAdvice(reason)) ?? '')])
    io.stdout(toDescribedTable(['ID', 'STATE', 'MS', 'WHAT CAME'], results.map(toCells), notes, io.paint))
  }
  const failed = results.filter((result) => !answers(result))
  for (const { id, reason } of results.filter((result) => answers(result) && result.reason !== null))
    io.stderr(`warning: ${toPrintable(`${id} answers, but not with each of its credentials: ${reason}`)}\n`)
  if (failed.length > 0)
    throw new CommandError('upstreams_failed', `${failed.length} of ${results.length} could not answer.`)
}

/** What the documents say of the server: all but its upstreams, which have a list of their own. */
function toServer(found: ServerLookup): Omit<Status, 'upstreams'> | null {
  if (found.kind !== 'server') return null
  const { upstreams: _, ...server } = found.status
  return server
}

/** Those of these ids, or all that are enabled. Refuses an id that cannot be asked. */
function choose(ids: readonly string[], rows: readonly ShownUpstream[]): ShownUpstream[] {
  if (ids.length === 0) return rows.filter(({ enabled }) => enabled)
  return [...new Set(ids)].map((id) => {
    const found = rows.find((row) => row.id === id)
    if (found?.enabled) return found
    if (found)
      throw new CommandError('upstream_disabled', `The upstream ${toPrintable(id)} is disabled: nothing is sent to it.`)
    const names = rows.map((row) => row.id).join(', ')
    throw new CommandError(
      'unknown_upstream',
      `There is no upstream ${toPrintable(id)}. There are: ${names || 'none'}.`,
    )
  })
}

const answers = ({ state }: UpstreamTest) => state === 'ready' || state === 'unknown'

const toCells = (result: UpstreamTest) => [
  toPrintable(result.id),
  result.state.replace('_', ' '),
  result.ms === null ? '-' : String(result.ms),
  toMessage(result),
]

function toMessage({ state, reason }: UpstreamTest): string {
  if (state === 'ready') return 'answers'
  if (state === 'unknown') return 'answers, but not to a request that costs nothing'
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
  else if (isDone) io.stdout(`${name}: stopped, and ${state} again for requests that wait.\n`)
  if (isDone) return
  const why = reason === null ? `it is ${state}` : toPrintable(reason)
  throw new CommandError('server_failed', `The model server of ${name} could not be started: ${why}.`)
}

async function logs(id: string, lines: string, io: Context): Promise<void> {
  const most = Number(lines)
  if (!Number.isInteger(most) || most < 1) throw usageError('--lines is a number from 1 on.')
  // What is no upstream's name could be the path of another file.
  const path = /^[a-z0-9][a-z0-9._-]*$/.test(id) ? logOf(io.dataFolder, id) : null
  const texts = path === null ? [] : await Promise.all([`${path}.1`, path].map(readLog))
  const text = texts.join('')
  if (text === '')
    throw new CommandError(
      'no_log',
      `There is no log of a model server of ${toPrintable(id)}: none was started here yet.`,
    )
  const written = text.trimEnd().split('\n').slice(-most)
  if (io.json) return printJson(io, { id, lines: written })
  io.stdout(`${written.map(toPrintable).join('\n')}\n`)
}

/** '' where there is none. */
async function readLog(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return ''
    throw new CommandError('log_unreadable', `The log ${path} cannot be read (${codeOf(error) || 'unknown reason'}).`)
  }
}

/** What such a call has come to. */
interface Called {
  id: string
  state: 'ready' | 'failed'
  /** Why it failed, and what to do. */
  reason: string | null
  advice: string | null
  ms: number | null
  model: string | null
  request_id: string | null
  cost_nano_usd: number | null
}

/** Enough for a word or two. */
const MAX_TOKENS = 16

async function call(ids: readonly string[], model: string | undefined, io: Context): Promise<void> {
  if (ids.length === 0) throw usageError('A call costs something: name the upstreams that --call is to ask.')
  const found = await findServer(io.dataFolder)
  if (found.kind === 'silent') throw new CommandError('server_silent', `The server cannot be asked: ${found.why}.`)
  if (found.kind === 'none')
    throw new CommandError(
      'no_server',
      `No server runs on ${io.dataFolder}, and only one keeps the record of a call. Start it with: tollgate serve --data ${io.dataFolder}`,
    )
  const results: Called[] = []
  for (const id of new Set(ids)) results.push(await callOne(id, model, io))
  if (io.json) printJson(io, { upstreams: results })
  else io.stdout(toText(results, io))
  const failed = results.filter(({ state }) => state === 'failed')
  if (failed.length > 0)
    throw new CommandError('upstreams_failed', `${failed.length} of ${results.length} could not answer.`)
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
    return failed('no model has a route to an upstream of this name that is enabled: tollgate upstreams list', null)
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

/** What clients are told says less than what the server knows. */
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
  reason ?? `answers; ${requestId}, ${cost === 0 ? 'free' : `$${toUsd(cost ?? 0)}`}`
