/**
 * The public port. New certificates take a second listener on it, since Bun keeps those of the first
 * (`Server.reload` ignores them); the first one ends once its clients had time to notice.
 */
import type { App } from '../http/app.ts'
import { loadLibc } from './libc.ts'

/** Of `Bun.serve`; one entry per name. */
export type ServedCertificates = readonly { serverName?: string; cert: string; key: string }[]

export interface Listener {
  port: number
  origin: string
  /** New connections get these certificates; earlier ones end after their current request. Throws if they can't be used. */
  replace(certificates: ServedCertificates): Promise<void>
  /** Resolves once all connections have ended. @param isForced ends them now. */
  stop(isForced: boolean): Promise<void>
}

/** Most clients drop idle connections after 5 s (httpx, Node.js), before which a request could cross the end. */
const GRACE_MS = 15_000

/** Linux alone lets two listeners share a port without losing connections. */
const CAN_SHARE = process.platform === 'linux'

/** @param certificates null for plain HTTP. Throws what Bun does. */
export function createListener(
  app: App,
  where: { hostname: string; port: number },
  certificates: ServedCertificates | null,
): Listener {
  const { hostname } = where
  const earlier = new Set<NonNullable<App['server']>>()
  let end = () => {}
  let isStopping = false

  const open = (port: number, tls: ServedCertificates | null) => {
    const before = process.listeners('beforeExit')
    app.listen({ hostname, port, ...(tls && { tls: [...tls], reusePort: CAN_SHARE }) })
    // Elysia adds one per call.
    for (const added of process.listeners('beforeExit')) if (!before.includes(added)) process.off('beforeExit', added)
    if (!app.server) throw new Error('not listening')
    return app.server
  }
  // A shared port would hide that another program has it.
  let server = open(certificates && CAN_SHARE ? reserve(where) : where.port, certificates)
  const port = server.port ?? where.port
  return {
    port,
    origin: server.url.origin,
    async replace(next) {
      // A server that drains keeps what it has.
      if (isStopping) return
      // One earlier listener at a time, which `preferNewest` relies on.
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
      await preferNewest(port)
      old.reload({
        routes: {},
        async fetch(request) {
          const response = await app.fetch(request)
          response.headers.set('connection', 'close')
          return response
        },
      })
      const timer = setTimeout(() => end(), GRACE_MS)
      end = () => {
        clearTimeout(timer)
        end = () => {}
        endOld()
      }
    },
    async stop(isForced) {
      isStopping = true
      end()
      await Promise.all([server, ...earlier].map((one) => one.stop(isForced)))
    },
  }
}

function reserve(where: { hostname: string; port: number }): number {
  const probe = Bun.serve({ ...where, reusePort: false, fetch: () => new Response() })
  void probe.stop(true)
  return probe.port ?? where.port
}

/** Of socket(7) and filter.h, the same on x64 and arm64. */
const SOL_SOCKET = 1
const SO_ACCEPTCONN = 30
const SO_ATTACH_REUSEPORT_CBPF = 51
/** The program `return 1`: of the listeners of a port, the second takes new connections; if there is one only, that one. */
const RETURN_1 = { code: 0x06, value: 1 }

/**
 * Has the newest listener take all new connections, so that none is waiting at the old one when it ends: without it,
 * about one in 2,000 was reset.
 */
async function preferNewest(port: number): Promise<void> {
  const libc = await loadLibc()
  if (libc === null) return
  const { readdir } = await import('node:fs/promises')
  const { getsockopt, getsockname, setsockopt, ptr } = libc
  const instruction = new DataView(new ArrayBuffer(8))
  instruction.setUint16(0, RETURN_1.code, true)
  instruction.setUint32(4, RETURN_1.value, true)
  const program = new DataView(new ArrayBuffer(16))
  program.setUint16(0, 1, true)
  program.setBigUint64(8, BigInt(ptr(instruction)), true)
  const value = new Int32Array(1)
  const address = new DataView(new ArrayBuffer(128))
  const length = new Uint32Array(1)
  for (const name of await readdir('/proc/self/fd').catch(() => [])) {
    const file = Number(name)
    length[0] = value.byteLength
    if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, ptr(value), ptr(length)) !== 0 || value[0] !== 1) continue
    length[0] = address.byteLength
    if (getsockname(file, ptr(address), ptr(length)) !== 0 || address.getUint16(2) !== port) continue
    setsockopt(file, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, ptr(program), program.byteLength)
    return
  }
}
