/** The admin API of a running server: its parts put together, and made when it is first asked. Called by `server.ts`. */
import { join } from 'node:path'
import type { AdminDeps } from '../../admin/deps.ts'
import type { Admin } from '../../admin/instance.ts'
import { createFileThread } from '../../catalog/file-thread.ts'
import { loadModelFiles, MODELS_FOLDER } from '../../catalog/source.ts'
import { hasProxy } from '../../config.ts'
import { type IpRange, isIn, toIp, toIpText } from '../../domain/ip.ts'
import { once } from '../../domain/once.ts'
import type { Environment } from '../../domain/snapshot.ts'
import { createIpOf } from '../../http/client-ip.ts'
import type { Listener } from '../../http/instance.ts'
import { createAttempts } from '../../identity/attempts.ts'
import type { OidcSettings } from '../../identity/oidc.ts'
import type { PendingSignIn } from '../../identity/oidc-provider.ts'
import { SetupCode } from '../../identity/passwords.ts'
import { Pending } from '../../identity/pending.ts'
import { isSetUp } from '../../identity/sign-in.ts'
import type { ClientIp } from '../../keys/token.ts'
import type { Ledger } from '../../ledger/ledger.ts'
import { createVault, rotateSecret } from '../../store/vault.ts'
import { createFacts } from '../outward/facts.ts'
import { createLookUp } from '../outward/look-up.ts'
import { createLocalLook } from '../outward/questions.ts'
import type { LiveRequests } from './live-requests.ts'

export interface AdminSurfaceDeps
  extends Pick<
    AdminDeps,
    'store' | 'vault' | 'identity' | 'serving' | 'backups' | 'publicUrls' | 'ways' | 'now' | 'log'
  > {
  /** Null where nobody signs in through an identity provider. */
  oidcSettings: OidcSettings | null
  dataFolder: string
  ledger: Pick<Ledger, 'flush'>
  liveRequests: Pick<LiveRequests, 'follow' | 'followByCommand'>
  trustedProxies: readonly IpRange[]
  environment: Environment
}

/** A sentence for whoever has started a server that everybody seems to use from one address; null where that is not so. */
export const toAddressWarning = ({
  publicUrls,
  trustedProxies,
}: Pick<AdminSurfaceDeps, 'publicUrls' | 'trustedProxies'>) =>
  publicUrls.length > 0 && trustedProxies.length === 0
    ? 'there is a --public-url and no --trusted-proxy: wrong passwords of anybody may keep everybody out for a while'
    : null

export function createAdminSurface(surface: AdminSurfaceDeps) {
  const { dataFolder, ledger, liveRequests, trustedProxies, oidcSettings, environment, ...deps } = surface
  const { identity, now } = deps
  const setupCode = new SetupCode()
  const catalogFiles = createFileThread()
  let ipOf: ((request: Request) => ClientIp) | null = null
  const addressOf = (request: Request) => toAddress(ipOf?.(request) ?? null)
  /** The last proxy that forwarded a request here and is not trusted. */
  let untrustedProxy: string | null = null
  const noteProxy = (request: Request) => {
    if (!request.headers.has('x-forwarded-for') && !request.headers.has('forwarded')) return
    const peer = toIp(listener?.server?.requestIP(request)?.address ?? '')
    if (peer === null || trustedProxies.some((range) => isIn(range, peer))) return
    if (untrustedProxy === null)
      deps.log.warn(
        'proxy_not_trusted',
        'X-Forwarded-For of this address is ignored; if that is your reverse proxy, start with --trusted-proxy, or all its clients count as one address',
        { ip: toIpText(peer) },
      )
    untrustedProxy = toIpText(peer)
  }
  let listener: Listener | null = null
  /** What came over the control socket: none of these connections is the listener's. */
  const ofOperator = new WeakSet<Request>()
  const live = {
    follow: liveRequests.follow,
    followByCommand: liveRequests.followByCommand,
    keepOpen(request: Request) {
      if (!ofOperator.has(request)) listener?.server?.timeout(request, 0)
    },
  }
  const made = once(async (): Promise<Admin & { close(): void }> => {
    const [{ createAdminApi }, { createReports }, oidc] = await Promise.all([
      import('../../admin/app.ts'),
      import('./reports.ts'),
      oidcSettings && loadOidc(oidcSettings, deps),
    ])
    const reports = createReports({ dataFolder, ledger, now })
    const admin = createAdminApi({
      ...deps,
      reports,
      oidc,
      live,
      catalogFiles,
      loadModelFiles: () => loadModelFiles(join(dataFolder, MODELS_FOLDER)),
      lookUp: createLookUp({ isProxied: hasProxy(environment) }),
      thisMachine: { findServers: createLocalLook(), isSet: (variable) => Boolean(environment[variable]) },
      facts: createFacts(environment),
      setupCode,
      pendingPasskeys: new Pending(),
      attempts: createAttempts(identity, deps.log),
      addressOf,
      // With a vault of its own: the one in use keeps what it has opened.
      rotateSecret: (by) =>
        rotateSecret({ dataFolder, store: deps.store, vault: createVault(dataFolder, environment) }, by),
    })
    return { ...admin, close: reports.close }
  })

  return {
    /** The address of a proxy that forwards requests and is not trusted; null where none was seen. */
    untrustedProxy: () => untrustedProxy,
    async handle(request: Request): Promise<Response> {
      noteProxy(request)
      return (await made.get()).handle(request)
    },
    /** Answers what came over the control socket, whose owner needs no proof. */
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
    /** Ends what it has begun. */
    async close(): Promise<void> {
      const admin = await made.begun()?.catch(() => null)
      admin?.close()
      catalogFiles.close()
    },
    /** Makes the code by which the first owner signs in; null where there is one, or nobody signs in with a password. */
    async setupCode(): Promise<string | null> {
      if (!deps.ways.includes('password') || isSetUp(await identity.readAdmins(), deps.ways)) return null
      return setupCode.make(now())
    },
  }
}

async function loadOidc(settings: OidcSettings, { log, now }: Pick<AdminSurfaceDeps, 'log' | 'now'>) {
  const { createProvider } = await import('../../identity/oidc-provider.ts')
  return { settings, provider: createProvider({ settings, log, now }), pending: new Pending<PendingSignIn>() }
}

/** Where a browser finds the dashboard: under a name that it answers to, or else on this machine. */
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
