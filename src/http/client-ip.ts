/**
 * Where a request comes from: the other end of its connection or, behind proxies that are trusted, what they say of theirs.
 * Asked for the requests of keys that may be used from some addresses only.
 */
import { type Ip, type IpRange, isIn, toIp } from '../domain/ip.ts'
import type { IpOf } from '../keys/token.ts'
import type { Listener } from './instance.ts'

/** @param listener the instance that has the connections; over a socket of the file system nobody has an address. */
export const createIpOf =
  (listener: Listener, trustedProxies: readonly IpRange[]): IpOf =>
  (request, headers) => {
    const peer = toIp(listener.server?.requestIP(request)?.address ?? '')
    return peer && toClientIp(peer, headers['x-forwarded-for'], trustedProxies)
  }

/**
 * The first address that is none of a trusted proxy, from the peer's on and then through `x-forwarded-for` from its end, where
 * each proxy has put the address that it was called from. What is no address ends the way: the client, who may have written
 * it, is then nowhere that a list of addresses could have.
 */
export function toClientIp(peer: Ip, forwardedFor = '', trustedProxies: readonly IpRange[]): Ip | { behind: Ip } {
  const isTrusted = (ip: Ip) => trustedProxies.some((range) => isIn(range, ip))
  let client = peer
  let end = forwardedFor.length
  while (end > 0 && isTrusted(client)) {
    const comma = forwardedFor.lastIndexOf(',', end - 1)
    const ip = toHop(forwardedFor.slice(comma + 1, end).trim())
    if (ip === null) return { behind: client }
    client = ip
    end = comma
  }
  return client
}

/** Some proxies write the port, too, and brackets around what has colons. */
const toHop = (text: string): Ip | null =>
  toIp(/^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1] ?? text.replace(/^([\d.]+):\d+$/, '$1'))
