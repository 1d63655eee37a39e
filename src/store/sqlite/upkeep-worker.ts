/**
 * Takes old rows away and gives pages back, on a thread of its own, so that no disk ever stops the event loop. Talks to
 * `upkeep.ts` alone: one request is one slice. Never waits for another writer: it is told that it is busy.
 */
import { Database } from 'bun:sqlite'
import { codeOf } from '../../domain/error.ts'
import type { OldRows, Pruned, PruneSlice, Took } from '../ledger-store.ts'
import { isBusy } from './database-file.ts'
import { dropSlice, pruneSlice, vacuumSlice } from './prune.ts'

declare const self: Worker

export type UpkeepRequest = { path: string } & (
  | { kind: 'prune'; slice: PruneSlice; nowMs: number }
  | { kind: 'drop'; old: OldRows; nowMs: number }
  | { kind: 'give_back'; pages: number }
)

export type UpkeepReply =
  | { kind: 'pruned'; pruned: Pruned & Took }
  | { kind: 'dropped'; dropped: { rows: number } & Took }
  | { kind: 'given_back'; took: Took }
  | { kind: 'busy' }
  | { kind: 'failed'; error: string }

self.onmessage = (event: MessageEvent<UpkeepRequest>) => {
  self.postMessage(reply(event.data))
}
self.postMessage('ready')

function reply(request: UpkeepRequest): UpkeepReply {
  const startMs = performance.now()
  const timed = <T extends object>(done: T) => ({ ...done, tookMs: performance.now() - startMs })
  try {
    // Closed before the answer, as in `checkpoint-worker.ts`.
    using database = connect(request.path)
    if (request.kind === 'prune')
      return { kind: 'pruned', pruned: timed(pruneSlice(database, request.slice, request.nowMs)) }
    if (request.kind === 'drop')
      return { kind: 'dropped', dropped: timed(dropSlice(database, request.old, request.nowMs)) }
    return { kind: 'given_back', took: timed(vacuumSlice(database, request.pages)) }
  } catch (error) {
    if (isBusy(codeOf(error))) return { kind: 'busy' }
    return { kind: 'failed', error: String(error) }
  }
}

function connect(path: string): Database {
  const connection = new Database(path, { readwrite: true })
  connection.run('PRAGMA busy_timeout = 0')
  // A commit that waits for the disk would keep the ledger waiting: the checkpoint syncs.
  connection.run('PRAGMA synchronous = NORMAL')
  connection.run('PRAGMA wal_autocheckpoint = 0')
  return connection
}
