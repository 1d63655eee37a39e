/**
 * What the server's database is kept in order by, on threads of their own, so that no disk ever stops the event loop: checkpoints,
 * and slices of retention, which never wait for another writer. Talks to `checkpoint.ts` and `upkeep.ts` alone.
 */
import { Database } from 'bun:sqlite'
import { syncPath } from '../files.ts'
import type { OldRows, Pruned, PruneSlice, Took } from '../ledger-store.ts'
import type { Reached } from '../store.ts'
import { isBusy } from './errors.ts'
import { dropSlice, pruneSlice, vacuumSlice } from './prune.ts'

declare const self: Worker

export type WorkerRequest = { path: string } & (
  | { kind: 'checkpoint'; mode: CheckpointMode }
  | { kind: 'prune'; slice: PruneSlice; nowMs: number }
  | { kind: 'drop'; old: OldRows; nowMs: number }
  | { kind: 'give_back'; pages: number }
)

export type WorkerReply =
  | { kind: 'reached'; reached: Exclude<Reached, 'nowhere'> }
  | { kind: 'pruned'; pruned: Pruned & Took }
  | { kind: 'dropped'; dropped: { rows: number } & Took }
  | { kind: 'given_back'; took: Took }
  | { kind: 'busy' }
  | { kind: 'failed'; error: string }

self.onmessage = (event: MessageEvent<WorkerRequest>) => {
  self.postMessage(reply(event.data))
}
self.postMessage('ready')

function reply(request: WorkerRequest): WorkerReply {
  const startMs = performance.now()
  const timed = <T extends object>(done: T) => ({ ...done, tookMs: performance.now() - startMs })
  try {
    // Closed before the answer: a connection kept would be closed some time after the thread was ended, and where it is
    // the last one, SQLite then removes the WAL from a folder that others may be using, or removing, by now.
    using database = connect(request)
    switch (request.kind) {
      case 'checkpoint':
        return { kind: 'reached', reached: checkpoint(database, request) }
      case 'prune':
        return { kind: 'pruned', pruned: timed(pruneSlice(database, request.slice, request.nowMs)) }
      case 'drop':
        return { kind: 'dropped', dropped: timed(dropSlice(database, request.old, request.nowMs)) }
      case 'give_back':
        return { kind: 'given_back', took: timed(vacuumSlice(database, request.pages)) }
    }
  } catch (error) {
    if (isBusy(error) && request.kind !== 'checkpoint') return { kind: 'busy' }
    return { kind: 'failed', error: String(error) }
  }
}

/** RESTART holds the write lock while it waits for readers: less than the ledger's patience, and the WAL grows on. */
const CHECKPOINT_BUSY_MS = 20

function connect({ path, kind }: WorkerRequest): Database {
  const connection = new Database(path, { readwrite: true })
  connection.run(`PRAGMA busy_timeout = ${kind === 'checkpoint' ? CHECKPOINT_BUSY_MS : 0}`)
  // A commit that waits for the disk would keep the ledger waiting: the checkpoint syncs.
  connection.run('PRAGMA synchronous = NORMAL')
  connection.run('PRAGMA wal_autocheckpoint = 0')
  return connection
}

export type CheckpointMode = 'RESTART' | 'TRUNCATE'

/**
 * PASSIVE does nearly all of the work without a lock; RESTART then holds the write lock for a moment, so that the next
 * writer begins the WAL from its start instead of letting it grow. TRUNCATE gives its room back to the disk, too.
 */
function checkpoint(database: Database, { path, mode }: { path: string; mode: CheckpointMode }): 'file' | 'log' {
  const run = (how: 'PASSIVE' | CheckpointMode) =>
    database.query<{ busy: number }, []>(`PRAGMA wal_checkpoint(${how})`).get()
  run('PASSIVE')
  if (run(mode)?.busy === 0) return 'file'
  // SQLite has no lock on the log itself, so that closing it here ends none.
  syncPath(`${path}-wal`)
  return 'log'
}
