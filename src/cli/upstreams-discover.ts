/**
 * `tollgate upstreams discover`: which model servers answer on this machine, and for which providers there is a key in the environment.
 * The former are added by `--enable`, and by `serve` on an empty installation; the latter are only found: they cost money.
 */
import { ServiceError } from '../domain/service-error.ts'
import { count } from '../domain/words.ts'
import type { Log } from '../log.ts'
import { findLocalServers, type LocalServer } from '../server/local-servers.ts'
import type { UpstreamRow } from '../store/catalog-rows.ts'
import { allPresets, findPreset } from '../store/presets.ts'
import { CommandError } from './command-error.ts'
import { type Context, printJson, toPrintable, withStore } from './io.ts'
import { add } from './upstreams-add.ts'

export interface DiscoverFlags {
  enable?: boolean
  at?: string[]
}

export async function discover({ enable = false, at }: DiscoverFlags, io: Context): Promise<void> {
  const rows = await readRows(io)
  const servers = (await findLocalServers(at === undefined ? {} : { at })).map((server) => ({
    ...server,
    upstream: rows.find((row) => isAt(row, server))?.id ?? null,
  }))
  const providers = findVariables(rows, io)
  const fresh = servers.filter(({ upstream }) => upstream === null)
  const { added, failed } = enable ? await enableAll(fresh, rows, io) : { added: [], failed: [] }
  if (io.json)
    printJson(io, {
      servers: servers.map(({ preset, baseUrl, upstream }) => ({ preset, base_url: baseUrl, upstream })),
      providers: providers.map(([preset, variable]) => ({ preset, variable })),
      added,
    })
  else if (servers.length + providers.length === 0)
    io.stderr('Nothing was found: no model server at the usual ports of this machine, and no variable of a provider.\n')
  else {
    for (const { name, preset, baseUrl, upstream } of servers) {
      const how =
        upstream === null ? (enable ? '' : `add it with: ${toCommand(preset, baseUrl)}`) : `it is ${upstream} here`
      io.stdout(`${toPrintable(name)} at ${toPrintable(baseUrl)}${how && `: ${toPrintable(how)}`}\n`)
    }
    for (const [preset, variable] of providers)
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
    const { added, failed } = await enableAll(await findLocalServers(), rows, io)
    for (const upstream of added)
      log.info('upstream_discovered', 'a model server of this machine is added', { upstream })
    for (const reason of failed) log.warn('upstream_discovered', 'a model server could not be added', { reason })
  } catch (error) {
    log.warn('upstream_discovered', 'nobody could look for model servers of this machine', { error: String(error) })
  }
}

const readRows = (io: Context) =>
  withStore(io, { readonly: true }, async (store) => (await store.readCatalog()).upstreams)

async function enableAll(servers: readonly LocalServer[], rows: readonly UpstreamRow[], io: Context) {
  const added: string[] = []
  const failed: string[] = []
  const taken = new Set(rows.map(({ id }) => id))
  const quiet: Context = { ...io, json: false, stdout() {}, stderr() {} }
  for (const { preset, baseUrl } of servers) {
    const id = taken.has(preset) ? `${preset}-${new URL(baseUrl).port || 'local'}` : preset
    const moved = baseUrl === findPreset(preset)?.base_url ? {} : { baseUrl }
    try {
      await add(preset, { name: id, ...moved, yes: true, key: false }, quiet)
      taken.add(id)
      added.push(id)
    } catch (error) {
      if (!(error instanceof ServiceError || error instanceof CommandError)) throw error
      failed.push(toPrintable(`${preset}: ${error.message}`))
    }
  }
  return { added, failed }
}

const isAt = ({ baseUrl, options }: UpstreamRow, server: LocalServer) => {
  const own = baseUrl ?? (options.preset === undefined ? null : (findPreset(options.preset)?.base_url ?? null))
  return own !== null && URL.parse(own)?.origin === URL.parse(server.baseUrl)?.origin
}

/** Presets whose usual variable is set, and that no upstream has. */
function findVariables(rows: readonly UpstreamRow[], { environment }: Context): [preset: string, variable: string][] {
  const used = new Set(rows.map(({ apiKeyRef }) => apiKeyRef))
  return Object.entries(allPresets()).flatMap(([preset, { env, example, local }]) =>
    env && !local && !example && environment[env] && !used.has(`\${${env}}`) ? [[preset, env]] : [],
  )
}

const toCommand = (preset: string, baseUrl: string) =>
  baseUrl === findPreset(preset)?.base_url
    ? `tollgate upstreams add ${preset}`
    : `tollgate upstreams add ${preset} --base-url ${baseUrl}`
