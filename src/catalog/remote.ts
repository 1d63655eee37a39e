/**
 * What may not be done to the catalog by whoever comes over the network, although the owner of the data folder may: upstreams are
 * for owners alone; variables and files of the server are nobody's there, since an upstream could be told to hand them over; what a
 * credential was meant for stays where it goes; and addresses that outsiders cannot reach are asked for nobody (server-side request
 * forgery). Commands are no part of a catalog's rows.
 */
import { type Ip, type IpRange, isIn, toIp, toIpRange } from '../domain/ip.ts'
import { ServiceError } from '../domain/service-error.ts'
import { isWhole, toKey, type UpstreamEntry } from '../store/catalog-layers.ts'
import type { CatalogRows, UpstreamRow } from '../store/catalog-rows.ts'
import { type CredentialBinding, isSameCredentialBinding } from '../store/credential-binding.ts'
import type { State } from './change.ts'
import { isSame } from './edit.ts'

/** Resolves the name of a host. It never rejects. */
export type LookUp = (host: string) => Promise<Found>

/** What the names of hosts resolve to. */
export type Resolved = ReadonlyMap<string, Found>

/** At once: upstreams that are used have theirs looked up by the same few threads. */
const MAX_HOSTS = 50

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
  if (hosts.size > MAX_HOSTS)
    throw new ServiceError(
      { kind: 'invalid', field: 'upstreams' },
      `The field upstreams is invalid: set up at most ${MAX_HOSTS} at other hosts at a time.`,
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

/** Throws `owners_only`, and `invalid` with the field that may not be as it is: of what counts, and of what a layer keeps beneath it. */
export function requireRemote(before: State, after: State, rights: RemoteRights): void {
  const known = new Set(before.layers.upstreams.map(toText))
  const entries = after.layers.upstreams.filter((entry) => !known.has(toText(entry)))
  const staying = new Set(after.layers.upstreams.map(toText))
  // A catalog that was exported says of what was set by hand what counts already.
  const saysMore = (entry: UpstreamEntry) =>
    !before.rows.upstreams.some((row) => row.id === entry.id && isSame(row, entry))
  const replaced = new Set(entries.map((entry) => toKey('upstreams', entry)))
  const gone = before.layers.upstreams.filter(
    (entry) => !staying.has(toText(entry)) && !replaced.has(toKey('upstreams', entry)),
  )
  const [first] = [...entries.filter(saysMore), ...gone]
  if (first && !rights.mayChangeUpstreams)
    throw new ServiceError({ kind: 'owners_only' }, `This changes the upstream ${first.id}, which only owners may do.`)
  const counting = new Set(before.rows.upstreams.map(toText))
  const changed = after.rows.upstreams.filter((row) => !counting.has(toText(row)))
  const kept = entries.flatMap((entry) => (isWhole('upstreams', entry) ? [entry] : []))
  requireKnownReferences(before.rows, [...changed, ...kept])
  for (const row of [...changed, ...kept])
    requireAddress(
      row,
      before.rows.upstreams.find(({ id }) => id === row.id),
      rights.resolved,
    )
}

/** When it was last written does not count. */
const toText = (entry: object) => JSON.stringify({ ...entry, updatedMs: 0 })

/** Throws `invalid` for a reference that does not stand in the rows already, for the same upstream at the same place. */
export function requireKnownReferences(
  { upstreams }: CatalogRows,
  wanted: readonly (CredentialBinding & Pick<UpstreamRow, 'id' | 'apiKeyRef'>)[],
): void {
  for (const row of wanted) {
    const before = upstreams.find(({ id }) => id === row.id)
    const isKnown =
      before !== undefined && Bun.deepEquals(before.apiKeyRef, row.apiKeyRef) && isSameCredentialBinding(before, row)
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

const toRanges = (texts: readonly string[]) => texts.map(toIpRange).filter((range) => 'bits' in range)

/**
 * Never an upstream: the link itself, where clouds answer with credentials (RFC 3927, RFC 4291), also under other addresses of
 * theirs; no address at all, everybody, and what is reserved (RFC 6890): also IPv4 addresses in IPv6 forms that are no longer in
 * use (`::10.0.0.1`, Teredo), but for `::1`.
 */
const NEVER = toRanges([
  ...['169.254.0.0/16', 'fe80::/10', 'fec0::/10', 'fd00:ec2::/32', '100.100.100.200', '168.63.129.16', '192.0.0.0/24'],
  ...['0.0.0.0/8', '224.0.0.0/4', '240.0.0.0/4', '::/96', '100::/64', '2001::/23', 'ff00::/8'],
])

/** What clouds call the same, wherever it resolves: a proxy may be the one to look it up. */
const NEVER_NAMES = /^(metadata(\.google\.internal|\.goog)?|instance-data(\.ec2\.internal)?)$/

/** This machine, and networks that nobody outside can reach (RFC 1918, RFC 4193, RFC 6598, RFC 2544, RFC 8215). */
const NEAR = toRanges([
  ...['127.0.0.0/8', '::1/128', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '198.18.0.0/15'],
  ...['fc00::/7', '64:ff9b:1::/48'],
])

/** IPv6 addresses that lead to an IPv4 one, and at which of their eight numbers that begins (RFC 6052, RFC 8215, RFC 7915, RFC 3056). */
const LEADING = [
  ...toRanges(['64:ff9b::/96', '64:ff9b:1::/48', '::ffff:0:0:0/96']).map((range) => ({ range, at: 6 })),
  ...toRanges(['2002::/16']).map((range) => ({ range, at: 1 })),
]

const LOOPBACK = toRanges(['::1/128'])

const isNever = (ip: Ip) => !isInOne(LOOPBACK, ip) && isInOne(NEVER, ip)

const isInOne = (ranges: readonly IpRange[], ip: Ip) => ranges.some((range) => isIn(range, ip))

/** The address itself, and the one that it leads to. */
function toMeant(ip: Ip): Ip[] {
  const leading = LEADING.filter(({ range }) => isIn(range, ip))
  return [ip, ...leading.map(({ at }) => ip.slice(at, at + 2))]
}

/** The name or the address in a base URL, as a resolver takes it. */
export const hostOf = (baseUrl: string): string =>
  (URL.parse(baseUrl)?.hostname ?? '').replace(/^\[(.*)\]$/, '$1').replace(/\.+$/, '')

/** What a name resolves to: nothing where a proxy will look it up. Or why that is not known: no such name, or no answer in time. */
export type Found = readonly string[] | 'no_such_name' | 'late'

const WHY_NOT_FOUND = {
  no_such_name: 'its name does not resolve on this server. Correct the name, or create it first.',
  late: 'its name could not be looked up in time, and may lead anywhere: try again.',
}

/**
 * Why an upstream may not be there; null where it may.
 *
 * @param local whether it is declared as one of one's own.
 * @param found what its name resolves to; an address is told by itself.
 */
export function explainAddress(baseUrl: string, local: boolean, found: Found): string | null {
  const host = hostOf(baseUrl)
  const own = toIp(host)
  const addresses = typeof found === 'string' ? [] : found
  // A resolver may name the interface behind one: fe80::1%eth0.
  const all = own ? [own] : addresses.map((text) => toIp(text.replace(/%.*$/, ''))).filter((ip) => ip !== null)
  const ips = all.flatMap<Ip>(toMeant)
  if (NEVER_NAMES.test(host) || ips.some(isNever))
    return 'leads to a link-local or reserved address, where no upstream is.'
  const isNear = /^(.*\.)?localhost$/.test(host) || ips.some((ip) => isInOne(NEAR, ip))
  if (isNear && !local) return 'leads to this machine or a private network: an upstream there must be local.'
  return own === null && typeof found === 'string' ? WHY_NOT_FOUND[found] : null
}
