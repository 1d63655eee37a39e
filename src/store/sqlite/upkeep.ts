/** Runs retention slices on a thread. */
import type { Database } from 'bun:sqlite'
import { timeOfId, toFirstId } from '../../domain/id.ts'
import { createThread } from '../../threads/thread.ts'
import type { LedgerUpkeep } from '../ledger-store.ts'
import { changerOf } from './change.ts'
import { dropShared, readSpace } from './prune.ts'
import type { WorkerReply, WorkerRequest } from './worker.ts'

const IDLE_MS = 10_000

/** @returns close it only when no slice is running: a thread ended within a transaction would leave the database locked. */
export function createLedgerUpkeep(
  path: string,
  sqlite: Database,
  now: () => number,
): LedgerUpkeep & { close(): void } {
  const thread = createThread<WorkerRequest, WorkerReply>('store/sqlite/worker', { idleMs: IDLE_MS })
  // By ID it would scan all old rows; throws without this index.
  const open = sqlite.query<{ id: string }, [string]>(
    `SELECT id FROM requests INDEXED BY requests_open WHERE status = 'open' AND id < ?`,
  )
  const oldest = sqlite.query<{ id: string }, []>('SELECT id FROM requests ORDER BY id LIMIT 1')

  const ask = async (request: WorkerRequest) => {
    const reply = await thread.ask(request, { owner: path })
    if (typeof reply === 'string' || reply.kind === 'busy') return 'busy'
    if (reply.kind === 'failed') throw new Error(reply.error)
    return reply
  }

  return {
    async prune(slice) {
      const reply = await ask({ path, kind: 'prune', slice, nowMs: now() })
      return reply !== 'busy' && reply.kind === 'pruned' ? reply.pruned : 'busy'
    },
    async drop(old) {
      const { change, log } = changerOf(sqlite)
      const { what } = old
      if (log !== null && what !== 'refusals') {
        const startMs = performance.now()
        const rows = await dropShared(sqlite, { change, log }, { ...old, what }, now())
        return { rows, tookMs: performance.now() - startMs, lockedMs: 0 }
      }
      const reply = await ask({ path, kind: 'drop', old, nowMs: now() })
      return reply !== 'busy' && reply.kind === 'dropped' ? reply.dropped : 'busy'
    },
    async giveBack(pages) {
      const reply = await ask({ path, kind: 'give_back', pages })
      return reply !== 'busy' && reply.kind === 'given_back' ? reply.took : 'busy'
    },
    space: () => readSpace(sqlite),
    oldestMs() {
      const row = oldest.get()
      return row && timeOfId(row.id)
    },
    openBefore: (ms) => open.all(toFirstId(ms)).map(({ id }) => id),
    close: thread.close,
  }
}
