/**
 * What of this machine may become an upstream: model servers that answer, and providers whose variable is set, beside the upstreams
 * that there are. The former cost nothing; the latter are only named, by their variables and never by what those hold. Pure.
 */
import type { UpstreamRow } from '../store/catalog-rows.ts'
import { toReferences, toVariable } from '../store/credential-place.ts'
import { allPresets, findPreset } from '../store/presets.ts'

export interface LocalServer {
  /** Which one it is, by its preset. */
  preset: string
  name: string
  baseUrl: string
}

export interface FoundServer extends LocalServer {
  /** The upstream that is at its address; null where there is none. */
  upstream: string | null
  /** What it is to be called where it is added. */
  id: string
}

export interface FoundProvider {
  preset: string
  name: string
  variable: string
}

type Row = Pick<UpstreamRow, 'id' | 'baseUrl' | 'options' | 'apiKeyRef'>

/** Finds out which servers are upstreams already, and a name of its own for each of the others. */
export function toFoundServers(servers: readonly LocalServer[], rows: readonly Row[]): FoundServer[] {
  const taken = new Set(rows.map(({ id }) => id))
  return servers.map((server) => {
    const upstream = rows.find((row) => isAt(row, server))?.id ?? null
    if (upstream !== null) return { ...server, upstream, id: upstream }
    const { preset, baseUrl } = server
    const id = taken.has(preset) ? `${preset}-${new URL(baseUrl).port || 'local'}` : preset
    taken.add(id)
    return { ...server, upstream, id }
  })
}

/** Whether a server is where its preset has it. */
export const isAtUsual = ({ preset, baseUrl }: LocalServer): boolean => findPreset(preset)?.base_url === baseUrl

/** Providers whose usual variable is set, and that no upstream has. */
export function findProviders(rows: readonly Row[], isSet: (variable: string) => boolean): FoundProvider[] {
  const used = new Set(rows.flatMap(({ apiKeyRef }) => toReferences(apiKeyRef).map(toVariable)))
  return Object.entries(allPresets()).flatMap(([preset, { name, env, example, local }]) =>
    env && !local && !example && isSet(env) && !used.has(env) ? { preset, name, variable: env } : [],
  )
}

function isAt({ baseUrl, options }: Row, server: LocalServer): boolean {
  const own = baseUrl ?? (options.preset === undefined ? null : (findPreset(options.preset)?.base_url ?? null))
  return own !== null && URL.parse(own)?.origin === URL.parse(server.baseUrl)?.origin
}
