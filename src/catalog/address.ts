/**
 * Where an upstream may be that somebody sets up from afar: the server would ask whatever address it is given, with its own place
 * in the network, and such requests reach what outsiders cannot (server-side request forgery). Pure.
 */
import { type Ip, isIn, toIp, toIpRange } from '../domain/ip.ts'

const toRanges = (texts: readonly string[]) => texts.map(toIpRange).filter((range) => 'bits' in range)

/**
 * Never an upstream: the link itself, where clouds answer with credentials (RFC 3927, RFC 4291), also under other addresses of
 * theirs; no address at all, everybody, and what is reserved (RFC 6890).
 */
const NEVER = toRanges([
  ...['169.254.0.0/16', 'fe80::/10', 'fec0::/10', 'fd00:ec2::/32', '100.100.100.200', '168.63.129.16', '192.0.0.0/24'],
  ...['0.0.0.0/8', '224.0.0.0/4', '240.0.0.0/4', '::/128', 'ff00::/8'],
])

/** This machine, and networks that nobody outside can reach (RFC 1918, RFC 4193, RFC 6598, RFC 2544). */
const NEAR = toRanges([
  ...['127.0.0.0/8', '::1/128', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '198.18.0.0/15'],
  'fc00::/7',
])

/** IPv6 addresses that lead to an IPv4 one, and at which of their eight numbers that begins (RFC 6052, RFC 8215, RFC 7915, RFC 3056). */
const LEADING = [
  ...toRanges(['64:ff9b::/96', '64:ff9b:1::/48', '::ffff:0:0:0/96']).map((range) => ({ range, at: 6 })),
  ...toRanges(['2002::/16']).map((range) => ({ range, at: 1 })),
]

/** The address itself, and the one that it leads to. */
function toMeant(ip: Ip): Ip[] {
  const leading = LEADING.filter(({ range }) => isIn(range, ip))
  return [ip, ...leading.map(({ at }) => ip.slice(at, at + 2))]
}

/** The name or the address in a base URL, as a resolver takes it. */
export const hostOf = (baseUrl: string): string =>
  (URL.parse(baseUrl)?.hostname ?? '').replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')

/**
 * Why an upstream may not be there; null where it may.
 *
 * @param local whether it is declared as one of one's own.
 * @param addresses what its name resolves to; an address is told by itself.
 */
export function explainAddress(baseUrl: string, local: boolean, addresses: readonly string[]): string | null {
  const host = hostOf(baseUrl)
  const own = toIp(host)
  // A resolver may name the interface behind one: fe80::1%eth0.
  const all = own ? [own] : addresses.map((text) => toIp(text.replace(/%.*$/, ''))).filter((ip) => ip !== null)
  const ips = all.flatMap<Ip>(toMeant)
  if (ips.some((ip) => NEVER.some((range) => isIn(range, ip))))
    return 'leads to a link-local or reserved address, where no upstream is.'
  const isNear = /^(.*\.)?localhost$/.test(host) || ips.some((ip) => NEAR.some((range) => isIn(range, ip)))
  if (isNear && !local) return 'leads to this machine or a private network: an upstream there must be local.'
  return null
}
