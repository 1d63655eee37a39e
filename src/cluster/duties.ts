/**
 * Where a server's scheduled work runs in a cluster: here and only here it is decided. What isn't listed is of each node: its journal, its SQLite file and the
 * requests in that, backups of the file, health checks, certificates, metrics, and traces.
 */
import type { Cluster } from './cluster.ts'

/**
 * Once per cluster, by the leader.
 *
 * - `alerts`: look for what is wrong, and tell targets
 * - `removal`: of old keys and audit entries, which all nodes have
 * - `ledger`: months of PostgreSQL's ledger, and requests of nodes that left
 * - `nodes`: notice those that are silent or report a problem
 */
export type Duty = 'alerts' | 'removal' | 'ledger' | 'nodes'

/** A server without a cluster does all of its work. */
export const isOnDuty = (_: Duty, cluster: Pick<Cluster, 'leader'> | null): boolean => cluster?.leader.isLeader ?? true
