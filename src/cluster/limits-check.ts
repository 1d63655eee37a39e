/** What `tollgate doctor` asks of Valkey. */
import { toClient } from '../limits/shared/valkey.ts'
import { readLimitsUrl } from './limits-part.ts'

export interface ValkeyFacts {
  /** Of Redis 7, or what Valkey says it is compatible with. */
  version: string
  address: string
  isLocal: boolean
  isEncrypted: boolean
  isReplica: boolean
  /** It may drop keys when its memory is full. */
  mayEvict: boolean
}

const CONNECT_MS = 2_000

/** @param limits a URL, or the path of a file that has one. Rejects if it can't be reached. */
export async function lookAtValkey(limits: string): Promise<ValkeyFacts> {
  const options = readLimitsUrl(limits)
  const { host, hostname, protocol } = new URL(options.url)
  const client = toClient(options, CONNECT_MS)
  try {
    await client.connect()
    const info = String(await client.send('INFO', []))
    const fact = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? ''
    const isUnix = protocol.includes('unix')
    return {
      version: fact('redis_version'),
      address: isUnix ? 'its socket' : host,
      isLocal: isUnix || /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname),
      isEncrypted: /^(valkeys|rediss|.*\+tls.*):$/.test(protocol),
      isReplica: fact('role') === 'slave',
      mayEvict: fact('maxmemory_policy') !== 'noeviction' && fact('maxmemory') !== '0',
    }
  } finally {
    client.close()
  }
}
