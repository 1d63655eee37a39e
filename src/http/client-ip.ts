/** The client's IP address, also behind trusted proxies. Needed only for keys that are limited to certain addresses. */
import { type Ip, type IpRange, isIn, toIp } from '../domain/ip.ts'
import type { IpOf } from '../keys/token.ts'
import type { Listener } from './instance.ts'

/** Peer addresses of forwarded requests, whose connections belong to the forwarding server. */
export const peers = new WeakMap<Request, string>()

/** @param listener owns the connections; those of a Unix socket have no address. */
export const createIpOf =
  (listener: Listener, trustedProxies: readonly IpRange[]): IpOf =>
  (request, headers) => {
    const peer = toIp(peers.get(request) ?? listener.server?.requestIP(request)?.address ?? '')
    return peer && toClientIp(peer, headers['x-forwarded-for'], trustedProxies)
  }

/**
 * The first untrusted address: from the peer, then backwards through `x-forwarded-for`, where each proxy appends its
 * caller's address. An invalid address ends the search: the client, who may have written it, then matches no list.
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

/** Some proxies add the port, and brackets around IPv6 addresses. */
const toHop = (text: string): Ip | null =>
  toIp(/^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1] ?? text.replace(/^([\d.]+):\d+$/, '$1'))
