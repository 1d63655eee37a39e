/**
 * Decides when the server's WAL is checkpointed: after a number of commits or at a size, never on the event loop. The thread that
 * does it is started on first need, so that a quiet server does not pay for one.
 */
import type { Database } from 'bun:sqlite'
import type { Log } from '../../log.ts'
import { createThread } from '../../threads/thread.ts'
import type { Reached } from '../store.ts'
import type { CheckpointMode, WorkerReply, WorkerRequest } from './worker.ts'

/** Some 20 MB of WAL where each commit is of a few rows; under load the journal asks for one sooner. */
const COMMITS_BETWEEN = 1_000
/** Changes of the configuration are no commits of the ledger, and one may be large: from this size on the WAL is cut to nothing. */
const MAX_WAL_BYTES = 64 * 1024 ** 2
/** Where somebody reads in it, it is tried again once it is so much larger. */
const GROWN = 1.25

export interface Checkpointer {
  /** Counts a commit. */
  note(): void
  /** Takes notice of how large the WAL is now. */
  noteSize(bytes: number): void
  /** Runs one now, or joins the one that is under way and runs another. */
  run(): Promise<Reached>
  close(): void
}

/** Runs one here, for a start that has nobody to keep waiting yet. Tells whether it covered everything. */
export function checkpointHere(writer: Database): boolean {
  try {
    const row = writer
      .query<{ busy: number; log: number; checkpointed: number }, []>('PRAGMA wal_checkpoint(PASSIVE)')
      .get()
    return row?.busy === 0 && row.log === row.checkpointed
  } catch {
    return false
  }
}

export function createCheckpointer(path: string, log: Log): Checkpointer {
  const thread = createThread<WorkerRequest, WorkerReply>('store/sqlite/worker')
  let commits = 0
  let cutAtBytes = MAX_WAL_BYTES
  let running: Promise<Reached> | null = null

  const checkpoint = async (mode: CheckpointMode): Promise<Reached> => {
    try {
      const reply = await thread.ask({ path, kind: 'checkpoint', mode }, { owner: path })
      if (typeof reply === 'string') return 'nowhere'
      if (reply.kind === 'reached') return reply.reached
      log.warn('checkpoint_failed', 'a checkpoint failed', {
        error: reply.kind === 'failed' ? reply.error : reply.kind,
      })
    } catch (error) {
      log.warn('checkpoint_failed', 'the checkpoint thread failed', { error: String(error) })
    }
    return 'nowhere'
  }

  const start = (mode: CheckpointMode = 'RESTART'): Promise<Reached> => {
    commits = 0
    running = checkpoint(mode).finally(() => {
      running = null
    })
    return running
  }

  return {
    note() {
      if (++commits >= COMMITS_BETWEEN && !running) void start()
    },
    noteSize(bytes) {
      if (bytes < MAX_WAL_BYTES) cutAtBytes = MAX_WAL_BYTES
      if (bytes < cutAtBytes || running) return
      cutAtBytes = bytes * GROWN
      void start('TRUNCATE')
    },
    async run() {
      await running
      // Of several who waited, the first starts one that covers them all.
      return running ?? start()
    },
    close: thread.close,
  }
}
