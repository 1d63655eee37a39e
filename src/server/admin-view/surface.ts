/** The admin API of a running server, assembled on first use. */
import { join } from 'node:path'
import { type AdminDeps, type Asker, toDashboard } from '../../admin/deps.ts'
import type { Admin } from '../../admin/instance.ts'
import { createFileThread } from '../../catalog/file-thread.ts'
import { loadModelFiles, MODELS_FOLDER } from '../../catalog/source.ts'
import type { Cluster } from '../../cluster/cluster.ts'
import type { SharedSignIn } from '../../cluster/config-part.ts'
import { isOnDuty } from '../../cluster/duties.ts'
import { hasProxy } from '../../config.ts'
import { type IpRange, isIn, toIp, toIpText } from '../../domain/ip.ts'
import { once } from '../../domain/once.ts'
import type { Environment } from '../../domain/snapshot.ts'
import { createIpOf } from '../../http/client-ip.ts'
import { IDLE_SECONDS } from '../../http/endpoints.ts'
import type { Listener } from '../../http/instance.ts'
import { createAttempts } from '../../identity/attempts.ts'
import type { OidcSettings } from '../../identity/oidc.ts'
import type { PendingSignIn } from '../../identity/oidc-provider.ts'
import { SetupCode } from '../../identity/passwords.ts'
import { Pending } from '../../identity/pending.ts'
import { isSetUp } from '../../identity/sign-in.ts'
import type { ClientIp } from '../../keys/token.ts'
import type { CorrectionDeps } from '../../ledger/reconcile/correct.ts'
import type { Refusals } from '../../ledger/refusals.ts'
import { createVault, rotateSecret } from '../../store/vault.ts'
import { createAlertWatch } from '../alerts.ts'
import { createFacts } from '../outward/facts.ts'
import { createLookUp } from '../outward/look-up.ts'
import { createLocalLook } from '../outward/questions.ts'
import type { LiveRequests } from './live-requests.ts'
import type { ReportsDeps } from './reports.ts'

export interface AdminSurfaceDeps
  extends Pick<
    AdminDeps,
    | 'store'
    | 'alerts'
    | 'vault'
    | 'identity'
    | 'serving'
    | 'backups'
    | 'publicUrls'
    | 'isSecure'
    | 'ways'
    | 'now'
    | 'log'
  > {
  /** Null without an identity provider. */
  oidcSettings: OidcSettings | null
  dataFolder: string
  ledger: CorrectionDeps['ledger']
  reader: CorrectionDeps['reader']
  instance: string
  refusals: Pick<Refusals, 'flush'>
  cluster: (NonNullable<ReportsDeps['cluster']> & Pick<Cluster, 'leader'>) | null
  liveRequests: Pick<LiveRequests, 'follow' | 'followByCommand'>
  trustedProxies: readonly IpRange[]
  environment: Environment
  /** Null without a cluster. */
  sharedSignIn: SharedSignIn | null
}

/** A warning if all users seem to share one IP address, else null. */
export const toAddressWarning = ({
  publicUrls,
  trustedProxies,
}: Pick<AdminSurfaceDeps, 'publicUrls' | 'trustedProxies'>) =>
  publicUrls.length > 0 && trustedProxies.length === 0
    ? '--public-url is set without --trusted-proxy: wrong passwords by anyone can lock out all users for a while'
    : null

/** Caller of reports, whose number is limited per caller. */
const ALERTS: Asker = { id: 'alerts' }
/** Spend of ten thousand keys takes a while to read. */
const ALERT_SPEND_MS = 60_000

