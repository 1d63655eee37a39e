/** The admin API of a running server: its parts put together, and made when it is first asked. Called by `server.ts`. */
import type { Admin } from '../admin/app.ts'
import type { AdminDeps } from '../admin/deps.ts'
import type { Reports } from '../admin/reports.ts'
import { createFileThread } from '../catalog/file-thread.ts'
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
  const catalogFiles = createFileThread()
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
    return createAdminApi({ ...deps, reports, catalogFiles, lookUp, setupCode, attempts: new Attempts(), addressOf })
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
    close: catalogFiles.close,
  }
}

const LOOK_UP_MS = 5_000

/** As the system resolves names, which is how upstreams are reached. */
async function lookUp(host: string): Promise<string[]> {
  const { lookup } = await import('node:dns/promises')
  const found = lookup(host, { all: true }).catch(() => [])
  const late = Bun.sleep(LOOK_UP_MS).then(() => [])
  return (await Promise.race([found, late])).map(({ address }) => address)
}

function toAddress(client: ClientIp): string {
  if (client === null) return 'unknown'
  const ip = 'behind' in client ? client.behind : client
  return toIpText(ip)
}
