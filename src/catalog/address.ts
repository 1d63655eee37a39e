/**
 * Where an upstream may be that somebody sets up from afar: the server would ask whatever address it is given, with its own place
 * in the network, and such requests reach what outsiders cannot (server-side request forgery). Pure.
 */
import { type Ip, type IpRange, isIn, toIp, toIpRange } from '../domain/ip.ts'

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
