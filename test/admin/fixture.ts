/** The admin API over a real database, with a settable clock and browsers that keep cookies. */
import { join } from 'node:path'
import { createAdminApi } from '../../src/admin/app.ts'
import type { Serving } from '../../src/admin/deps.ts'
import { createBackupList } from '../../src/backup/backup-list.ts'
import { createFileThread } from '../../src/catalog/file-thread.ts'
import type { Found } from '../../src/catalog/remote.ts'
import { loadModelFiles, MODELS_FOLDER } from '../../src/catalog/source.ts'
import { toSettingTexts } from '../../src/config.ts'
import { toUpstreamStatuses } from '../../src/documents/upstream.ts'
import type { Role, SignInMethod } from '../../src/domain/roles.ts'
import type { Snapshot } from '../../src/domain/snapshot.ts'
import { createHealth } from '../../src/health/health.ts'
import { ANY_KEY, listModels } from '../../src/http/models.ts'
import { inviteAdmin } from '../../src/identity/admins.ts'
import { createAttempts } from '../../src/identity/attempts.ts'
import type { OidcSettings } from '../../src/identity/oidc.ts'
import { createProvider, type PendingSignIn } from '../../src/identity/oidc-provider.ts'
import { SetupCode } from '../../src/identity/passwords.ts'
import { Pending } from '../../src/identity/pending.ts'
import { createToken } from '../../src/identity/principal.ts'
import { createLog } from '../../src/log.ts'
import { createLiveRequests } from '../../src/server/admin-view/live-requests.ts'
import { type ReportRequest, report } from '../../src/server/admin-view/report.ts'
import { createReports } from '../../src/server/admin-view/reports.ts'
import { createAllBackends } from '../../src/server/backends.ts'
import {
  listModels as askForModels,
  createListAt,
  findLocalServers,
  testById,
} from '../../src/server/outward/questions.ts'
import type { ConfigStore } from '../../src/store/config-store.ts'
import { toSnapshot } from '../../src/store/snapshot.ts'
import { createAlertStore } from '../../src/store/sqlite/alert-store.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { createIdentityStore } from '../../src/store/sqlite/identity-store.ts'
import { createVault, type Vault } from '../../src/store/vault.ts'
import { createFolder, HOUR } from '../ledger/fixture.ts'
import { expectDescribed } from './described.ts'

export const PASSWORD = 'a long way to the sea'
/** A cheap hash: otherwise sign-ins would take most of a test. */
const PASSWORD_HASH =
  '$argon2id$v=19$m=64,t=1,p=1$AP0KY7yUetdP3ZnDoHZsvF+j1EGDuhAysrq3sXLFfb8$flyfZTQYnQGvz0ukTnLIFC8vHRcDOlidr9FGIbieU3I'
export const PUBLIC_URL = 'https://gateway.example.com'

export interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: whatever a route answers with, for a test to look into
  body: any
  text: string
  headers: Headers
}

export interface Asked {
  body?: unknown
  headers?: Record<string, string>
  /** Which of the server's URLs is called. */
  origin?: string
}

export interface FixtureOptions {
  oidc?: OidcSettings
  waitMs?: number
  ways?: readonly SignInMethod[]
}

