/**
 * An advisory lock on a separate connection. If a holder is silent for `leaseMs`, the server ends its session. So a disconnected machine loses the lock, and
 * notices the loss before anyone else can take the lock.
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
  /** Leaves half of the lease for processes waiting for the lock. */
  const inTime = async <T>(work: Promise<T>): Promise<T> => {
    work.catch(() => {})
    const silence = Bun.sleep(leaseMs / 2 - holdMs / 2).then(() => Promise.reject(new Error('no answer')))
    return await Promise.race([work, silence])
  }

  /** Resolves once the lock is lost, or if the lock isn't free. */
  const hold = async (): Promise<void> => {
    const { address, isPooled } = await reach()
    sql = openPool({ ...options, max: 1 }, address)
    const session: ReservedSQL = await inTime(sql.reserve())
    // A pooler may use another session for each transaction, so one transaction holds the lock.
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
        // Another process may have the lock now.
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
