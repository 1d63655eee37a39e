/** Resolves host names with the system's resolver, as for upstreams, to check their IP addresses. */
import type { Found, LookUp } from '../../catalog/remote.ts'
import { codeOf } from '../../domain/error.ts'

const LOOK_UP_MS = 5_000

export interface LookUpOptions {
  /** True if upstreams are reached through a proxy, which resolves names itself. This machine may be unable to. */
  isProxied: boolean
  resolve?(host: string): Promise<string[]>
  /** Timeout, ms. */
  waitMs?: number
}

export function createLookUp({ isProxied, resolve = ask, waitMs = LOOK_UP_MS }: LookUpOptions): LookUp {
  return async (host) => {
    const late = Promise.withResolvers<Found>()
    const timer = setTimeout(() => late.resolve('late'), waitMs)
    const asked = resolve(host).then(
      (addresses): Found => (addresses.length === 0 ? 'no_such_name' : addresses),
      (error): Found => (NO_SUCH_NAME.has(codeOf(error)) ? 'no_such_name' : 'late'),
    )
    const found = await Promise.race([asked, late.promise])
    clearTimeout(timer)
    return isProxied && typeof found === 'string' ? [] : found
  }
}

const NO_SUCH_NAME = new Set(['ENOTFOUND', 'ENODATA'])

async function ask(host: string): Promise<string[]> {
  const { lookup } = await import('node:dns/promises')
  return (await lookup(host, { all: true })).map(({ address }) => address)
}
