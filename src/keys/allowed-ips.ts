/** Whether a key may be used from where its client is. Pure, but for what it keeps of lists that it has read. */
import { GatewayError } from '../domain/error.ts'
import { type Ip, type IpRange, isIn, toIpRange, toIpText } from '../domain/ip.ts'
import type { Key } from '../domain/snapshot.ts'

/** By lists as keys have them. A text that this version does not understand allows nobody. */
const ranges = new WeakMap<readonly string[], IpRange[]>()

const toRanges = (texts: readonly string[]) => texts.map(toIpRange).filter((range) => 'bits' in range)

/**
 * The address of a client; where a proxy that is trusted says of it what is no address, that proxy's, which is not where it is;
 * null where it has none.
 */
export type ClientIp = Ip | { behind: Ip } | null

/** An address that nobody knows is in no list. */
export function checkIp({ id, allowedIps }: Key, client: ClientIp): GatewayError | null {
  const ip = client === null || 'behind' in client ? null : client
  if (ip !== null && ranges.getOrInsertComputed(allowedIps, toRanges).some((range) => isIn(range, ip))) return null
  const text = toText(client)
  const where = ip === null ? 'an address that is not known' : `the address ${text}`
  return new GatewayError(
    'ip_not_allowed',
    `This API key may not be used from ${where}. Ask the administrator of this server to allow it.`,
    // A stolen key, or a list that lacks somebody: without the address nobody could tell which.
    { logged: { key: id, ip: text } },
  )
}

/** Not what the proxy says: that may be the client's own words. */
function toText(client: ClientIp): string {
  if (client === null) return 'unknown'
  return 'behind' in client
    ? `unknown: no address in x-forwarded-for behind ${toIpText(client.behind)}`
    : toIpText(client)
}
