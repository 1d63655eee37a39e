/**
 * `tollgate upstreams add | edit | remove | discover`: a provider by its name or its address, its credential, and the models that it lists, with
 * what is known of them; and which model servers answer on this machine. What would be made is shown first. Work beside a running server, which
 * uses a change when the command returns.
 */
import { type NewCredential, requireNewUpstream, toUpstreamRow } from '../../catalog/add-upstream.ts'
import type { Changes } from '../../catalog/change.ts'
import { toNames } from '../../catalog/discover.ts'
import type { UpstreamChanges } from '../../catalog/edit-upstream.ts'
import { type KnownProviders, loadKnown } from '../../catalog/known.ts'
import { findByAddress, findModels, findProvider, isAtUsual, type Provider } from '../../catalog/providers.ts'
import type { ShownFoundServer, ShownUpstream } from '../../documents/upstream.ts'
import { toDefined } from '../../domain/changes.ts'
import { type DialectName, USUAL_DIALECT } from '../../domain/dialects.ts'
import { LIMIT_NAMES, type LimitName } from '../../domain/limits.ts'
import { ServiceError } from '../../domain/service-error.ts'
import { count } from '../../domain/text.ts'
import type { Log } from '../../log.ts'
import { listModels } from '../../server/outward/questions.ts'
import { toUpstream } from '../../store/upstream.ts'
import { answerOf, idOf, withAdmin } from '../admin-client.ts'
import { type DecideFlags, requireDecided, requireYes, toCountText, toWriteLines } from '../catalog-changes.ts'
import { CommandError, usageError } from '../command-error.ts'
import type { ServerLookup } from '../control-client.ts'
import { type Context, printJson, toOneLine, toPrintable } from '../io.ts'
import { askCredential, type CredentialFlags, readCredential } from '../secret.ts'
import { toCount } from '../values.ts'

export interface AddFlags extends CredentialFlags, DecideFlags {
  name?: string
  baseUrl?: string
  dialect?: DialectName
  models?: string[]
  local?: boolean
}

export async function add(name: string | undefined, flags: AddFlags, io: Context): Promise<void> {
  requireDecided(flags, io)
  if (flags.models?.includes('')) throw usageError('--models is empty: write a name, or a pattern such as gpt-5*.')
  const known = await loadKnown()
  const provider = toProvider(known, name, flags)
  const upstream = toNewUpstream(provider, flags)
  const title = provider?.name ?? upstream.id
  const plan = flags.plan === true
  // Before anybody types a key, or is asked for a list.
  const { upstreams } = await withAdmin(io, { readonly: plan }, ({ api }) => answerOf(api.upstreams.get()))
  requireNewUpstream({ upstreams }, toUpstreamRow(upstream, null, io.nowMs()))
  const credential = await toCredential(provider, title, flags, upstream.local, io)
  const row = toUpstreamRow(upstream, credential, io.nowMs())
  const opened = credential !== null && 'credential' in credential ? [credential] : undefined
  const asked = toUpstream(row, io.environment, 'here', opened)
  if (asked.notReady !== null)
    throw new CommandError('no_credential', `${title} cannot be asked: ${asked.notReady}. Nothing was changed.`)
  const { models, others, notes } = await findModels(asked, {
    provider,
    vendor: provider?.vendor ?? upstream.id,
    known,
    patterns: flags.models ?? [],
    ask: () => listModels(asked),
  })
  const send = (isPlan: boolean) =>
    withAdmin(io, { readonly: isPlan }, async ({ operator, found }) => {
      const { upstream: shown, ...told } = await answerOf(
        operator.upstreams.post({ upstream, credential, models, plan: isPlan }),
      )
      return { told: { ...told, left_out: others, notes: [...notes, ...told.notes] }, shown, found }
    })
  const print = (told: Found) =>
    printJson(io, { ...told, upstream: upstream.id, models: models.map(({ slug }) => slug) })
  const { told: planned } = await send(true)
  if (flags.plan && io.json) return print(planned)
  if (!io.json) {
    io.stdout(toWriteLines(planned, io.paint))
    tellFound(planned, io)
  }
  if (flags.plan) return io.stdout(`${upstream.id} would be added: ${toCountText(planned)}. Nothing is changed yet.\n`)
  if (!flags.yes) await requireYes('Add this?', io)
  const { told: added, shown, found } = await send(false)
  if (io.json) print(added)
  else io.stdout(toDone(upstream.id, added))
  warnOfServer(shown, found, io)
}

