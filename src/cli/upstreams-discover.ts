/**
 * `tollgate upstreams discover`: which model servers answer on this machine, and for which providers there is a key in the environment.
 * The former are added by `--enable`, and by `serve` on an empty installation; the latter are only found: they cost money.
 */
import { type FoundServer, findProviders, isAtUsual, toFoundServers } from '../catalog/providers.ts'
import { toFoundDocument } from '../documents/upstream.ts'
import { ServiceError } from '../domain/service-error.ts'
import { count } from '../domain/text.ts'
import type { Log } from '../log.ts'
import { findLocalServers } from '../server/outward.ts'
import { CommandError } from './command-error.ts'
import { type Context, printJson, toPrintable, withStore } from './io.ts'
import { add } from './upstreams-add.ts'

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
