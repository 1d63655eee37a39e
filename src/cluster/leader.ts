/** One node at a time does the work that only one must do: retention, snapshots, scheduled work. It is the one that holds the lock. */
import type { Log } from '../log.ts'
import type { Postgres } from '../store/postgres/client.ts'
import { LOCKS } from '../store/postgres/migrate.ts'

export interface Leader {
  readonly isLeader: boolean
  /** Calls it now if this node leads, and at each change. Returns the end of it. */
  onChange(tell: (isLeader: boolean) => void): () => void
  /** Tries to lead. Until then, and after `stop`, another node may. */
  start(): void
  stop(): void
}

export function createLeader(postgres: Pick<Postgres, 'hold'>, log: Log): Leader {
  const listeners = new Set<(isLeader: boolean) => void>()
  let isLeader = false
  let release: (() => void) | null = null
  const changed = (isHeld: boolean) => {
    isLeader = isHeld
    log.info('cluster_leader', isHeld ? 'this node leads the cluster' : 'this node no longer leads the cluster')
    for (const tell of listeners) tell(isHeld)
  }
  return {
    get isLeader() {
      return isLeader
    },
    onChange(tell) {
      listeners.add(tell)
      if (isLeader) tell(true)
      return () => void listeners.delete(tell)
    },
    start() {
      release ??= postgres.hold(LOCKS.leader, changed)
    },
    stop() {
      release?.()
      release = null
    },
  }
}
