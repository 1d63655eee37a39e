/** `tollgate upstreams add | edit | remove | discover`. */
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
import {
  type DecideFlags,
  requireDecided,
  requireYes,
  toCountText,
  toPlanText,
  toWriteLines,
} from '../catalog-changes.ts'
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
  if (flags.models?.includes('')) throw usageError('--models is empty. Pass a name or a pattern, e.g. gpt-5*.')
  const known = await loadKnown()
  const provider = toProvider(known, name, flags)
  const upstream = toNewUpstream(provider, flags)
  const title = provider?.name ?? upstream.id
  const plan = flags.plan === true
  // Before prompting or calling the provider.
  const { upstreams } = await withAdmin(io, { readonly: plan }, ({ api }) => answerOf(api.upstreams.get()))
  requireNewUpstream({ upstreams }, toUpstreamRow(upstream, null, io.nowMs()))
  const credential = await toCredential(provider, title, flags, upstream.local, io)
  const row = toUpstreamRow(upstream, credential, io.nowMs())
  const opened = credential !== null && 'credential' in credential ? [credential] : undefined
  const asked = toUpstream(row, io.environment, 'here', opened)
  if (asked.notReady !== null)
    throw new CommandError('no_credential', `Can't use ${title}: ${asked.notReady}. No changes made.`)
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
  if (flags.plan) return io.stdout(`Preview of adding ${upstream.id}: ${toPlanText(planned)}. No changes made.\n`)
  if (!flags.yes) await requireYes('Add this?', io)
  const { told: added, shown, found } = await send(false)
  if (io.json) print(added)
  else io.stdout(toDone(upstream.id, added))
  warnOfServer(shown, found, io)
}

function toProvider(known: KnownProviders, name: string | undefined, { baseUrl }: AddFlags): Provider | null {
  if (name !== undefined) return findProvider(known, name)
  if (baseUrl !== undefined) return findByAddress(known, baseUrl)
  throw usageError('Pass a provider, e.g. openai, or its URL: --base-url https://…/v1')
}

function toNewUpstream(provider: Provider | null, flags: AddFlags) {
  const id = flags.name ?? provider?.id
  if (id === undefined) throw usageError('--name is missing. Pass a name for the upstream, e.g. --name lab.')
  const own = flags.baseUrl?.replace(/\/+$/, '') ?? null
  if (own === null && provider?.baseUrl === null)
    throw usageError(`${provider.name} needs your own URL. Pass it: --base-url ${provider.example}`)
  const dialect = flags.dialect ?? provider?.dialect ?? USUAL_DIALECT
  const options = dialect === provider?.dialect ? provider.options : {}
  // Without a URL, it follows the preset.
  const baseUrl = own ?? (options.preset === undefined ? (provider?.baseUrl ?? null) : null)
  return { id, dialect, baseUrl, local: flags.local === true || provider?.local === true, options }
}

/** Options, else the provider's usual variable, else a prompt. */
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

const MAX_UNPRICED = 20

interface Found extends Changes {
  fresh: string[]
  further: string[]
  unpriced: string[]
  left_out: number
  notes: string[]
}

function tellFound({ notes, unpriced, left_out: others }: Found, io: Context): void {
  for (const note of notes) io.stderr(`note: ${toPrintable(note)}\n`)
  if (others > 0)
    io.stderr(
      `note: skipped ${count(others, 'model')} without chat or another endpoint with a known price. Add one with --models NAME.\n`,
    )
  if (unpriced.length > 0)
    io.stderr(
      `note: disabled until priced: ${toNames(unpriced.map(toPrintable), MAX_UNPRICED)}. Run \`tollgate catalog refresh\` or set prices in the dashboard.\n`,
    )
}

