/** Checks Valkey at a node's first start, and for `tollgate doctor`. */

import { messageOf } from '../domain/error.ts'
import { isLoopback } from '../domain/ip.ts'
import { ServiceError } from '../domain/service-error.ts'
import { connectValkey, toClient } from '../limits/shared/valkey.ts'
import { readLimitsUrl } from './limits-part.ts'
import { readNodeId } from './nodes.ts'

export interface ValkeyFacts {
  /** Version of Redis 7, or the Redis version that Valkey is compatible with. */
  version: string
  address: string
  isLocal: boolean
  isEncrypted: boolean
  isReplica: boolean
  /** True if Valkey may drop keys when its memory is full. */
  mayEvict: boolean
}

const CONNECT_MS = 2_000

/** @param limits a URL, or the path of a file that has one. Rejects if Valkey can't be reached. */
export async function lookAtValkey(limits: string): Promise<ValkeyFacts> {
  const options = readLimitsUrl(limits)
  const { host, hostname, protocol } = new URL(options.url)
  const client = toClient(options, CONNECT_MS)
  try {
    await connectValkey(client)
    const info = String(await client.send('INFO', []))
    const fact = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? ''
    const isUnix = protocol.includes('unix')
    return {
      version: fact('redis_version'),
      address: isUnix ? 'its socket' : host,
      isLocal: isUnix || isLoopback(hostname),
      isEncrypted: /^(valkeys|rediss|.*\+tls.*):$/.test(protocol),
      isReplica: fact('role') === 'slave',
      mayEvict: fact('maxmemory_policy') !== 'noeviction' && fact('maxmemory') !== '0',
    }
  } finally {
    client.close()
  }
}

/** Throws a ServiceError if a node that has never joined can't reach Valkey. A joined node can start with its share. */
export async function requireValkey(limits: string, dataFolder: string): Promise<void> {
  if (readNodeId(dataFolder) !== null) return
  await lookAtValkey(limits).catch((error: unknown) => {
    if (error instanceof ServiceError) throw error
    const why = messageOf(error).replace(/\.$/, '')
    throw new ServiceError(
      { kind: 'cluster_unusable' },
      `Can't use the Valkey or Redis of --limits: ${why}. A node needs it to join a cluster; later it can start without it.`,
    )
  })
}
