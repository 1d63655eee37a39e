/**
 * `tollgate upstreams add | edit | remove | discover`: a provider by its name or its address, its credential, and the models that it lists, with
 * what is known of them; and which model servers answer on this machine. What would be made is shown first. Work beside a running server, which
 * uses a change when the command returns.
 */
import {
  type Added,
  addModels,
  addUpstream,
  type NewCredential,
  requireNewUpstream,
  toUpstreamRow,
} from '../../catalog/add-upstream.ts'
import type { Edited } from '../../catalog/change.ts'
import { type Discovered, toNames } from '../../catalog/discover.ts'
import { findUpstream } from '../../catalog/edit.ts'
import { deleteUpstream, editUpstream, type UpstreamChanges } from '../../catalog/edit-upstream.ts'
import { type KnownProviders, loadKnown } from '../../catalog/known.ts'
import {
  type FoundServer,
  findByAddress,
  findModels,
  findMore,
  findProvider,
  findProviders,
  isAtUsual,
  type Provider,
  toFoundServers,
} from '../../catalog/providers.ts'
import { toEditDocument } from '../../documents/catalog.ts'
import { toFoundDocument } from '../../documents/upstream.ts'
import { toDefined } from '../../domain/changes.ts'
import { type DialectName, USUAL_DIALECT } from '../../domain/dialects.ts'
import { ServiceError } from '../../domain/service-error.ts'
import { count } from '../../domain/text.ts'
import type { Log } from '../../log.ts'
import { findLocalServers, listModels } from '../../server/outward/questions.ts'
import { toUpstream } from '../../store/upstream.ts'
import { createVault, openStored } from '../../store/vault.ts'
import { type DecideFlags, requireDecided, requireYes, toCountText, toWriteLines } from '../catalog-changes.ts'
import { CommandError, usageError } from '../command-error.ts'
import { findServer } from '../control-client.ts'
import { type Context, printJson, toOneLine, toPrintable, withStore } from '../io.ts'
import { askCredential, type CredentialFlags, readCredential, requireSecret } from '../secret.ts'
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
  // Before anybody types a key, or is asked for a list.
  await withStore(io, { readonly: true }, async (store) =>
    requireNewUpstream(await store.readCatalog(), toUpstreamRow(upstream, null, io.nowMs())),
  )
  const credential = await toCredential(provider, title, flags, upstream.local, io)
  if (credential !== null && 'credential' in credential) await requireSecret(io)
  const row = toUpstreamRow(upstream, credential, io.nowMs())
  const opened = credential !== null && 'credential' in credential ? [credential] : undefined
  const asked = toUpstream(row, io.environment, 'here', opened)
  if (asked.notReady !== null)
    throw new CommandError('no_credential', `${title} cannot be asked: ${asked.notReady}. Nothing was changed.`)
  const found = await findModels(asked, {
    provider,
    vendor: provider?.vendor ?? upstream.id,
    known,
    patterns: flags.models ?? [],
    ask: () => listModels(asked),
  })
  const wanted = { upstream, credential, models: found.models }
  const by = { actor: 'cli', nowMs: io.nowMs() }
  const vault = createVault(io.dataFolder, io.environment)
  const planned = await withStore(io, { readonly: true }, (store) =>
    addUpstream({ store, vault }, wanted, { ...by, isPlan: true }),
  )
  if (flags.plan && io.json) return printJson(io, { planned: true, ...toDocument(upstream.id, planned, found) })
  if (!io.json) {
    io.stdout(toWriteLines(planned, io.paint))
    tellFound(planned, found, io)
  }
  if (flags.plan) return io.stdout(`${upstream.id} would be added: ${toCountText(planned)}. Nothing is changed yet.\n`)
  if (!flags.yes) await requireYes('Add this?', io)
  const added = await withStore(io, {}, (store) => addUpstream({ store, vault }, wanted, by))
  if (io.json) printJson(io, { planned: false, ...toDocument(upstream.id, added, found) })
  else io.stdout(toDone(upstream.id, added))
  await warnOfServer(upstream.id, io)
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
const MOST_UNPRICED = 20

