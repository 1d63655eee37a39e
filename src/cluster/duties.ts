/**
 * The only place that decides where scheduled work runs in a cluster. Each node does all other work: its journal, its SQLite file with its requests, backups of
 * this file, health checks, certificates, metrics, and traces.
 */
import type { Cluster } from './cluster.ts'

/**
 * Once per cluster, by the leader.
 *
 * - `alerts`: find problems, and send alerts
 * - `removal`: remove old keys and audit entries, on all nodes
 * - `ledger`: maintain monthly partitions in PostgreSQL, and requests of nodes that left
 * - `nodes`: report nodes that are silent or have a problem
 */
export type Duty = 'alerts' | 'removal' | 'ledger' | 'nodes'

/** A server without a cluster does all of its work. */
export const isOnDuty = (_: Duty, cluster: Pick<Cluster, 'leader'> | null): boolean => cluster?.leader.isLeader ?? true
