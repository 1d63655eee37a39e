/** A server's status from its control socket, with overrides. */

import type { UpstreamStatus, UpstreamTest } from '../../src/documents/upstream.ts'
import { once } from '../../src/domain/once.ts'
import type { Environment } from '../../src/domain/snapshot.ts'
import { createLog } from '../../src/log.ts'
import { createOfflineAdmin } from '../../src/server/admin-view/offline-admin.ts'
import { createControl } from '../../src/server/owner-socket.ts'
import type { Status } from '../../src/server/protocol.ts'
import { takeLock } from '../../src/store/data-folder.ts'
import { openStore, toStoreUrl } from '../../src/store/open.ts'
import { createVault, type VaultState } from '../../src/store/vault.ts'

export const toStatus = (fields: Partial<Status> = {}): Status => ({
  version: '0.2.0',
  instance: '0193',
  pid: 4242,
  url: 'http://127.0.0.1:4000/v1',
  started_ms: 0,
  readiness: 'ok',
  ledger: 'ok',
  lost: null,
  backups: { every_ms: 0, failed: null },
  disk: null,
  certificates: [],
  cluster: null,
  config_revision: 1,
  reasons: [],
  in_flight: 0,
  buffered_bytes: 0,
  files: { limit: 20_000, max_in_flight: 4_096, wanted_in_flight: 4_096 },
  untrusted_proxy: null,
  upstreams: [],
  ...fields,
})

export const toUpstreamStatus = (id: string, fields: Partial<UpstreamStatus> = {}): UpstreamStatus => ({
  id,
  dialect: 'openai',
  preset: null,
  base_url: 'http://127.0.0.1:1/v1',
  local: false,
  deadlines: {
    headers_ms: 60_000,
    first_token_ms: 300_000,
    idle_ms: 90_000,
    total_ms: 3_600_000,
    total_whole_ms: 1_500,
  },
  limits: { rpm: null, tpm: null, concurrency: null },
  credential: 'set',
  credentials: [],
  process: null,
  served: [],
  suspended: [],
  state: 'healthy',
  reason: null,
  last_ok_ms: null,
  last_error: null,
  targets: [],
  ...fields,
})

const NOTHING_SEALED: VaultState = { where: 'the file secret', sealed_by: null, credentials: 0, problems: [] }

/** Simulates a running server: holds the folder's lock and responds on its socket. Returns a function that ends it. */
export function pretendServer(
  dataFolder: string,
  status: Status,
  test: (id: string) => Promise<UpstreamTest | null> = async () => null,
  inspectVault: () => Promise<VaultState> = async () => NOTHING_SEALED,
  environment: Environment = {},
): () => Promise<void> {
  const unlock = takeLock(dataFolder)
  const opened = once(async () => openStore(toStoreUrl(dataFolder)))
  const admin = once(async () => {
    const serving = { test, upstreams: () => status.upstreams }
    const vault = createVault(dataFolder, environment)
    return createOfflineAdmin({ dataFolder, store: await opened.get(), environment, now: Date.now, serving, vault })
  })
  const log = createLog({ now: () => 0, write: async () => {} })
  const control = createControl({
    dataFolder,
    log,
    status: () => status,
    servers: { start: () => false, stop: () => false, settled: async () => null, stopped: async () => null },
    reload: async () => ({ settings: [], variables: [] }),
    flush: async () => ({ applied: 0, waiting: 0 }),
    inspectVault,
    endTails: async () => false,
    admin: async (request) => (await admin.get()).handle(request),
    setupCode: async () => null,
    drain() {},
  })
  return async () => {
    await control.stop()
    await admin.begun()
    const database = await opened.begun()
    database?.close()
    unlock()
  }
}