export function createFixture({ oidc, waitMs, ways = ['password', 'oidc'] }: FixtureOptions = {}) {
  const folder = createFolder()
  const clock = { ms: HOUR }
  const now = () => clock.ms
  const lines: string[] = []
  const store = createConfigStore(folder.database)
  const identity = createIdentityStore(folder.database)
  const setupCode = new SetupCode()
  const vault = createVault(folder.path)
  const environment: Record<string, string> = {}
  const serving = createServing(store, vault, environment)
  const catalogFiles = createFileThread()
  /** Newer public facts, unless a test sets others. */
  const published = { source: 'https://facts.example/api.json', text: '{}' }
  /** Resolved host names; any other is left to a proxy. */
  const hosts: Record<string, Found> = {}
  const lookedUp: string[] = []
  /** Replaces the usual local ports. */
  const localAt: string[] = []
  const live = createLiveRequests({ snapshot: () => serving.snapshot() ?? EMPTY, checkMs: 20 })
  // As on its thread, which `server/reports.test.ts` starts.
  const thread = { ask: (request: ReportRequest) => report(request), dismiss() {}, close() {} }
  const flush = async () => ({ applied: 0, waiting: 0 })
  const log = createLog({ now, write: async (text) => void lines.push(text.toString()) })
  const toOidc = (settings: OidcSettings) => ({
    ...{ settings, pending: new Pending<PendingSignIn>() },
    provider: createProvider({ ...{ settings, log, now }, ...(waitMs === undefined ? {} : { waitMs }) }),
  })
  /** Creates a backup, unless a test overrides it. */
  const making = { make: (file: string): Promise<string | null> => Bun.write(file, 'all of it').then(() => null) }
  const make = (file: string) => making.make(file)
  const admin = createAdminApi({
    backups: createBackupList({ dataFolder: folder.path, store, everyMs: 0, keep: 1, make, now, log }),
    thisMachine: { findServers: () => findLocalServers({ at: localAt }), isSet: (name) => Boolean(environment[name]) },
    loadModelFiles: () => loadModelFiles(join(folder.path, MODELS_FOLDER)),
    ...{ store, vault, identity, serving, catalogFiles, setupCode, now, log, publicUrls: [PUBLIC_URL] },
    ...{ ways: oidc ? ways : ['password'], oidc: oidc ? toOidc(oidc) : null },
    ...{ attempts: createAttempts(identity, log), pendingPasskeys: new Pending() },
    lookUp: async (host) => {
      lookedUp.push(host)
      return hosts[host] ?? []
    },
    reports: createReports({
      dataFolder: folder.path,
      ledger: { flush },
      refusals: { flush: async () => {} },
      cluster: null,
      now,
      thread,
    }),
    facts: { source: published.source, read: async () => published.text },
    live: { ...live, keepOpen() {} },
    corrections: { take: async () => ({ taken: 0, nanoUsd: 0 }) },
    rotateSecret: async () => ({ credentials: 0, unopened: [], unopened_alerts: [] }),
    alerts: createAlertStore(folder.database),
    alertsChanged() {},
    addressOf: (request) => request.headers.get('x-test-address') ?? '203.0.113.7',
  })

  /** A browser: keeps cookies, sends no strict cookie after another site's redirect, and sends its origin. */
  function createBrowser(at = 'http://127.0.0.1:4000') {
    const cookies = new Map<string, { value: string; isStrict: boolean }>()
    const toCookies = (isSent: boolean) =>
      [...cookies].flatMap(([name, { value, isStrict }]) => (isSent && isStrict ? [] : [`${name}=${value}`])).join('; ')
    return {
      get cookie() {
        return toCookies(false)
      },
      async ask(method: string, path: string, { body, headers = {}, origin = at }: Asked = {}): Promise<Answer> {
        const sent = body === undefined ? null : JSON.stringify(body)
        const cookie = toCookies(headers['sec-fetch-site'] === 'cross-site')
        // A server sees http, whatever its proxy uses.
        const request = new Request(`http://${new URL(origin).host}/admin/api${path}`, {
          method,
          headers: {
            host: new URL(origin).host,
            ...(method === 'GET' ? {} : { origin }),
            ...(cookie === '' ? {} : { cookie }),
            ...(sent === null ? {} : { 'content-type': 'application/json', 'content-length': String(sent.length) }),
            ...headers,
          },
          body: sent,
        })
        const response = await admin.handle(request)
        for (const set of response.headers.getSetCookie()) {
          const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? []
          if (set.includes('Max-Age=0')) cookies.delete(name)
          else cookies.set(name, { value, isStrict: set.includes('SameSite=Strict') })
        }
        const { status, headers: answered } = response
        if (answered.get('content-type') === 'text/event-stream') {
          void response.body?.cancel()
          return { status, headers: answered, body: null, text: '' }
        }
        const text = await response.text()
        const isJson = text !== '' && !/^text\/(html|csv)/.test(answered.get('content-type') ?? '')
        const read = isJson ? JSON.parse(text) : null
        if (isJson) expectDescribed(admin, method, `/admin/api${path}`, status, read)
        return { status, headers: answered, body: read, text }
      },
    }
  }
  type Browser = ReturnType<typeof createBrowser>

  /** A signed-in account of that role; by default the first owner. */
  async function signIn(role: Role, name: string = role, team: string | null = null, at?: string): Promise<Browser> {
    const by = { actor: 'test', nowMs: clock.ms }
    const { admin } = await inviteAdmin(identity, { name, role, team }, by)
    const known = { ...admin, passwordHash: PASSWORD_HASH, codeHash: null, codeExpiresMs: null }
    const record = { action: 'admins.password', subject: admin.id, detail: { name } } as const
    await identity.changeIdentity(by, () => ({ value: null, change: { ...record, write: { admins: [known] } } }))
    const browser = createBrowser(at)
    const { status } = await browser.ask('POST', '/session', { body: { name, password: PASSWORD } })
    if (status !== 200) throw new Error(`signing in as ${role} answered ${status}`)
    return browser
  }

  let tokens = 0
  return {
    ...{
      folder,
      clock,
      store,
      identity,
      environment,
      hosts,
      lookedUp,
      localAt,
      published,
      serving,
      setupCode,
      admin,
      making,
      live,
      createBrowser,
      signIn,
    },
    /** Requests of a script. */
    async tokenHeaders(scope: 'read' | 'write') {
      const { secret } = await createToken(
        identity,
        { name: `${scope}-${++tokens}`, scope },
        { actor: 'test', nowMs: clock.ms },
      )
      return { authorization: `Bearer ${secret}` }
    },
    /** The whole log. */
    async logged() {
      await log.flush()
      return lines.join('')
    },
    close() {
      catalogFiles.close()
      folder.close()
    },
  }
}

