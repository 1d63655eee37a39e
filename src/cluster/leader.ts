/** Elects the leader: the one node that does work for all nodes. The leader holds a lock in PostgreSQL. */
import type { Log } from '../log.ts'
import type { Postgres } from '../store/postgres/client.ts'
import { LOCKS } from '../store/postgres/migrate.ts'

export interface Leader {
  readonly isLeader: boolean
  /** Calls `tell` now if this node leads, and at each change. Returns a function that unsubscribes. */
  onChange(tell: (isLeader: boolean) => void): () => void
  /** Tries to become the leader. Before this call and after `stop`, only other nodes can lead. */
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
