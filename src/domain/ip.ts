/**
 * IP addresses and CIDR ranges (RFC 4632, RFC 5952). IPv4-mapped addresses (`::ffff:10.0.0.1`) become IPv4. `node:net` has ranges too, but loads slower than
 * all else at startup.
 */

/** 16-bit groups: two for IPv4, eight for IPv6. */
export type Ip = readonly number[]

/** `first` is 0 after its first `bits` bits. */
export interface IpRange {
  first: Ip
  bits: number
}

/** null for anything else, including names, ports, and zones. */
export const toIp = (text: string): Ip | null => (text.includes(':') ? toIpV6(text) : toIpV4(text))

/** No leading zeros: some read them as octal. */
const IP_V4 = /^(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})$/

function toIpV4(text: string): Ip | null {
  const [a = 256, b = 256, c = 256, d = 256] = IP_V4.exec(text)?.slice(1).map(Number) ?? []
  return Math.max(a, b, c, d) > 255 ? null : [a * 256 + b, c * 256 + d]
}

/** The URL parser writes addresses as in RFC 5952. */
function toIpV6(text: string): Ip | null {
  const host = /^[\da-f:.]{2,45}$/i.test(text) ? URL.parse(`http://[${text}]/`)?.hostname : undefined
  if (host === undefined) return null
  const [head = [], tail = []] = host.slice(1, -1).split('::').map(toGroups)
  const groups = [...head, ...new Array<number>(8 - head.length - tail.length).fill(0), ...tail]
  return MAPPED.every((group, i) => group === groups[i]) ? groups.slice(MAPPED.length) : groups
}

const toGroups = (text: string) => (text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16)))

/** RFC 4291, section 2.5.5.2. */
const MAPPED = [0, 0, 0, 0, 0, 0xffff]
const MAPPED_BITS = 96

/** `problem` continues a sentence that begins with the text. */
export function toIpRange(text: string): IpRange | { problem: string } {
  const [, address = text, digits] = /^([^/]*)\/(\d{1,3})$/.exec(text) ?? []
  const ip = toIp(address)
  if (ip === null)
    return { problem: 'must be an IP address or CIDR range, e.g. 203.0.113.7, 10.0.0.0/8, or 2001:db8::/32' }
  const most = ip.length * 16
  const bits = digits === undefined ? most : Number(digits) - (most === 32 && address.includes(':') ? MAPPED_BITS : 0)
  if (bits < 0 || bits > most)
    return { problem: `has an invalid prefix: use ${toIpText(ip)}/N with N from 0 to ${most}, or only the address` }
  const first = ip.map((group, i) => group & toMask(bits - i * 16))
  const range = { first, bits }
  if (first.every((group, i) => group === ip[i])) return range
  return {
    problem: `has bits set after its prefix: use ${toIpRangeText(range)}, or ${toIpText(ip)} for that one address`,
  }
}

const toMask = (bits: number) => 0xffff & ~(0xffff >> Math.min(16, Math.max(0, bits)))

export function isIn({ first, bits }: IpRange, ip: Ip): boolean {
  if (first.length !== ip.length) return false
  return first.every((group, i) => group === ((ip[i] ?? 0) & toMask(bits - i * 16)))
}

export function toIpText(ip: Ip): string {
  if (ip.length === 2) return ip.flatMap((group) => [group >> 8, group & 255]).join('.')
  return new URL(`http://[${ip.map((group) => group.toString(16)).join(':')}]/`).hostname.slice(1, -1)
}

/** A single address has no prefix. */
export const toIpRangeText = ({ first, bits }: IpRange) =>
  bits === first.length * 16 ? toIpText(first) : `${toIpText(first)}/${bits}`

/** Without brackets; names have no colons. */
export const isAddress = (host: string): boolean => host.includes(':') || toIpV4(host) !== null

const LOOPBACK = ['127.0.0.0/8', '::1'].map(toIpRange).filter((range) => 'bits' in range)

/** Whether a host, as in a URL, is this machine: an address, or a name that always means it (RFC 6761, section 6.3). */
export function isLoopback(hostname: string): boolean {
  const ip = toIp(hostname.replace(/^\[(.*)\]$/, '$1'))
  return ip === null ? /^(.+\.)?localhost$/.test(hostname) : LOOPBACK.some((range) => isIn(range, ip))
}
