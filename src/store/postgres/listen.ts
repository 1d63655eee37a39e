/**
 * LISTEN with loss detection: the listener regularly sends itself a notification through another connection. A broken network doesn't report losses to the
 * client, a pooler may not forward notifications, and after a failover the old server sends none.
 */
import type { SQL } from 'bun'
import { mintTag } from '../../domain/id.ts'
import { Pause } from '../../threads/pause.ts'
import type { Connection } from './client.ts'
import { endNow, openPool } from './pool.ts'

/** Pause between attempts behind a pooler that forwards nothing. */
const DEAF_MS = 30_000

export function listenTo(
  { reach, query, options, timing, log }: Connection,
  channel: string,
  onNotify: (payload: string) => void,
  onListening: () => void,
): () => void {
  let isStopped = false
  let sql: SQL | null = null
  const pause = new Pause()
  /** Channel of this listener only. */
  const own = `tollgate_ping_${mintTag()}`
  let pings = 0
  let isDeaf = false

  const connect = async (): Promise<void> => {
    const { address } = await reach()
    const opened = openPool({ ...options, max: 1 }, address, () => {
      // Otherwise the runtime reconnects, and writes to standard error.
      endNow(opened)
      if (sql !== opened) return
      sql = null
      pause.end()
    })
    sql = opened
    const isCurrent = () => sql === opened && !isStopped
    const listening = (async () => {
      await opened.listen(own, () => {
        pings++
        pause.end()
      })
      await opened.listen(
        channel,
        (payload) => isCurrent() && onNotify(payload),
        () => isCurrent() && onListening(),
      )
    })()
    listening.catch(() => {})
    if ((await Promise.race([listening, Bun.sleep(timing.connectMs).then(() => 'late' as const)])) === 'late')
      throw new Error('no answer')
  }

  /** Resolves once notifications no longer arrive. */
  const attend = async (): Promise<boolean> => {
    for (let heard = 0; ; heard++) {
      const before = pings
      await query('select pg_notify($1, $2)', [own, ''])
      if (pings === before) await pause.wait(timing.pingMs)
      if (isStopped || sql === null) return true
      if (pings === before) return heard > 0
      await pause.wait(timing.pingMs)
      if (isStopped || sql === null) return true
    }
  }

  const keep = async () => {
    while (!isStopped) {
      let pauseMs = timing.retryMs
      try {
        await connect()
        const hasHeard = await attend()
        if (!hasHeard) {
          pauseMs = DEAF_MS
          if (!isDeaf)
            log.warn('postgres_deaf', 'PostgreSQL sends no notifications, as behind a pooler; changes are polled')
        }
        isDeaf = !hasHeard
      } catch {
        // Queries report the problem.
      }
      if (sql) endNow(sql)
      sql = null
      if (!isStopped) await pause.wait(pauseMs)
    }
  }
  void keep()

  return () => {
    isStopped = true
    if (sql) endNow(sql)
    pause.end()
  }
}