/** What the lines of a plan do not say. */
function tellFound(added: Added, { notes, others }: Discovered, io: Context): void {
  const { unpriced } = added
  for (const note of [...notes, ...added.notes]) io.stderr(`note: ${toPrintable(note)}\n`)
  if (others > 0)
    io.stderr(
      `note: ${others} of its models ${others === 1 ? 'is' : 'are'} left out, which neither chat nor make embeddings at a known price. Name one with --models to have it.\n`,
    )
  if (unpriced.length > 0)
    io.stderr(
      `note: unpriced, and so disabled until ${unpriced.length === 1 ? 'it has a price' : 'they have prices'}: ${toNames(unpriced.map(toPrintable), MOST_UNPRICED)}. Ask for newer prices with: tollgate catalog refresh. Or give one in the dashboard.\n`,
    )
}

const toDocument = (id: string, added: Added, { models, others, notes }: Discovered) => ({
  upstream: id,
  ...toEditDocument(added),
  models: models.map(({ slug }) => slug),
  left_out: others,
  notes: [...notes, ...added.notes],
})

function toDone(id: string, { fresh, further, unpriced }: Added): string {
  const priced = [...fresh.filter((slug) => !unpriced.includes(slug)), ...further]
  const [first] = priced
  const what = `${count(priced.length, 'model')}${unpriced.length > 0 ? ` and ${unpriced.length} unpriced` : ''}`
  const example = first === undefined ? '' : `Try it: tollgate ask --model ${first} Hello\n`
  return `${id} is added, with ${what}. Back with: tollgate upstreams remove ${id}\n${example}`
}

export interface EditFlags extends CredentialFlags {
  baseUrl?: string
  models?: string[]
  enable?: boolean
  disable?: boolean
  rpm?: string
  tpm?: string
  concurrency?: string
  plan?: boolean
  yes?: boolean
}

export async function edit(id: string, flags: EditFlags, io: Context): Promise<void> {
  const plan = flags.plan === true
  if (plan && flags.yes) throw usageError('--plan changes nothing, and --yes does: say one of them.')
  // Before anybody types a key.
  await withStore(io, { readonly: true }, async (store) => void findUpstream(await store.readCatalog(), id))
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
  if (credential && 'credential' in credential) await requireSecret(io)
  const by = { actor: 'cli', nowMs: io.nowMs(), isPlan: plan }
  const edited = await withStore(io, { readonly: plan }, (store) =>
    editUpstream({ store, vault: createVault(io.dataFolder, io.environment), lookUp: null }, id, changes, by),
  )
  tell(id, edited, plan, io)
  if (!plan) await warnOfServer(id, io)
}

export async function remove(id: string, { plan = false }: { plan?: boolean }, io: Context): Promise<void> {
  const by = { actor: 'cli', nowMs: io.nowMs(), isPlan: plan }
  const removed = await withStore(io, { readonly: plan }, (store) => deleteUpstream(store, id, by))
  tell(id, removed, plan, io)
}

function tell(id: string, edited: Edited, plan: boolean, io: Context): void {
  if (io.json) printJson(io, { planned: plan, upstream: id, ...toEditDocument(edited) })
  else io.stdout(`${toWriteLines(edited, io.paint)}${toClosing(id, edited, plan)}\n`)
}

function toClosing(id: string, edited: Edited, plan: boolean): string {
  const { changes, version } = edited
  if (changes.length === 0) return `${id}: nothing to change.`
  if (plan) return `That would make: ${toCountText(edited)}. Nothing is changed yet.`
  const back = version !== null && version > 1 ? ` Back with: tollgate catalog revert ${version - 1}` : ''
  return `${toCountText(edited)}.${back}`
}

const toSaid = (credential: { variable: string } | { credential: string }): UpstreamChanges =>
  'variable' in credential ? credential : { apiKey: credential.credential }

function toEnabled({ enable, disable }: EditFlags): boolean | undefined {
  if (enable && disable) throw usageError('Say --enable or --disable.')
  return enable ? true : disable ? false : undefined
}

function toLimits({ rpm, tpm, concurrency }: EditFlags): UpstreamChanges['limits'] {
  const given = Object.entries({ rpm, tpm, concurrency }).filter(([, text]) => text !== undefined)
  if (given.length === 0) return undefined
  return Object.fromEntries(
    given.map(([name, text = '']) => [name, text === 'none' ? null : toCount(`--${name}`, text)]),
  )
}

