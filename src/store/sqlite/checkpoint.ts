/** Checkpoints the WAL after a number of commits or at a size, on a thread. */
import type { Database } from 'bun:sqlite'
import type { Log } from '../../log.ts'
import { createThread } from '../../threads/thread.ts'
import type { CheckpointResult } from '../store.ts'
import type { CheckpointMode, WorkerReply, WorkerRequest } from './worker.ts'

/** About 20 MB of WAL; under load the journal requests them sooner. */
const COMMITS_BETWEEN = 1_000
/** Configuration changes are not counted and may be large: then the WAL is truncated. */
const MAX_WAL_BYTES = 64 * 1024 ** 2
/** Growth before a retry, if a reader blocked the last checkpoint. */
const GROWN = 1.25

export interface Checkpointer {
  note(): void
  noteSize(bytes: number): void
  /** Waits for a running checkpoint first. */
  run(): Promise<CheckpointResult>
  close(): void
}

/** For startup. True if it covered everything. */
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
  let running: Promise<CheckpointResult> | null = null

  const checkpoint = async (mode: CheckpointMode): Promise<CheckpointResult> => {
    try {
      const reply = await thread.ask({ path, kind: 'checkpoint', mode }, { owner: path })
      if (typeof reply === 'string') return 'nowhere'
      if (reply.kind === 'reached') return reply.reached
      log.warn('checkpoint_failed', 'checkpoint failed', {
        error: reply.kind === 'failed' ? reply.error : reply.kind,
      })
    } catch (error) {
      log.warn('checkpoint_failed', 'checkpoint thread failed', { error: String(error) })
    }
    return 'nowhere'
  }

  const start = (mode: CheckpointMode = 'RESTART'): Promise<CheckpointResult> => {
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
      // The first of several callers starts one for all.
      return running ?? start()
    },
    close: thread.close,
  }
}
