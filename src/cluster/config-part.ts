/** The part of a node that shares its configuration with all nodes of the cluster. */

import { ServiceError } from '../domain/service-error.ts'
import type { SignInFailures } from '../domain/sign-in-failures.ts'
import type { SignInNoteKind, SignInNotes } from '../domain/sign-in-notes.ts'
import type { Log } from '../log.ts'
import type { ConfigReplica } from '../store/config-replica.ts'
import type { ConfigStore } from '../store/config-store.ts'
import type { IdentityStore } from '../store/identity-store.ts'
import type { Postgres } from '../store/postgres/client.ts'
import type { SecretFile } from '../store/secret.ts'
import type { Cluster } from './cluster.ts'
import { createConfigFeed } from './config-feed.ts'
import { createConfigLog } from './config-log.ts'
import { revokeAgain } from './revoke-again.ts'
import { createSharedFailures } from './sign-in-failures.ts'
import { createSharedNotes } from './sign-in-notes.ts'

export interface ConfigPartDeps {
  replica: ConfigReplica
  store: ConfigStore
  identity: IdentityStore
  /** True if the ledger has requests. */
  hasHistory(): boolean
  secret: SecretFile
  log: Log
  /** Wall clock, ms. */
  now(): number
}

/** Sign-in state shared with other nodes. */
export interface SharedSignIn {
  notesOf(kind: SignInNoteKind): SignInNotes
  failures: SignInFailures
}

/** Joins, if PostgreSQL can be reached. Throws a ServiceError if this node's configuration can't be the cluster's. */
export async function shareConfig(cluster: Cluster, deps: ConfigPartDeps): Promise<SharedSignIn> {
  const { store, identity, now } = deps
  const postgres = cluster.connect()
  const feed = createConfigFeed({
    ...{ ...deps, postgres, node: cluster.node.id },
    revoke: (lost) => revokeAgain({ store, identity }, lost, now()),
  })
  const state = () => feed.state()
  await cluster.add({
    facts: () => ({ config_seq: state().seq, config_stale_since_ms: state().staleSinceMs }),
    problem: () => state().problem,
    async joined() {
      if (deps.replica.position() === null && deps.hasHistory()) await requireBegun(postgres, cluster.node.id)
      return await feed.join()
    },
    handOver: feed.stop,
    takeBack: feed.start,
    async close() {
      await feed.stop()
      await postgres.close()
    },
  })
  return {
    notesOf: (kind) => createSharedNotes(cluster.postgres, kind),
    failures: createSharedFailures(cluster.postgres),
  }
}

/** Otherwise the cluster would begin without this node's requests and spend. */
async function requireBegun(postgres: Postgres, node: string): Promise<void> {
  if ((await createConfigLog(postgres, node).readHead()) !== null) return
  throw new ServiceError(
    { kind: 'cluster_foreign' },
    'This data folder has a history of requests, which the new cluster would lack. Import it first: tollgate cluster import FOLDER',
  )
}
