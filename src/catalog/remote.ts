/**
 * What may not be done to the catalogue by whoever comes over the network, although the owner of the data folder may: upstreams are
 * for owners alone; variables and files of the server are nobody's there, since an upstream could be told to hand them over; and
 * what a credential was meant for stays where it goes. Commands are no part of a catalogue's rows.
 */
import { ServiceError } from '../domain/service-error.ts'
import type { CatalogRows, CatalogWrite, UpstreamRow } from '../store/catalog-rows.ts'
import { type CredentialPlace, isSameCredentialPlace } from '../store/credential-place.ts'
import { explainAddress, type Found, hostOf } from './address.ts'

/** Resolves the name of a host. It never rejects. */
export type LookUp = (host: string) => Promise<Found>

/** What the names of hosts resolve to. */
export type Resolved = ReadonlyMap<string, Found>

/** At once: upstreams that are used have theirs looked up by the same few threads. */
const MOST_HOSTS = 50

/**
 * Resolves the hosts of upstreams, before a change that cannot wait.
 *
 * @param current what stands as it is needs no look. Throws `invalid` where too many are new.
 */
export async function resolveHosts(
  rows: readonly Standing[],
  lookUp: LookUp,
  current: readonly Standing[] = [],
): Promise<Resolved> {
  const standing = new Set(current.map(toStanding))
  const changed = rows.filter((row) => !standing.has(toStanding(row)))
  const hosts = new Set(changed.flatMap(({ baseUrl }) => (baseUrl === null ? [] : hostOf(baseUrl))))
  if (hosts.size > MOST_HOSTS)
    throw new ServiceError(
      { kind: 'invalid', field: 'upstreams' },
      `The field upstreams is invalid: set up at most ${MOST_HOSTS} at other hosts at a time.`,
    )
  return new Map(await Promise.all([...hosts].map(async (host) => [host, await lookUp(host)] as const)))
}

type Standing = Pick<UpstreamRow, 'id' | 'baseUrl' | 'local'>

const toStanding = ({ id, baseUrl, local }: Standing) => JSON.stringify([id, baseUrl, local])

export interface RemoteRights {
  /** Whether who asks is an owner. */
  mayChangeUpstreams: boolean
  resolved: Resolved
}

/** Throws `owners_only`, and `invalid` with the field that may not be as it is. */
export function requireRemote(current: CatalogRows, { upstreams }: CatalogWrite, rights: RemoteRights): void {
  const changed = [...upstreams.create, ...upstreams.update]
  const [first] = [...changed, ...upstreams.delete]
  if (first && !rights.mayChangeUpstreams)
    throw new ServiceError({ kind: 'owners_only' }, `This changes the upstream ${first.id}, which only owners may do.`)
  requireKnownReferences(current, changed)
  for (const row of changed)
    requireAddress(
      row,
      current.upstreams.find(({ id }) => id === row.id),
      rights.resolved,
    )
}

/** Throws `invalid` for a reference that does not stand in the rows already, for the same upstream at the same place. */
export function requireKnownReferences(
  { upstreams }: CatalogRows,
  wanted: readonly (CredentialPlace & Pick<UpstreamRow, 'id' | 'apiKeyRef'>)[],
): void {
  for (const row of wanted) {
    const before = upstreams.find(({ id }) => id === row.id)
    const isKnown =
      before !== undefined && Bun.deepEquals(before.apiKeyRef, row.apiKeyRef) && isSameCredentialPlace(before, row)
    if (row.apiKeyRef === null || isKnown) continue
    throw new ServiceError(
      { kind: 'invalid', field: `upstreams.${row.id}.api_key` },
      `The field upstreams.${row.id}.api_key is invalid: a reference to a variable or a file of the server is set in its catalogue file or by a command, and stays only as it is and where it goes. Leave it out, and type the credential in.`,
    )
  }
}

/** Throws `invalid` where it may not be at its address. What stood there before may stay. */
export function requireAddress(
  row: UpstreamRow,
  before: UpstreamRow | undefined,
  resolved: Resolved,
  field = `upstreams.${row.id}.base_url`,
): void {
  const isAsItWas = before !== undefined && before.baseUrl === row.baseUrl && before.local === row.local
  if (row.baseUrl === null || isAsItWas) return
  const found = resolved.get(hostOf(row.baseUrl))
  if (found === undefined)
    throw new ServiceError({ kind: 'catalog_changed' }, `The upstream ${row.id} was changed meanwhile. Try again.`)
  const problem = explainAddress(row.baseUrl, row.local, found)
  if (problem === null) return
  throw new ServiceError({ kind: 'invalid', field }, `The field ${field} is invalid: ${problem}`)
}