/** Asks the provider for its list again, and adds what fits and is not there. */
async function addMore(id: string, patterns: string[], { plan = false, yes }: EditFlags, io: Context): Promise<void> {
  const { row, asked } = await withStore(io, { readonly: true }, async (store) => {
    const row = findUpstream(await store.readCatalog(), id)
    const opened = await openStored(store, io.dataFolder, io.environment)
    return { row, asked: toUpstream(row, io.environment, 'here', opened.get(id)) }
  })
  if (asked.notReady !== null) throw new CommandError('no_credential', `${id} cannot be asked: ${asked.notReady}.`)
  const found = await findMore(row, { patterns, ask: () => listModels(asked) })
  const by = { actor: 'cli', nowMs: io.nowMs() }
  const planned = await withStore(io, { readonly: true }, (store) =>
    addModels(store, id, found.models, { ...by, isPlan: true }),
  )
  if (!io.json) tellFound(planned, found, io)
  if (plan) return tell(id, planned, plan, io)
  // Requests for models that others serve would go there, too.
  if (planned.further.length > 0 && !yes) await requireYes('Add these routes?', io)
  tell(id, await withStore(io, {}, (store) => addModels(store, id, found.models, by)), plan, io)
}

export interface DiscoverFlags {
  enable?: boolean
  at?: string[]
}

export async function discover({ enable = false, at }: DiscoverFlags, io: Context): Promise<void> {
  const rows = await readRows(io)
  const servers = toFoundServers(await findLocalServers(at === undefined ? {} : { at }), rows)
  const providers = findProviders(rows, (variable) => Boolean(io.environment[variable]))
  const fresh = servers.filter(isFresh)
  const { added, failed } = enable ? await enableAll(fresh, io) : { added: [], failed: [] }
  if (io.json) printJson(io, { ...toFoundDocument(servers, providers), added })
  else if (servers.length + providers.length === 0)
    io.stderr('Nothing was found: no model server at the usual ports of this machine, and no variable of a provider.\n')
  else {
    for (const server of servers) {
      const { name, baseUrl, upstream } = server
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

/** Adds what is found on this machine, where nothing is there yet: for a server that has just begun to serve. Never throws. */
export async function enableAtStart(io: Context, log: Log): Promise<void> {
  try {
    const rows = await readRows(io)
    if (rows.some(({ origin }) => origin !== 'builtin')) return
    const { added, failed } = await enableAll(toFoundServers(await findLocalServers(), rows).filter(isFresh), io)
    for (const upstream of added)
      log.info('upstream_discovered', 'a model server of this machine is added', { upstream })
    for (const reason of failed) log.warn('upstream_discovered', 'a model server could not be added', { reason })
  } catch (error) {
    log.warn('upstream_discovered', 'nobody could look for model servers of this machine', { error: String(error) })
  }
}

const readRows = (io: Context) =>
  withStore(io, { readonly: true }, async (store) => (await store.readCatalog()).upstreams)

const isFresh = ({ upstream }: FoundServer) => upstream === null

async function enableAll(servers: readonly FoundServer[], io: Context) {
  const added: string[] = []
  const failed: string[] = []
  const quiet: Context = { ...io, json: false, stdout() {}, stderr() {} }
  for (const server of servers) {
    const { preset, baseUrl, id } = server
    try {
      await add(preset, { name: id, ...(isAtUsual(server) ? {} : { baseUrl }), yes: true, key: false }, quiet)
      added.push(id)
    } catch (error) {
      if (!(error instanceof ServiceError || error instanceof CommandError)) throw error
      failed.push(toPrintable(`${preset}: ${error.message}`))
    }
  }
  return { added, failed }
}

const toCommand = (server: FoundServer) =>
  `tollgate upstreams add ${server.preset}${isAtUsual(server) ? '' : ` --base-url ${server.baseUrl}`}`

/** Says on standard error where the server cannot use the upstream yet, and what to do. */
async function warnOfServer(id: string, io: Context): Promise<void> {
  const found = await findServer(io.dataFolder)
  if (found.kind !== 'server') return
  const upstream = found.status.upstreams.find((one) => one.id === id)
  if (upstream?.credential === 'not_set')
    io.stderr(
      `note: the running server cannot use ${id}: ${toOneLine(upstream.reason ?? 'it lacks its credential')}. Start it anew with that, or have the key stored: tollgate upstreams edit ${id} --key\n`,
    )
}