function toProvider(known: KnownProviders, name: string | undefined, { baseUrl }: AddFlags): Provider | null {
  if (name !== undefined) return findProvider(known, name)
  if (baseUrl !== undefined) return findByAddress(known, baseUrl)
  throw usageError('Name a provider, such as openai, or the address of one with --base-url https://…/v1.')
}

function toNewUpstream(provider: Provider | null, flags: AddFlags) {
  const id = flags.name ?? provider?.id
  if (id === undefined) throw usageError('--name is missing: what the upstream is to be called, such as lab.')
  const own = flags.baseUrl?.replace(/\/+$/, '') ?? null
  if (own === null && provider?.baseUrl === null)
    throw usageError(
      `${provider.name} is at another address for each customer: write yours as --base-url, such as ${provider.example}.`,
    )
  const dialect = flags.dialect ?? provider?.dialect ?? USUAL_DIALECT
  const options = dialect === provider?.dialect ? provider.options : {}
  // Where its preset says it, it stays as that does.
  const baseUrl = own ?? (options.preset === undefined ? (provider?.baseUrl ?? null) : null)
  return { id, dialect, baseUrl, local: flags.local === true || provider?.local === true, options }
}

/** What was said, else the usual variable, where that is set, else what is typed in. */
async function toCredential(
  provider: Provider | null,
  title: string,
  flags: AddFlags,
  isLocal: boolean,
  io: Context,
): Promise<NewCredential> {
  const said = await readCredential(flags, title, io)
  if (said !== undefined) return said
  const variables = provider?.variables ?? []
  const variable = variables.find((one) => io.environment[one])
  if (variable !== undefined) return { variable }
  return isLocal ? null : { credential: await askCredential(title, io, variables) }
}

/** More are for `models list --all`. */
const MAX_UNPRICED = 20

/** What the API tells of models that were found. */
interface Found extends Changes {
  fresh: string[]
  further: string[]
  unpriced: string[]
  left_out: number
  notes: string[]
}

/** What the lines of a plan do not say. */
function tellFound({ notes, unpriced, left_out: others }: Found, io: Context): void {
  for (const note of notes) io.stderr(`note: ${toPrintable(note)}\n`)
  if (others > 0)
    io.stderr(
      `note: ${others} of its models ${others === 1 ? 'is' : 'are'} left out, which neither chat nor make embeddings at a known price. Name one with --models to have it.\n`,
    )
  if (unpriced.length > 0)
    io.stderr(
      `note: unpriced, and so disabled until ${unpriced.length === 1 ? 'it has a price' : 'they have prices'}: ${toNames(unpriced.map(toPrintable), MAX_UNPRICED)}. Ask for newer prices with: tollgate catalog refresh. Or give one in the dashboard.\n`,
    )
}

function toDone(id: string, { fresh, further, unpriced }: Found): string {
  const priced = [...fresh.filter((slug) => !unpriced.includes(slug)), ...further]
  const [first] = priced
  const what = `${count(priced.length, 'model')}${unpriced.length > 0 ? ` and ${unpriced.length} unpriced` : ''}`
  const example = first === undefined ? '' : `Try it: tollgate ask --model ${first} Hello\n`
  return `${id} is added, with ${what}. Back with: tollgate upstreams remove ${id}\n${example}`
}

