/**
 * The admin API within a command if no server runs: the same handlers on the command's database. What needs a running
 * server fails with `no_server`.
 */
import { createParts } from '../../admin/by-resource.ts'
import type { GivenDeps, Serving } from '../../admin/deps.ts'
import { AdminError } from '../../admin/errors.ts'
import type { FileThread } from '../../catalog/file-thread.ts'
import { readNodeId } from '../../cluster/nodes.ts'
import { findClusterUrl } from '../../cluster/url.ts'
import { once } from '../../domain/once.ts'
import { SIGN_IN_METHODS } from '../../domain/roles.ts'
import type { Environment, Upstream } from '../../domain/snapshot.ts'
import { createAttempts } from '../../identity/attempts.ts'
import { SetupCode } from '../../identity/passwords.ts'
import { Pending } from '../../identity/pending.ts'
import { type Behind, readBehind } from '../../ledger/audit.ts'
import type { Log } from '../../log.ts'
import type { Store } from '../../store/store.ts'
import { CLEARED, createVault, inspectVault, rotateSecret, type Vault } from '../../store/vault.ts'
import { createReports } from './reports.ts'

export interface OfflineDeps {
  dataFolder: string
  store: Pick<Store, 'config' | 'identity' | 'alerts' | 'audit'>
  environment: Environment
  /** Wall clock, ms. */
  now(): number
  serving?: Partial<Serving>
  vault?: Vault
}

export interface OfflineAdmin {
  handle(request: Request): Promise<Response>
  behind(): Behind
}

/** No log: callers get errors by `causeOf`. */
const NO_LOG: Log = { info() {}, warn() {}, error() {}, flush: async () => {} }

export function createOfflineAdmin(deps: OfflineDeps): OfflineAdmin {
  const { dataFolder, environment, now, vault = createOwnVault(deps) } = deps
  const { config: store, identity, alerts, audit } = deps.store
  let read: Behind | null = null
  const behind = () => {
    read ??= readBehind(audit, dataFolder)
    return read
  }
  const upstreamOf = async (id: string): Promise<Upstream | null> => {
    const row = (await store.readCatalog()).upstreams.find((one) => one.id === id && one.enabled)
    const opened = row && (await vault.open(await store.readSealed()))
    if (!row) return null
    const { toUpstream } = await import('../../store/upstream.ts')
    return toUpstream(row, environment, 'here', opened?.get(id))
  }
  const backends = once(async () => (await import('../backends.ts')).createAllBackends({ environment, now }))
  const url = findClusterUrl(dataFolder, environment)
  const reports = createReports({
    dataFolder,
    ledger: { flush: async () => ({ applied: 0, waiting: behind().waiting }) },
    refusals: { flush: async () => {} },
    cluster: url === null ? null : { url },
    now,
    // A command may block its thread.
    thread: {
      ask: async (question) => (await import('./report.ts')).report(question),
      ...{ dismiss() {}, close() {} },
    },
  })
  const serving: Serving = {
    environment,
    settings: [],
    status: async () => refuse(),
    reasons: () => [],
    cluster: null,
    upstreams: () => null,
    readSnapshot: async () => (await import('../../store/snapshot.ts')).toSnapshot(await store.read(), environment),
    modelsOf: () => [],
    async test(id) {
      const upstream = await upstreamOf(id)
      if (upstream === null) return null
      const [all, { testUpstream }] = await Promise.all([backends.get(), import('../outward/questions.ts')])
      return testUpstream(upstream, { backend: all[upstream.dialect], monotonicMs: () => performance.now() })
    },
    async models(id) {
      const upstream = await upstreamOf(id)
      return upstream && (await import('../outward/questions.ts')).listModels(upstream)
    },
    modelsAt: async (row, typed) => (await import('../outward/questions.ts')).createListAt(environment)(row, typed),
    playgroundKey: () => null,
    play: async () => refuse(),
    refresh: async () => {},
    ...deps.serving,
  }
  const own: GivenDeps = {
    store,
    alerts,
    // The next server starts them.
    alertsChanged() {},
    vault,
    identity,
    reports,
    serving,
    catalogFiles: CATALOG_FILES,
    now,
    oidc: null,
    ways: SIGN_IN_METHODS,
    publicUrls: [],
    log: NO_LOG,
    live: { follow: () => refuse(), followByCommand: () => refuse(), keepOpen() {} },
    // `tollgate backup` creates them instead.
    backups: {
      ...{ list: refuse, state: refuse, begin: refuse, take: refuse, look: refuse, stop: refuse },
      scheduledFailed: () => null,
    },
    corrections: { take: async () => refuse() },
    // Commands send files and facts themselves, and may use any URL.
    loadModelFiles: async () => refuse(),
    lookUp: async () => refuse(),
    facts: { source: '', read: async () => refuse() },
    thisMachine: {
      findServers: async (at) => (await import('../outward/questions.ts')).findLocalServers(at ? { at } : {}),
      isSet: (variable) => Boolean(environment[variable]),
    },
    setupCode: new SetupCode(),
    pendingPasskeys: new Pending(),
    attempts: createAttempts(identity, NO_LOG),
    addressOf: () => 'unknown',
    rotateSecret: (by) =>
      rotateSecret(
        {
          ...{ dataFolder, store, alerts, vault: createVault(dataFolder, environment) },
          isShared: readNodeId(dataFolder) !== null,
        },
        by,
      ),
  }
  const partOf = createParts(own)
  return {
    async handle(request) {
      const admin = await partOf(request)
      const response = await admin.handleOperator(request)
      const cause = admin.causeOf(request)
      if (cause !== undefined) throw cause
      return response
    },
    behind,
  }
}

const CATALOG_FILES: FileThread = {
  parse: async (text, options) => (await import('../../catalog/file.ts')).parseCatalog(text, options),
  export: async (of) => (await import('../../catalog/file.ts')).toExport(of),
  facts: async ({ text, name }) => (await import('../../catalog/facts-file.ts')).parseFacts(text, name),
  close() {},
}

/** A server would have only one of the secrets. */
function createOwnVault({ dataFolder, environment, store: { config: store } }: OfflineDeps): Vault {
  const vault = createVault(dataFolder, environment)
  return {
    ...vault,
    async seal(credential, place) {
      const { where, sealed_by: id } = await inspectVault(store, dataFolder, environment)
      const sealed = (await store.readSealed()).filter((one) => one.sealed !== CLEARED)
      const opened = [...(await vault.open(sealed)).values()].flat()
      // Every server of this folder has the file's secret.
      const isFile = where !== 'TOLLGATE_SECRET' && id !== null
      if (isFile || opened.length === 0 || opened.some((one) => 'credential' in one))
        return vault.seal(credential, place)
      throw new AdminError(409, 'other_secret', OTHER_SECRET)
    },
  }
}

const OTHER_SECRET =
  "The credential would be encrypted with a different secret than the stored ones, none of which can be decrypted here. Set TOLLGATE_SECRET to the server's value, or put the file `secret` back into the data folder. If it is lost, start the server first, then try again. No changes made."

const NO_SERVER = 'No server is running on this data folder. Start it first: tollgate serve'

function refuse(): never {
  throw new AdminError(409, 'no_server', NO_SERVER)
}
