/**
 * IP addresses and ranges of them (CIDR): read, compared, and written in one form (RFC 4632, RFC 5952). An IPv4 address that
 * comes as an IPv6 one (`::ffff:10.0.0.1`) is the IPv4 one. `node:net` has a list of ranges, too, and takes longer to load
 * than all else that a start does. Pure.
 */

/** Its bits, 16 a number: two numbers of IPv4, eight of IPv6. */
export type Ip = readonly number[]

/** All addresses that have their first `bits` bits in common with `first`, whose others are 0. */
export interface IpRange {
  first: Ip
  bits: number
}

/** Reads an address as `203.0.113.7` or `2001:db8::7`; null for anything else, such as a name, a port or a zone with it. */
export const toIp = (text: string): Ip | null => (text.includes(':') ? toIpV6(text) : toIpV4(text))

/** Without leading zeros, which are octal to some. */
const IP_V4 = /^(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})$/

function toIpV4(text: string): Ip | null {
  const [a = 256, b = 256, c = 256, d = 256] = IP_V4.exec(text)?.slice(1).map(Number) ?? []
  return Math.max(a, b, c, d) > 255 ? null : [a * 256 + b, c * 256 + d]
}

/** By the URL standard's parser, which writes what it has read as RFC 5952 says. */
function toIpV6(text: string): Ip | null {
  const host = /^[\da-f:.]{2,45}$/i.test(text) ? URL.parse(`http://[${text}]/`)?.hostname : undefined
  if (host === undefined) return null
  const [head = [], tail = []] = host.slice(1, -1).split('::').map(toGroups)
  const groups = [...head, ...new Array<number>(8 - head.length - tail.length).fill(0), ...tail]
  return MAPPED.every((group, i) => group === groups[i]) ? groups.slice(MAPPED.length) : groups
}

const toGroups = (text: string) => (text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16)))

/** What an IPv4 address as an IPv6 one begins with (RFC 4291, section 2.5.5.2). */
const MAPPED = [0, 0, 0, 0, 0, 0xffff]
const MAPPED_BITS = 96

/**
 * Reads a range such as `10.0.0.0/8`, or one address. What is none is told in the end of a sentence that begins with the text
 * and says what to write.
 */
export function toIpRange(text: string): IpRange | { problem: string } {
  const [, address = text, digits] = /^([^/]*)\/(\d{1,3})$/.exec(text) ?? []
  const ip = toIp(address)
  if (ip === null)
    return { problem: 'is no IP address or range: write one such as 203.0.113.7, 10.0.0.0/8 or 2001:db8::/32' }
  const most = ip.length * 16
  const bits = digits === undefined ? most : Number(digits) - (most === 32 && address.includes(':') ? MAPPED_BITS : 0)
  if (bits < 0 || bits > most)
    return { problem: `has no such prefix: write ${toIpText(ip)}/N, N from 0 to ${most}, or the address alone` }
  const first = ip.map((group, i) => group & toMask(bits - i * 16))
  const range = { first, bits }
  if (first.every((group, i) => group === ip[i])) return range
  return {
    problem: `goes on behind its prefix: write ${toIpRangeText(range)}, or ${toIpText(ip)} for that address alone`,
  }
}

/** Of 16 bits, the first few. */
const toMask = (bits: number) => 0xffff & ~(0xffff >> Math.min(16, Math.max(0, bits)))

/** Whether an address is in a range. None is of the other version. */
export function isIn({ first, bits }: IpRange, ip: Ip): boolean {
  if (first.length !== ip.length) return false
  return first.every((group, i) => group === ((ip[i] ?? 0) & toMask(bits - i * 16)))
}

/** Writes an address in its one form. */
export function toIpText(ip: Ip): string {
  if (ip.length === 2) return ip.flatMap((group) => [group >> 8, group & 255]).join('.')
  return new URL(`http://[${ip.map((group) => group.toString(16)).join(':')}]/`).hostname.slice(1, -1)
}

/** Writes a range in its one form; that of one address is the address. */
export const toIpRangeText = ({ first, bits }: IpRange) =>
  bits === first.length * 16 ? toIpText(first) : `${toIpText(first)}/${bits}`

/** Whether a host is an IP address, without brackets around it. No name has a colon. */
export const isAddress = (host: string): boolean => host.includes(':') || toIpV4(host) !== null
