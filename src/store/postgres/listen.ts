/**
 * LISTEN that notices that it has gone deaf: a listener gets a notification of its own now and then, through another connection. A cut network never tells
 * the client that anything was lost, a pooler may not pass on notifications, and after a failover the old server sends none.
 */
import type { SQL } from 'bun'
import { mintTag } from '../../domain/id.ts'
import { Pause } from '../../threads/pause.ts'
import type { Connection } from './client.ts'
import { endNow, openPool } from './pool.ts'

/** Between tries behind a pooler that passes nothing on. */
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
  /** Of all listeners of a database, only this one's. */
  const own = `tollgate_ping_${mintTag()}`
  let pings = 0
  let isDeaf = false

  const connect = async (): Promise<void> => {
    const { address } = await reach()
    const opened = openPool({ ...options, max: 1 }, address, () => {
      // Otherwise the runtime tries again, and says so on standard error.
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

  /** Until it hears nothing. */
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
        // Queries tell what is wrong.
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