export interface EditFlags extends CredentialFlags, Partial<Record<LimitName, string>> {
  baseUrl?: string
  models?: string[]
  enable?: boolean
  disable?: boolean
  plan?: boolean
  yes?: boolean
}

export async function edit(id: string, flags: EditFlags, io: Context): Promise<void> {
  const plan = flags.plan === true
  if (plan && flags.yes) throw usageError('--plan changes nothing, and --yes does: say one of them.')
  // Before anybody types a key.
  await withAdmin(io, { readonly: plan }, ({ api }) => answerOf(api.upstreams(idOf(id)).get()))
  const credential = await readCredential(flags, id, io)
  const changes: UpstreamChanges = toDefined({
    baseUrl: flags.baseUrl,
    enabled: toEnabled(flags),
    limits: toLimits(flags),
    ...(credential === null ? { apiKey: null } : credential && toSaid(credential)),
  })
  const { models: patterns } = flags
  const isChanged = Object.keys(changes).length > 0
  if (!isChanged && patterns === undefined)
    throw usageError('Nothing to change is named. See what can be: tollgate upstreams edit --help')
  if (isChanged && patterns !== undefined)
    throw usageError('--models asks for more models, and is said alone: change the rest first.')
  if (patterns !== undefined) return addMore(id, patterns, flags, io)
  const { edited, found } = await withAdmin(io, { readonly: plan }, async ({ operator, found }) => ({
    edited: await answerOf(operator.upstreams(idOf(id)).patch({ plan, changes })),
    found,
  }))
  tell(id, edited, io)
  if (!plan) warnOfServer(edited.upstream, found, io)
}

export async function remove(id: string, { plan = false }: { plan?: boolean }, io: Context): Promise<void> {
  const removed = await withAdmin(io, { readonly: plan }, ({ api }) =>
    answerOf(api.upstreams(idOf(id)).delete(undefined, { query: { plan } })),
  )
  tell(id, removed, io)
}

interface Edited extends Changes {
  planned: boolean
  version: number | null
}

function tell(id: string, edited: Edited, io: Context): void {
  if (io.json) printJson(io, { ...edited, upstream: id })
  else io.stdout(`${toWriteLines(edited, io.paint)}${toClosing(id, edited)}\n`)
}

function toClosing(id: string, edited: Edited): string {
  const { changes, version, planned } = edited
  if (changes.length === 0) return `${id}: nothing to change.`
  if (planned) return `That would make: ${toCountText(edited)}. Nothing is changed yet.`
  const back = version !== null && version > 1 ? ` Back with: tollgate catalog revert ${version - 1}` : ''
  return `${toCountText(edited)}.${back}`
}

const toSaid = (credential: { variable: string } | { credential: string }): UpstreamChanges =>
  'variable' in credential ? credential : { apiKey: credential.credential }

function toEnabled({ enable, disable }: EditFlags): boolean | undefined {
  if (enable && disable) throw usageError('Say --enable or --disable.')
  return enable ? true : disable ? false : undefined
}

function toLimits(flags: EditFlags): UpstreamChanges['limits'] {
  const given = LIMIT_NAMES.flatMap((name) => {
    const text = flags[name]
    return text === undefined ? [] : [[name, text === 'none' ? null : toCount(`--${name}`, text)]]
  })
  return given.length === 0 ? undefined : Object.fromEntries(given)
}

/** Has the provider asked for its list again, and adds what fits and is not there. */
async function addMore(id: string, patterns: string[], { plan = false, yes = false }: EditFlags, io: Context) {
  const send = (isPlan: boolean) =>
    withAdmin(io, { readonly: isPlan }, ({ api }) =>
      answerOf(api.upstreams(idOf(id)).models.post({ models: patterns }, { query: { plan: isPlan } })),
    )
  if (plan || !yes) {
    const planned = await send(true)
    if (!io.json) tellFound(planned, io)
    if (plan) return tell(id, planned, io)
    // Requests for models that others serve would go there, too.
    if (planned.further.length > 0) await requireYes('Add these routes?', io)
  }
  const added = await send(false)
  if (yes && !io.json) tellFound(added, io)
  tell(id, added, io)
}

