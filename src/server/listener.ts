/**
 * The public port. New certificates, and a restart, take a second listener on it: in this process, since Bun keeps the certificates of the first
 * (`Server.reload` ignores them), or in the next one. The first ends once its clients had time to notice.
 */
import type { App } from '../http/app.ts'
import { loadLibc } from './libc.ts'

/** Of `Bun.serve`; one entry per name. */
export type ServedCertificates = readonly { serverName?: string; cert: string; key: string }[]

type Answer = (request: Request) => Promise<Response>

export interface Listener {
  port: number
  origin: string
  /** New connections get these certificates; earlier ones end after their current request. Throws if they can't be used. */
  replace(certificates: ServedCertificates): Promise<void>
  /** Keeps new connections from listeners that other processes open on the port. False if the system can't. */
  keepConnections(): Promise<boolean>
  /** The newest listener on the port, which may be another process's, takes all new connections. */
  giveConnections(): Promise<void>
  /** Has new requests answered by this, also on connections that exist; null: by the app again. */
  divert(answer: Answer | null): void
  /** Resolves once clients had time to notice that new connections go elsewhere, or no one is there. */
  grace(gone: Promise<void>): Promise<void>
  /** Resolves once all connections have ended. @param isForced ends them now. */
  stop(isForced: boolean): Promise<void>
}

/** Most clients drop idle connections after 5 s (httpx, Node.js), before which a request could cross the end. */
const GRACE_MS = 15_000

/** Linux alone lets two listeners share a port without losing connections. */
export const CAN_SHARE = process.platform === 'linux'

export interface ListenPlace {
  hostname: string
  port: number
  /** Whether the port may be another process's, which this one succeeds. */
  isShared?: boolean
}

/** @param certificates null for plain HTTP. Throws what Bun does. */
export function createListener(app: App, where: ListenPlace, certificates: ServedCertificates | null): Listener {
  const { hostname } = where
  const earlier = new Set<NonNullable<App['server']>>()
  let end = () => {}
  let isStopping = false

  const open = (port: number, tls: ServedCertificates | null) => {
    const before = process.listeners('beforeExit')
    app.listen({ hostname, port, reusePort: CAN_SHARE, ...(tls && { tls: [...tls] }) })
    // Elysia adds one per call.
    for (const added of process.listeners('beforeExit')) if (!before.includes(added)) process.off('beforeExit', added)
    if (!app.server) throw new Error('not listening')
    return app.server
  }
  let server = open(reserve(where), certificates)
  const port = server.port ?? where.port
  const divert = (one: typeof server, answer: Answer) => one.reload({ routes: {}, fetch: answer })
  return {
    port,
    origin: server.url.origin,
    async replace(next) {
      // A server that drains keeps what it has.
      if (isStopping) return
      // One earlier listener at a time, which `preferListener` relies on.
      end()
      const old = server
      const endOld = () => void old.stop(false).then(() => earlier.delete(old))
      earlier.add(old)
      if (!CAN_SHARE) {
        // Throws before the old one ends if they can't be used.
        void Bun.serve({ port: 0, hostname: '127.0.0.1', tls: [...next], fetch: () => new Response() }).stop(true)
        endOld()
        server = open(port, next)
        return
      }
      try {
        server = open(port, next)
      } catch (error) {
        earlier.delete(old)
        throw error
      }
      await preferListener(port, 1)
      divert(old, async (request) => toLast(await app.fetch(request)))
      const timer = setTimeout(() => end(), GRACE_MS)
      end = () => {
        clearTimeout(timer)
        end = () => {}
        endOld()
      }
    },
    async keepConnections() {
      end()
      return CAN_SHARE && preferListener(port, 0)
    },
    giveConnections: async () => void (await preferListener(port, 1)),
    divert: (answer) => divert(server, answer ?? (async (request) => app.fetch(request))),
    grace: (gone) => Promise.race([Bun.sleep(GRACE_MS), gone]),
    async stop(isForced) {
      isStopping = true
      end()
      await Promise.all([server, ...earlier].map((one) => one.stop(isForced)))
    },
  }
}

/** The client opens another connection for its next request. */
export function toLast(response: Response): Response {
  response.headers.set('connection', 'close')
  return response
}

/** A shared port would hide that another program has it. */
export function reserve({ hostname, port, isShared }: ListenPlace): number {
  if (!CAN_SHARE || isShared) return port
  const probe = Bun.serve({ hostname, port, reusePort: false, fetch: () => new Response() })
  void probe.stop(true)
  return probe.port ?? port
}

/** Of socket(7) and filter.h, the same on x64 and arm64. */
const SOL_SOCKET = 1
const SO_ACCEPTCONN = 30
const SO_ATTACH_REUSEPORT_CBPF = 51
/** BPF_RET | BPF_K. The program `return N`: the listener N of a port takes new connections; if there is no such, any. */
const RETURN = 0x06

/** Never freed: the system reads the first through a pointer in the second, which the garbage collector doesn't know. */
const instruction = new DataView(new ArrayBuffer(8))
const program = new DataView(new ArrayBuffer(16))

/**
 * Chooses which of two listeners takes all new connections, the earlier (0) or the later (1), so that none is waiting at the other when that ends: without it,
 * about one in 2,000 was reset. False if the system can't.
 */
async function preferListener(port: number, index: 0 | 1): Promise<boolean> {
  const libc = await loadLibc()
  if (libc === null) return false
  const { readdir } = await import('node:fs/promises')
  const { getsockopt, getsockname, setsockopt, ptr } = libc
  const value = new Int32Array(1)
  const address = new DataView(new ArrayBuffer(128))
  const length = new Uint32Array(1)
  for (const name of await readdir('/proc/self/fd').catch(() => [])) {
    const file = Number(name)
    length[0] = value.byteLength
    if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, ptr(value), ptr(length)) !== 0 || value[0] !== 1) continue
    length[0] = address.byteLength
    if (getsockname(file, ptr(address), ptr(length)) !== 0 || address.getUint16(2) !== port) continue
    instruction.setUint16(0, RETURN, true)
    instruction.setUint32(4, index, true)
    program.setUint16(0, 1, true)
    program.setBigUint64(8, BigInt(ptr(instruction)), true)
    return setsockopt(file, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, ptr(program), program.byteLength) === 0
  }
  return false
}
