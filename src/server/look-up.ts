/** Names of hosts, resolved as the system does it, which is how upstreams are reached; for checks of where they lead. */
import type { LookUp } from '../catalog/remote.ts'
import { codeOf } from '../domain/error.ts'

const LOOK_UP_MS = 5_000

export interface LookUpOptions {
  /** Whether upstreams are reached through a proxy, which resolves their names by itself: this machine may know none. */
  isProxied: boolean
  resolve?(host: string): Promise<string[]>
  /** How long is waited for an answer. */
  waitMs?: number
}

export function createLookUp({ isProxied, resolve = ask, waitMs = LOOK_UP_MS }: LookUpOptions): LookUp {
  return async (host) => {
    const late = Promise.withResolvers<null>()
    const timer = setTimeout(() => late.resolve(null), waitMs)
    const asked = resolve(host).catch((error) => (NO_SUCH_NAME.has(codeOf(error)) ? [] : null))
    const found = await Promise.race([asked, late.promise])
    clearTimeout(timer)
    return found ?? (isProxied ? [] : null)
  }
}

const NO_SUCH_NAME = new Set(['ENOTFOUND', 'ENODATA'])

async function ask(host: string): Promise<string[]> {
  const { lookup } = await import('node:dns/promises')
  return (await lookup(host, { all: true })).map(({ address }) => address)
}