const EMPTY = { secrets: new Map(), teams: new Map() }

/** A server that has called none of its upstreams yet. */
function createServing(store: ConfigStore, vault: Vault, environment: Record<string, string>) {
  let snapshot: Snapshot | null = null
  const sources = { flags: { port: '4001' }, environment: { TOLLGATE_RETENTION: '30d' }, settings: {} }
  const backends = createAllBackends({ environment })
  const health = createHealth({ nowMs: () => 0, wallMs: () => HOUR })
  const serving: Serving = {
    status: async () => ({
      ...{ version: 'test', url: 'http://127.0.0.1:4000/v1', started_ms: HOUR, readiness: 'ok', reasons: [] },
      ...{
        ledger: 'ok',
        pending_records: 0,
        lost: null,
        disk: null,
        certificates: [],
        cluster: null,
        in_flight: 0,
        buffered_bytes: 0,
      },
      backups: { every_ms: 0, keep: 7, failed: null, newest_ms: null },
      checks: [],
    }),
    reasons: () => [],
    cluster: null,
    environment: {},
    readSnapshot: async () => snapshot ?? toSnapshot(await store.read(), environment),
    settings: toSettingTexts(sources),
    upstreams: () => (snapshot ? toUpstreamStatuses(snapshot, []) : []),
    modelsOf: (teamId) =>
      snapshot
        ? listModels(
            { live: { snapshot }, health, serverStateOf: () => null, speedOf: () => null },
            { ...ANY_KEY, teamId },
          )
        : [],
    test: async (id) => (snapshot ? testById(id, snapshot, { backends, monotonicMs: () => 0 }) : null),
    async models(id) {
      const upstream = snapshot?.upstreams.get(id)
      return upstream ? askForModels(upstream) : null
    },
    modelsAt: createListAt(environment),
    playgroundKey: (adminId) => snapshot?.playgrounds.get(adminId) ?? null,
    play: async (_endpoint, _request, _headers, { name }) => Response.json({ key: name }),
    async refresh() {
      const rows = await store.read()
      snapshot = toSnapshot(rows, environment, await vault.open(rows.sealed))
    },
  }
  return { ...serving, snapshot: () => snapshot }
}

export type Fixture = ReturnType<typeof createFixture>
export type Browser = ReturnType<Fixture['createBrowser']>
