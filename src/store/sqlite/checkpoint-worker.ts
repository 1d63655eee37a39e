/**
 * Runs checkpoints on a thread of its own, so that no fsync ever stops the event loop. Talks to `checkpoint.ts` alone.
 * PASSIVE does nearly all of the work without a lock; RESTART then holds the write lock for a moment, so that the next
 * writer begins the WAL from its start instead of letting it grow. TRUNCATE gives its room back to the disk, too.
 */
import { Database } from 'bun:sqlite'
import { syncPath } from '../files.ts'

declare const self: Worker

export interface CheckpointRequest {
  path: string
  mode: 'RESTART' | 'TRUNCATE'
}

/** How far all that was committed before has come, so that it outlives the machine. */
export interface CheckpointReply {
  /**
   * `file`: into the database file, and the WAL begins anew. `log`: into the WAL, whose beginning somebody still reads, such as
   * Litestream, which always does. `nowhere`: that cannot be said.
   */
  reached: 'file' | 'log' | 'nowhere'
  error: string | null
}

self.onmessage = (event: MessageEvent<CheckpointRequest>) => {
  self.postMessage(checkpoint(event.data))
}
self.postMessage('ready')

function checkpoint({ path, mode }: CheckpointRequest): CheckpointReply {
  try {
    // Closed before the answer: a connection kept would be closed some time after the thread was ended, and where it is
    // the last one, SQLite then removes the WAL from a folder that others may be using, or removing, by now.
    using database = connect(path)
    const row = (how: 'PASSIVE' | CheckpointRequest['mode']) =>
      database.query<{ busy: number; log: number; checkpointed: number }, []>(`PRAGMA wal_checkpoint(${how})`).get()
    row('PASSIVE')
    const restart = row(mode)
    if (restart?.busy === 0) return { reached: 'file', error: null }
    // SQLite has no lock on the log itself, so that closing it here ends none.
    syncPath(`${path}-wal`)
    return { reached: 'log', error: null }
  } catch (error) {
    return { reached: 'nowhere', error: String(error) }
  }
}

function connect(path: string): Database {
  const connection = new Database(path, { readwrite: true })
  // RESTART holds the write lock while it waits for readers: less than the ledger's patience, and the WAL grows on.
  connection.run('PRAGMA busy_timeout = 20')
  connection.run('PRAGMA wal_autocheckpoint = 0')
  return connection
}
