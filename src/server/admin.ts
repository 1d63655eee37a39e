/** The admin API of a running server: its parts put together, and made when it is first asked. Called by `server.ts`. */
import type { Admin } from '../admin/app.ts'
import type { AdminDeps } from '../admin/deps.ts'
import type { Reports } from '../admin/reports.ts'
import type { IpRange } from '../domain/ip.ts'
import { toIpText } from '../domain/ip.ts'
import { createIpOf } from '../http/client-ip.ts'
import type { Listener } from '../http/instance.ts'
import { Attempts } from '../identity/attempts.ts'
import { SetupCode } from '../identity/codes.ts'
import { isSetUp } from '../identity/sign-in.ts'
import type { ClientIp } from '../keys/allowed-ips.ts'
import { readStandings } from '../keys/standing.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { LedgerReader } from '../store/ledger-store.ts'

export interface AdminSurfaceDeps
  extends Pick<AdminDeps, 'store' | 'identity' | 'serving' | 'publicUrls' | 'now' | 'log'> {
  reader: Pick<LedgerReader, 'spending' | 'latestHour'>
  ledger: Pick<Ledger, 'flush'>
  trustedProxies: readonly IpRange[]
}

/** A sentence for whoever has started a server that everybody seems to use from one address; null where that is not so. */
export const toAddressWarning = ({
  publicUrls,
  trustedProxies,
}: Pick<AdminSurfaceDeps, 'publicUrls' | 'trustedProxies'>) =>
  publicUrls.length > 0 && trustedProxies.length === 0
    ? 'there is a --public-url and no --trusted-proxy: wrong passwords of anybody may keep everybody out for a while'
    : null

export function createAdminSurface({ reader, ledger, trustedProxies, ...deps }: AdminSurfaceDeps) {
  const { identity, now } = deps
  const setupCode = new SetupCode()
  const reports: Reports = {
    async standings(kind, id) {
      await ledger.flush()
      return readStandings(reader, kind, now(), id)
    },
  }
  let ipOf: ((request: Request) => ClientIp) | null = null
  const addressOf = (request: Request) => toAddress(ipOf?.(request) ?? null)
  let made: Promise<Admin> | null = null
  const load = async () => {
    const { createAdminApi } = await import('../admin/app.ts')
    return createAdminApi({ ...deps, reports, setupCode, attempts: new Attempts(), addressOf })
  }

  return {
    async handle(request: Request): Promise<Response> {
      made ??= load()
      return (await made).handle(request)
    },
    /** @param listener the instance that has the connections. */
    listensOn(listener: Listener): void {
      const find = createIpOf(listener, trustedProxies)
      ipOf = (request) => find(request, Object.fromEntries(request.headers))
    },
    /** Makes the code by which the first owner signs in; null where there is one. */
    async setupCode(): Promise<string | null> {
      if (isSetUp(await identity.readAdmins())) return null
      return setupCode.make(now())
    },
  }
}

function toAddress(client: ClientIp): string {
  if (client === null) return 'unknown'
  const ip = 'behind' in client ? client.behind : client
  return toIpText(ip)
}
