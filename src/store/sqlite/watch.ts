/**
 * Notices that some process changed the configuration. Reads `PRAGMA data_version` on the *writer*, where only foreign
 * commits move it (a reader would see every commit of the ledger), and the revision only if it moved, or if this connection
 * itself has changed something.
 */
import type { Database } from 'bun:sqlite'
import type { Log } from '../../log.ts'
import type { Watch } from '../config-store.ts'
import { countOwnChanges } from './revision.ts'

const POLL_MS = 25

/** Polls until it is stopped; see `ConfigStore.watch`. */
export function createWatch(
  writer: Database,
  revision: number,
  onChange: (revision: number) => Promise<void>,
  log?: Log,
): Watch {
  const version = writer.query<{ data_version: number }, []>('PRAGMA data_version')
  const stored = writer.query<{ value: string }, []>("SELECT value FROM settings WHERE key = 'config_revision'")
  let seenVersion = -1
  let seenOwn = -1
  let seenRevision = revision
  let healthy = true
  let isBusy = false
  let isStopped = false

  const look = async () => {
    const now = version.get()?.data_version ?? -1
    const own = countOwnChanges(writer)
    if (now === seenVersion && own === seenOwn) return
    const current = Number(stored.get()?.value ?? 0)
    if (current !== seenRevision) await onChange(current)
    seenRevision = current
    seenVersion = now
    seenOwn = own
  }
  const poll = async () => {
    if (isBusy) return
    isBusy = true
    try {
      await look()
      if (!healthy) log?.info('config_readable', 'changes of the configuration are taken in again')
      healthy = true
    } catch (error) {
      if (healthy && !isStopped)
        log?.error('config_unreadable', 'a change of the configuration cannot be read; what was in force stays', {
          error: String(error),
        })
      healthy = false
    }
    isBusy = false
  }
  const timer = setInterval(poll, POLL_MS)

  return {
    healthy: () => healthy,
    stop() {
      isStopped = true
      clearInterval(timer)
    },
  }
}
