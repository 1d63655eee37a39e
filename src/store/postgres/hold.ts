/**
 * An advisory lock on a connection of its own. The server ends the session of a holder that is silent for `leaseMs`, so that a machine that is cut off
 * gives the lock up, and knows that it did before anyone else can have it.
 */
import type { ReservedSQL, SQL } from 'bun'
import { Pause } from '../../threads/pause.ts'
import type { Connection } from './client.ts'
import { endNow, openPool } from './pool.ts'

export function holdLock(
  { reach, options, timing }: Connection,
  lock: number,
  onChange: (isHeld: boolean) => void,
): () => void {
  let isStopped = false
  let isHeld = false
  let sql: SQL | null = null
  const pause = new Pause()
  const { holdMs, leaseMs, retryMs } = timing

  const tell = (next: boolean) => {
    if (next === isHeld) return
    isHeld = next
    onChange(next)
  }
  /** Half of the lease remains for those that wait for the lock. */
  const inTime = async <T>(work: Promise<T>): Promise<T> => {
    work.catch(() => {})
    const silence = Bun.sleep(leaseMs / 2 - holdMs / 2).then(() => Promise.reject(new Error('no answer')))
    return await Promise.race([work, silence])
  }

  /** Returns once the lock is lost, or isn't free. */
  const hold = async (): Promise<void> => {
    const { address, isPooled } = await reach()
    sql = openPool({ ...options, max: 1 }, address)
    const session: ReservedSQL = await inTime(sql.reserve())
    // A pooler may give another session to each transaction, so the lock is one transaction's.
    if (isPooled) await inTime(session.unsafe('begin'))
    await inTime(
      session.unsafe(
        isPooled
          ? `set local idle_in_transaction_session_timeout = ${leaseMs}`
          : `set idle_session_timeout = ${leaseMs}`,
      ),
    )
    const take = `pg_try_advisory_${isPooled ? 'xact_' : ''}lock`
    while (!isStopped) {
      const [row] = await inTime(session.unsafe<{ is_held: boolean }[]>(`select ${take}(${lock}) as is_held`))
      if (row?.is_held) break
      await pause.wait(holdMs)
    }
    while (!isStopped) {
      tell(true)
      await pause.wait(holdMs)
      if (!isStopped) await inTime(session.unsafe('select 1'))
    }
  }

  const keep = async () => {
    while (!isStopped) {
      try {
        await hold()
      } catch {
        // Somebody else may have it now.
      }
      tell(false)
      if (sql) endNow(sql)
      sql = null
      if (!isStopped) await pause.wait(retryMs)
    }
  }
  void keep()

  return () => {
    isStopped = true
    tell(false)
    if (sql) endNow(sql)
    pause.end()
  }
}
