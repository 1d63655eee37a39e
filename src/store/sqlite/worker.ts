/** Checkpoints and retention slices on threads, so that no disk blocks the event loop. Slices never wait for other writers. */
import { Database } from 'bun:sqlite'
import { syncPath } from '../files.ts'
import type { OldRows, Pruned, PruneSlice, SliceTiming } from '../ledger-store.ts'
import type { CheckpointResult } from '../store.ts'
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
  | { kind: 'reached'; reached: Exclude<CheckpointResult, 'nowhere'> }
  | { kind: 'pruned'; pruned: Pruned & SliceTiming }
  | { kind: 'dropped'; dropped: { rows: number } & SliceTiming }
  | { kind: 'given_back'; took: SliceTiming }
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
    // Closed before the reply: later, with the thread, it may be the last connection, and SQLite would remove the WAL from a folder that others may be using by
    // then.
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

/** RESTART holds the write lock while waiting: shorter than the ledger's patience. */
const CHECKPOINT_BUSY_MS = 20

function connect({ path, kind }: WorkerRequest): Database {
  const connection = new Database(path, { readwrite: true })
  connection.run(`PRAGMA busy_timeout = ${kind === 'checkpoint' ? CHECKPOINT_BUSY_MS : 0}`)
  // Commits must not wait for the disk.
  connection.run('PRAGMA synchronous = NORMAL')
  connection.run('PRAGMA wal_autocheckpoint = 0')
  return connection
}

export type CheckpointMode = 'RESTART' | 'TRUNCATE'

/** PASSIVE does most work without a lock; RESTART then briefly takes the write lock, so that the WAL starts over. TRUNCATE also frees its space. */
function checkpoint(database: Database, { path, mode }: { path: string; mode: CheckpointMode }): 'file' | 'log' {
  const run = (how: 'PASSIVE' | CheckpointMode) =>
    database.query<{ busy: number }, []>(`PRAGMA wal_checkpoint(${how})`).get()
  run('PASSIVE')
  if (run(mode)?.busy === 0) return 'file'
  // Safe to close: SQLite has no locks on the log file itself.
  syncPath(`${path}-wal`)
  return 'log'
}