function toDone(id: string, { fresh, further, unpriced }: Found): string {
  const priced = [...fresh.filter((slug) => !unpriced.includes(slug)), ...further]
  const [first] = priced
  const what = `${count(priced.length, 'model')}${unpriced.length > 0 ? ` and ${unpriced.length} unpriced` : ''}`
  const example = first === undefined ? '' : `Try it: tollgate ask --model ${first} Hello\n`
  return `Added ${id} with ${what}. Undo: tollgate upstreams remove ${id}\n${example}`
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
  if (plan && flags.yes) throw usageError('Pass either --plan or --yes, not both.')
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
    throw usageError('Nothing to change. See the options: tollgate upstreams edit --help')
  if (isChanged && patterns !== undefined)
    throw usageError("--models can't be combined with other changes. Run them separately.")
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
  if (changes.length === 0) return `No changes to ${id}.`
  if (planned) return `Preview: ${toPlanText(edited)}. To apply, run without --plan.`
  const back = version !== null && version > 1 ? ` Undo: tollgate catalog revert ${version - 1}` : ''
  return `${toCountText(edited)}.${back}`
}

const toSaid = (credential: { variable: string } | { credential: string }): UpstreamChanges =>
  'variable' in credential ? credential : { apiKey: credential.credential }

function toEnabled({ enable, disable }: EditFlags): boolean | undefined {
  if (enable && disable) throw usageError('Pass either --enable or --disable, not both.')
  return enable ? true : disable ? false : undefined
}

function toLimits(flags: EditFlags): UpstreamChanges['limits'] {
  const given = LIMIT_NAMES.flatMap((name) => {
    const text = flags[name]
    return text === undefined ? [] : [[name, text === 'none' ? null : toCount(`--${name}`, text)]]
  })
  return given.length === 0 ? undefined : Object.fromEntries(given)
}

async function addMore(id: string, patterns: string[], { plan = false, yes = false }: EditFlags, io: Context) {
  const send = (isPlan: boolean) =>
    withAdmin(io, { readonly: isPlan }, ({ api }) =>
      answerOf(api.upstreams(idOf(id)).models.post({ models: patterns }, { query: { plan: isPlan } })),
    )
  if (plan || !yes) {
    const planned = await send(true)
    if (!io.json) tellFound(planned, io)
    if (plan) return tell(id, planned, io)
    // These also move requests for existing models.
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
      const how = upstream === null ? (enable ? '' : `add it: ${toCommand(server)}`) : `already added as ${upstream}`
      io.stdout(`${toPrintable(name)} at ${toPrintable(baseUrl)}${how && `: ${toPrintable(how)}`}\n`)
    }
    for (const { preset, variable } of providers)
      io.stdout(`${variable} is set. Add the provider: tollgate upstreams add ${preset}\n`)
    if (!enable && fresh.length > 1) io.stdout('Add all local servers: tollgate upstreams discover --enable\n')
  }
  if (failed.length > 0)
    throw new CommandError('upstreams_failed', `Couldn't add ${count(failed.length, 'server')}: ${failed.join(' ')}`)
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

/** For the first start. Never throws. */
export async function enableAtStart(io: Context, log: Log): Promise<void> {
  try {
    const { servers } = await lookAround(io)
    const { added, failed } = await enableAll(servers.filter(isFresh), io)
    for (const upstream of added) log.info('upstream_discovered', 'local model server added', { upstream })
    for (const reason of failed) log.warn('upstream_discovered', 'could not add a local model server', { reason })
  } catch (error) {
    log.warn('upstream_discovered', 'could not search for local model servers', { error: String(error) })
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

function warnOfServer(upstream: ShownUpstream | null, { kind }: ServerLookup, io: Context): void {
  if (kind !== 'server' || upstream?.credential?.status !== 'not_set') return
  const why = toOneLine(upstream.reason ?? 'missing credential')
  io.stderr(
    `note: the running server can't use ${upstream.id}: ${why}. Restart it with the variable, or store the key: tollgate upstreams edit ${upstream.id} --key\n`,
  )
}