export function createAdminSurface(surface: AdminSurfaceDeps) {
  const { dataFolder, ledger, reader, instance, refusals, liveRequests, cluster, ...others } = surface
  const { trustedProxies, oidcSettings, environment, sharedSignIn, ...deps } = others
  const { identity, now } = deps
  const setupCode = new SetupCode(sharedSignIn?.notesOf('setup'))
  const catalogFiles = createFileThread()
  let ipOf: ((request: Request) => ClientIp) | null = null
  const addressOf = (request: Request) => toAddress(ipOf?.(request) ?? null)
  let untrustedProxy: string | null = null
  const noteProxy = (request: Request) => {
    if (!request.headers.has('x-forwarded-for') && !request.headers.has('forwarded')) return
    const peer = toIp(listener?.server?.requestIP(request)?.address ?? '')
    if (peer === null || trustedProxies.some((range) => isIn(range, peer))) return
    if (untrustedProxy === null)
      deps.log.warn(
        'proxy_not_trusted',
        'X-Forwarded-For from this address is ignored; if it is your reverse proxy, set --trusted-proxy, or all its clients count as one address',
        { ip: toIpText(peer) },
      )
    untrustedProxy = toIpText(peer)
  }
  let listener: Listener | null = null
  /** Requests over the control socket, which aren't on the listener's connections. */
  const ofOperator = new WeakSet<Request>()
  const live = {
    follow: liveRequests.follow,
    followByCommand: liveRequests.followByCommand,
    keepOpen(request: Request, isKept = true) {
      if (!ofOperator.has(request)) listener?.server?.timeout(request, isKept ? 0 : IDLE_SECONDS)
    },
  }
  const reports = once(async () =>
    (await import('./reports.ts')).createReports({ dataFolder, ledger, refusals, cluster, now }),
  )
  const watch = createAlertWatch({
    alerts: deps.alerts,
    isOnDuty: cluster && (() => isOnDuty('alerts', cluster)),
    log: deps.log,
    async load() {
      const [{ createTeller }, { createSeen }, { toAlerts }] = await Promise.all([
        import('../../alerts/teller.ts'),
        import('../../admin/seen.ts'),
        import('../../documents/active-alerts.ts'),
      ])
      const seen = createSeen({ ...deps, reports: await reports.get() }, ALERT_SPEND_MS)
      return {
        teller: createTeller({ ...deps, dashboardUrl: toDashboard(deps.publicUrls) }),
        find: async () => toAlerts(await seen(ALERTS)),
      }
    },
  })
  const made = once(async (): Promise<Admin> => {
    const [{ createAdminApi }, ownReports, { createCorrections }, oidc] = await Promise.all([
      import('../../admin/app.ts'),
      reports.get(),
      import('../../ledger/reconcile/correct.ts'),
      oidcSettings && loadOidc(oidcSettings, { ...deps, sharedSignIn }),
    ])
    return createAdminApi({
      ...deps,
      reports: ownReports,
      alertsChanged: () => void watch.renew(true),
      corrections: createCorrections({ ledger, reader, store: deps.store, instance }),
      oidc,
      live,
      catalogFiles,
      loadModelFiles: () => loadModelFiles(join(dataFolder, MODELS_FOLDER)),
      lookUp: createLookUp({ isProxied: hasProxy(environment) }),
      thisMachine: { findServers: createLocalLook(), isSet: (variable) => Boolean(environment[variable]) },
      facts: createFacts(environment),
      setupCode,
      pendingPasskeys: new Pending(sharedSignIn?.notesOf('passkey')),
      attempts: createAttempts(identity, deps.log, sharedSignIn?.failures),
      addressOf,
      // Uses a separate vault: the current one caches decrypted credentials.
      rotateSecret: (by) =>
        rotateSecret(
          { ...deps, dataFolder, vault: createVault(dataFolder, environment), isShared: sharedSignIn !== null },
          by,
        ),
    })
  })

  return {
    /** IP address of an untrusted proxy that forwards requests; null if none was seen. */
    untrustedProxy: () => untrustedProxy,
    async handle(request: Request): Promise<Response> {
      noteProxy(request)
      return (await made.get()).handle(request)
    },
    /** For the control socket, whose user needs no authentication. */
    async handleOperator(request: Request): Promise<Response> {
      ofOperator.add(request)
      return (await made.get()).handleOperator(request)
    },
    /** @param app the instance that has the connections. */
    listensOn(app: Listener): void {
      listener = app
      const find = createIpOf(app, trustedProxies)
      ipOf = (request) => find(request, Object.fromEntries(request.headers))
    },
    async close(): Promise<void> {
      await watch.close()
      const begun = await reports.begun()?.catch(() => null)
      begun?.close()
      catalogFiles.close()
    },
    startAlerts: () => watch.renew(),
    stopAlerts: () => watch.close(),
    /** Creates the setup code for the first owner; null if there is one, or passwords are disabled. */
    async setupCode(): Promise<string | null> {
      if (!deps.ways.includes('password') || isSetUp(await identity.readAdmins(), deps.ways)) return null
      return setupCode.make(now())
    },
  }
}

async function loadOidc(
  settings: OidcSettings,
  { log, now, sharedSignIn }: Pick<AdminSurfaceDeps, 'log' | 'now' | 'sharedSignIn'>,
) {
  const { createProvider } = await import('../../identity/oidc-provider.ts')
  return {
    settings,
    provider: createProvider({ settings, log, now }),
    pending: new Pending<PendingSignIn>(sharedSignIn?.notesOf('provider')),
  }
}

export function toDashboardUrl(baseUrl: string, publicUrls: readonly string[]): string {
  const own = new URL('/admin', baseUrl)
  if (['0.0.0.0', '[::]'].includes(own.hostname)) own.hostname = '127.0.0.1'
  return publicUrls[0] === undefined ? own.href : `${publicUrls[0]}/admin`
}

function toAddress(client: ClientIp): string {
  if (client === null) return 'unknown'
  const ip = 'behind' in client ? client.behind : client
  return toIpText(ip)
}
