/**
 * Limits of all nodes in Valkey or Redis 7. One script decides a batch atomically. A restarted or promoted server has a
 * new run ID, and so an empty state. Therefore it needs no persistence, and stale data is never used.
 */
import { RedisClient } from 'bun'
import { codeOf } from '../../domain/error.ts'
import { BatchRefusal, type BatchReply, type LimitEngine, toScopeReplies } from './engine.ts'
import script from './valkey.lua' with { type: 'text' }

/** The hash tag keeps all keys in one slot of a cluster. */
const PREFIX = '{tollgate}:limits'
const CONNECT_MS = 250
/** Raised by the script before it has written anything. */
const SCRIPT_ERROR = /\bERR (user_script:\d+: .*?)( script: |$)/
const NO_CONNECTION =
  'No connection: nothing listens there, it needs another user or password, or it is another service.'
const SHA = new Bun.CryptoHasher('sha1').update(script).digest('hex')

interface Connection {
  client: RedisClient
  prefix: string
}

export interface ValkeyOptions {
  /** `valkey://`, `redis://`, `valkeys://`, or `rediss://` (TLS, verified), with user, password, and database. */
  url: string
  /** Certificate authority, instead of the system's. */
  ca?: string
  timeoutMs?: number
}

/** Returns a client that isn't connected yet. It never reconnects, and queues no commands. */
export const toClient = ({ url, ca }: ValkeyOptions, connectMs: number): RedisClient =>
  new RedisClient(url, {
    ...{ connectionTimeout: connectMs, autoReconnect: false, maxRetries: 0, enableOfflineQueue: false },
    ...(ca !== undefined && { tls: { ca } }),
  })

/** Returns the server's `INFO`. Rejects with a likely cause, as text. */
export async function connectValkey(client: RedisClient): Promise<string> {
  await client.connect().catch((error: unknown) => {
    // The runtime doesn't report the cause.
    throw codeOf(error) === 'ERR_REDIS_CONNECTION_CLOSED' ? new Error(NO_CONNECTION) : error
  })
  return String(await client.send('INFO', ['server']))
}

export function openValkey(options: ValkeyOptions): LimitEngine {
  const { timeoutMs = 200 } = options
  const database = URL.parse(options.url)?.pathname ?? ''
  let place: string | null = null
  let opened: Promise<Connection> | null = null

  const open = async (): Promise<Connection> => {
    const client = toClient(options, CONNECT_MS)
    const connection = { client, prefix: '' }
    const forget = () => {
      if (current === connection) reset()
    }
    client.onclose = forget
    current = connection
    const info = await connectValkey(client)
    const [, runId] = /^run_id:(\w+)/m.exec(info) ?? []
    if (runId === undefined) throw new Error('the answer to INFO has no run_id')
    connection.prefix = `${PREFIX}:${runId}`
    place = new Bun.CryptoHasher('sha256').update(`${runId}${database}`).digest('hex').slice(0, 12)
    return connection
  }
  let current: Connection | null = null
  const reset = () => {
    const { client } = current ?? {}
    current = null
    opened = null
    client?.close()
  }
  const run = async ({ client, prefix }: Connection, batch: string): Promise<unknown> => {
    try {
      return await client.send('EVALSHA', [SHA, '1', prefix, batch])
    } catch (error) {
      if (!String(error).includes('NOSCRIPT')) throw error
      return client.send('EVAL', [script, '1', prefix, batch])
    }
  }
  return {
    name: 'Valkey',
    get place() {
      return place
    },
    // Each takes about 20 µs and blocks the server.
    maxBatch: 200,
    timeoutMs,
    async call(batch) {
      opened ??= open()
      const opening = opened
      try {
        return toReply(await run(await opening, JSON.stringify(batch)))
      } catch (error) {
        const [, problem] = SCRIPT_ERROR.exec(String(error)) ?? []
        if (problem !== undefined) throw new BatchRefusal(problem)
        if (opened === opening) reset()
        throw error
      }
    },
    reset,
    close: reset,
  }
}

function toReply(answer: unknown): BatchReply {
  const [head, warnings, replies] = answer as [string, [string, string, string][], string[]]
  const [nowMs = 0, bornMs = 0, nodes = 0, isNew] = head.split(',').map(Number)
  return {
    ...{ nowMs, bornMs, nodes, isNew: isNew === 1 },
    warnings: warnings.map(([name, spent, limit]) => ({ name, spentNanoUsd: Number(spent), nanoUsd: Number(limit) })),
    replies: replies.map((figures) => toScopeReplies(figures.split(',').map(Number))),
  }
}