export interface DiscoverFlags {
  enable?: boolean
  url?: string[]
}

export async function discover({ enable = false, url }: DiscoverFlags, io: Context): Promise<void> {
  const { servers, providers } = await lookAround(io, url)
  const fresh = servers.filter(isFresh)
  const { added, failed } = enable ? await enableAll(fresh, io) : { added: [], failed: [] }
  if (io.json) printJson(io, { servers, providers, added })
  else if (servers.length + providers.length === 0) io.stderr('No local model servers or provider keys found.\n')
  else {
    for (const server of servers) {
      const { name, base_url: baseUrl, upstream } = server
      const how = upstream === null ? (enable ? '' : `add it with: ${toCommand(server)}`) : `it is ${upstream} here`
      io.stdout(`${toPrintable(name)} at ${toPrintable(baseUrl)}${how && `: ${toPrintable(how)}`}\n`)
    }
    for (const { preset, variable } of providers)
      io.stdout(`${variable} is set: add it with: tollgate upstreams add ${preset}\n`)
    if (!enable && fresh.length > 1) io.stdout('All of this machine with: tollgate upstreams discover --enable\n')
  }
  if (failed.length > 0)
    throw new CommandError(
      'upstreams_failed',
      `${count(failed.length, 'server')} could not be added: ${failed.join(' ')}`,
    )
}

const lookAround = (io: Context, at?: string[]) =>
  withAdmin(io, { readonly: true }, ({ operator }) =>
    answerOf(
      operator.upstreams.discover.post({
        at,
        variables: Object.keys(io.environment).filter((name) => io.environment[name]),
      }),
    ),
  )

/** Adds what is found on this machine, where nothing is there yet: for a server that has just begun to serve. Never throws. */
export async function enableAtStart(io: Context, log: Log): Promise<void> {
  try {
    const { servers } = await lookAround(io)
    const { added, failed } = await enableAll(servers.filter(isFresh), io)
    for (const upstream of added)
      log.info('upstream_discovered', 'a model server of this machine is added', { upstream })
    for (const reason of failed) log.warn('upstream_discovered', 'a model server could not be added', { reason })
  } catch (error) {
    log.warn('upstream_discovered', 'nobody could look for model servers of this machine', { error: String(error) })
  }
}

const isFresh = ({ upstream }: ShownFoundServer) => upstream === null

async function enableAll(servers: readonly ShownFoundServer[], io: Context) {
  const added: string[] = []
  const failed: string[] = []
  const quiet: Context = { ...io, json: false, stdout() {}, stderr() {} }
  for (const server of servers) {
    const { preset, base_url: baseUrl, id } = server
    try {
      await add(
        preset,
        { name: id, ...(isAtUsual({ preset, baseUrl }) ? {} : { baseUrl }), yes: true, key: false },
        quiet,
      )
      added.push(id)
    } catch (error) {
      if (!(error instanceof ServiceError || error instanceof CommandError)) throw error
      failed.push(toPrintable(`${preset}: ${error.message}`))
    }
  }
  return { added, failed }
}

const toCommand = ({ preset, base_url: baseUrl }: ShownFoundServer) =>
  `tollgate upstreams add ${preset}${isAtUsual({ preset, baseUrl }) ? '' : ` --base-url ${baseUrl}`}`

/** Says on standard error where the server cannot use the upstream yet, and what to do. */
function warnOfServer(upstream: ShownUpstream | null, { kind }: ServerLookup, io: Context): void {
  if (kind !== 'server' || upstream?.credential?.status !== 'not_set') return
  const why = toOneLine(upstream.reason ?? 'it lacks its credential')
  io.stderr(
    `note: the running server cannot use ${upstream.id}: ${why}. Start it anew with that, or have the key stored: tollgate upstreams edit ${upstream.id} --key\n`,
  )
}
