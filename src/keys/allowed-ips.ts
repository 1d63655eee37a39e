/** Whether a key may be used from where its client is. Pure, but for what it keeps of lists that it has read. */
import { GatewayError } from '../domain/error.ts'
import { type Ip, type IpRange, isIn, toIpRange, toIpText } from '../domain/ip.ts'
import type { Key } from '../domain/snapshot.ts'

/** By lists as keys have them. A text that this version does not understand allows nobody. */
const ranges = new WeakMap<readonly string[], IpRange[]>()

const toRanges = (texts: readonly string[]) => texts.map(toIpRange).filter((range) => 'bits' in range)

/** @param ip null where nobody knows it: then it is in no list. */
export function checkIp({ id, allowedIps }: Key, ip: Ip | null): GatewayError | null {
  if (ip !== null && ranges.getOrInsertComputed(allowedIps, toRanges).some((range) => isIn(range, ip))) return null
  const text = ip === null ? 'unknown' : toIpText(ip)
  const where = ip === null ? 'an address that is not known' : `the address ${text}`
  return new GatewayError(
    'ip_not_allowed',
    `This API key may not be used from ${where}. Ask the administrator of this server to allow it.`,
    // A stolen key, or a list that lacks somebody: without the address nobody could tell which.
    { logged: { key: id, ip: text } },
  )
}
