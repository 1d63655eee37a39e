/**
 * Restricts catalog changes over the network. Only owners change upstreams. They can't reference variables or files,
 * since an upstream could receive the contents. Credentials stay bound to their URL. Private addresses are blocked
 * (server-side request forgery).
 */
import { type Ip, type IpRange, isIn, toIp, toIpRange } from '../domain/ip.ts'
import { ServiceError } from '../domain/service-error.ts'
import { isWhole, toKey, type UpstreamEntry } from '../store/catalog-layers.ts'
import type { CatalogRows, UpstreamRow } from '../store/catalog-rows.ts'
import { type CredentialBinding, isSameCredentialBinding } from '../store/credential-binding.ts'
import type { State } from './change.ts'
import { isSame } from './edit.ts'

/** Never rejects. */
export type LookUp = (host: string) => Promise<Found>

export type Resolved = ReadonlyMap<string, Found>

/** Limit for lookups, which share a few resolver threads with live upstreams. */
const MAX_HOSTS = 50

/**
 * Runs before the transaction, which can't wait.
 *
 * @param current unchanged upstreams are skipped
 * @throws `invalid` if too many are new
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
      `Invalid upstreams: add at most ${MAX_HOSTS} new hosts at a time.`,
    )
  return new Map(await Promise.all([...hosts].map(async (host) => [host, await lookUp(host)] as const)))
}

type Standing = Pick<UpstreamRow, 'id' | 'baseUrl' | 'local'>

const toStanding = ({ id, baseUrl, local }: Standing) => JSON.stringify([id, baseUrl, local])

export interface RemoteRights {
  /** True for owners. */
  mayChangeUpstreams: boolean
  resolved: Resolved
}

/** Checks effective rows and each layer. Throws `owners_only`, and `invalid` with the field. */
export function requireRemote(before: State, after: State, rights: RemoteRights): void {
  const known = new Set(before.layers.upstreams.map(toText))
  const entries = after.layers.upstreams.filter((entry) => !known.has(toText(entry)))
  const staying = new Set(after.layers.upstreams.map(toText))
  // Exports repeat effective manual settings.
  const saysMore = (entry: UpstreamEntry) =>
    !before.rows.upstreams.some((row) => row.id === entry.id && isSame(row, entry))
  const replaced = new Set(entries.map((entry) => toKey('upstreams', entry)))
  const gone = before.layers.upstreams.filter(
    (entry) => !staying.has(toText(entry)) && !replaced.has(toKey('upstreams', entry)),
  )
  const [first] = [...entries.filter(saysMore), ...gone]
  if (first && !rights.mayChangeUpstreams)
    throw new ServiceError({ kind: 'owners_only' }, `Only owners can change upstream ${first.id}.`)
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

const toText = (entry: object) => JSON.stringify({ ...entry, updatedMs: 0 })

/** @throws `invalid` unless the same upstream already has the reference at the same address */
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
      `Invalid upstreams.${row.id}.api_key: only the catalog file and commands can set or move references to variables and files of the server. Omit it and enter the credential.`,
    )
  }
}

/** @throws `invalid` if a changed address is not allowed */
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
    throw new ServiceError({ kind: 'catalog_changed' }, `Upstream ${row.id} was changed by someone else. Try again.`)
  const problem = explainAddress(row.baseUrl, row.local, found)
  if (problem === null) return
  throw new ServiceError({ kind: 'invalid', field }, `Invalid ${field}: ${problem}`)
}

const toRanges = (texts: readonly string[]) => texts.map(toIpRange).filter((range) => 'bits' in range)

/**
 * Addresses that are never allowed. Clouds serve credentials at link-local addresses (RFC 3927, RFC 4291) and at other
 * metadata addresses. Also unspecified, multicast, and reserved addresses (RFC 6890), including obsolete IPv6 forms of
 * IPv4 (`::10.0.0.1`, Teredo), but not `::1`.
 */
const NEVER = toRanges([
  ...['169.254.0.0/16', 'fe80::/10', 'fec0::/10', 'fd00:ec2::/32', '100.100.100.200', '168.63.129.16', '192.0.0.0/24'],
  ...['0.0.0.0/8', '224.0.0.0/4', '240.0.0.0/4', '::/96', '100::/64', '2001::/23', 'ff00::/8'],
])

/** Metadata services, by name because a proxy may resolve them. */
const NEVER_NAMES = /^(metadata(\.google\.internal|\.goog)?|instance-data(\.ec2\.internal)?)$/

/** This machine and private networks (RFC 1918, RFC 4193, RFC 6598, RFC 2544, RFC 8215). */
const NEAR = toRanges([
  ...['127.0.0.0/8', '::1/128', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '198.18.0.0/15'],
  ...['fc00::/7', '64:ff9b:1::/48'],
])

/**
 * IPv6 ranges with an IPv4 address, and the index of its first 16-bit group (RFC 6052, RFC 8215, RFC 7915, RFC 3056).
 */
const LEADING = [
  ...toRanges(['64:ff9b::/96', '64:ff9b:1::/48', '::ffff:0:0:0/96']).map((range) => ({ range, at: 6 })),
  ...toRanges(['2002::/16']).map((range) => ({ range, at: 1 })),
]

const LOOPBACK = toRanges(['::1/128'])

const isNever = (ip: Ip) => !isInOne(LOOPBACK, ip) && isInOne(NEVER, ip)

const isInOne = (ranges: readonly IpRange[], ip: Ip) => ranges.some((range) => isIn(range, ip))

/** The address, and any IPv4 address embedded in it. */
function toMeant(ip: Ip): Ip[] {
  const leading = LEADING.filter(({ range }) => isIn(range, ip))
  return [ip, ...leading.map(({ at }) => ip.slice(at, at + 2))]
}

/** The host as a resolver expects it. */
export const hostOf = (baseUrl: string): string =>
  (URL.parse(baseUrl)?.hostname ?? '').replace(/^\[(.*)\]$/, '$1').replace(/\.+$/, '')

/** Empty if a proxy resolves the name. */
export type Found = readonly string[] | 'no_such_name' | 'late'

const WHY_NOT_FOUND = {
  no_such_name: 'its host name does not resolve on this server. Correct it, or create it in DNS.',
  late: 'looking up its host name timed out. Try again.',
}

/**
 * Why an address is not allowed; null if it is.
 * @param local whether the upstream is declared local
 * @param found result of looking up the host; ignored for IP addresses
 */
export function explainAddress(baseUrl: string, local: boolean, found: Found): string | null {
  const host = hostOf(baseUrl)
  const own = toIp(host)
  const addresses = typeof found === 'string' ? [] : found
  // A resolver may append an interface: fe80::1%eth0.
  const all = own ? [own] : addresses.map((text) => toIp(text.replace(/%.*$/, ''))).filter((ip) => ip !== null)
  const ips = all.flatMap<Ip>(toMeant)
  if (NEVER_NAMES.test(host) || ips.some(isNever))
    return 'resolves to a link-local or reserved address, which is not allowed.'
  const isNear = /^(.*\.)?localhost$/.test(host) || ips.some((ip) => isInOne(NEAR, ip))
  if (isNear && !local) return 'resolves to this machine or a private network. Mark the upstream as local.'
  return own === null && typeof found === 'string' ? WHY_NOT_FOUND[found] : null
}
