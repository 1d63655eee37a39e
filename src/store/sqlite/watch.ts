/**
 * Notices that some process changed the configuration. Reads `PRAGMA data_version` on the *writer*, where only foreign
 * commits move it (a reader would see every commit of the ledger), and the revision only if it moved (design 5).
 */
import type { Database } from 'bun:sqlite'
import type { Log } from '../../log.ts'

export const POLL_MS = 25

export interface Watch {
  /** False while the last poll failed: the snapshot in force may be old. */
  healthy(): boolean
  stop(): void
}

/**
 * Polls until it is stopped. `onChange` is called with the new revision; where it throws, the next poll tries again.
 * The log hears of the first failure and of the recovery, not of each poll between.
 */
export function createWatch(
  writer: Database,
  revision: number,
  onChange: (revision: number) => void,
  log?: Log,
): Watch {
  const version = writer.query<{ data_version: number }, []>('PRAGMA data_version')
  const stored = writer.query<{ value: string }, []>("SELECT value FROM settings WHERE key = 'config_revision'")
  let seenVersion = -1
  let seenRevision = revision
  let healthy = true

  const poll = () => {
    try {
      const now = version.get()?.data_version ?? -1
      if (now !== seenVersion) {
        const current = Number(stored.get()?.value ?? 0)
        if (current !== seenRevision) onChange(current)
        seenRevision = current
        seenVersion = now
      }
      if (!healthy) log?.info('changes of the configuration are taken in again', {})
      healthy = true
    } catch (error) {
      if (healthy) {
        log?.error('a change of the configuration cannot be read; what was in force stays', { error: String(error) })
      }
      healthy = false
    }
  }
  const timer = setInterval(poll, POLL_MS)

  return { healthy: () => healthy, stop: () => clearInterval(timer) }
}
