/**
 * The public port. New certificates, and a restart, take a second listener on it: in this process, since Bun keeps the certificates of the first
 * (`Server.reload` ignores them), or in the next one. The first ends once its clients had time to notice.
 */
import type { ListeningApp } from '../http/instance.ts'
import { loadLibc } from './libc.ts'

/** Of `Bun.serve`; one entry per name. */
export type ServedCertificates = readonly { serverName?: string; cert: string; key: string }[]

type Answer = (request: Request) => Promise<Response>

export interface Listener {
  port: number
  origin: string
  /** New connections get these certificates; earlier ones end after their current request. Throws if they can't be used. */
  replace(certificates: ServedCertificates): Promise<void>
  /** From now on, only these listeners of the port, which may be other processes', take new connections. False if the system can't. */
  prefer(which: ListenerRange): Promise<boolean>
  /** How many listeners take new connections. */
  readonly count: number
  /** Has new requests answered by this, also on connections that exist; null: by the app again. */
  divert(answer: Answer | null): void
  /** Resolves once clients had time to notice that new connections go elsewhere, or no one is there. */
  grace(gone: Promise<void>): Promise<void>
  /** Resolves once all connections have ended. @param isForced ends them now. */
  stop(isForced: boolean): Promise<void>
}

/** Most clients drop idle connections after 5 s (httpx, Node.js), before which a request could cross the end. */
export const GRACE_MS = 15_000

/** Linux alone lets two listeners share a port without losing connections. */
export const CAN_SHARE = process.platform === 'linux'

export interface ListenPlace {
  hostname: string
  port: number
  /** Whether the port may be another process's, which this one succeeds. */
  isShared?: boolean
}

/** The listeners of a port in the order in which they were opened; when one ends, the last takes its place. */
export interface ListenerRange {
  first: number
  count: number
}

/** @param certificates null for plain HTTP. Throws what Bun does. */
export function createListener(
  app: ListeningApp,
  where: ListenPlace,
  certificates: ServedCertificates | null,
): Listener {
  const { hostname } = where
  const earlier = new Set<NonNullable<ListeningApp['server']>>()
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
      // One earlier listener at a time, which `preferListeners` relies on.
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
      await preferListeners(port, { first: 1, count: 1 })
      divert(old, async (request) => toLast(await app.fetch(request)))
      const timer = setTimeout(() => end(), GRACE_MS)
      end = () => {
        clearTimeout(timer)
        end = () => {}
        endOld()
      }
    },
    count: 1,
    async prefer(which) {
      end()
      return CAN_SHARE && preferListeners(port, which)
    },
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
  // Once stopped, it has none.
  const { port: free = port } = probe
  void probe.stop(true)
  return free
}

/** Of socket(7) and filter.h, the same on x64 and arm64. */
const SOL_SOCKET = 1
const SO_ACCEPTCONN = 30
const SO_ATTACH_REUSEPORT_CBPF = 51
const INSTRUCTION_BYTES = 8
/** SKF_AD_OFF + SKF_AD_RANDOM */
const RANDOM = -0x1000 + 56

/** `return first + random() % count`: the listener that takes a connection; if there is no such, any. */
const toProgram = ({ first, count }: ListenerRange): [code: number, value: number][] => [
  // BPF_LD | BPF_W | BPF_ABS
  [0x20, RANDOM],
  // BPF_ALU | BPF_MOD | BPF_K
  [0x94, count],
  // BPF_ALU | BPF_ADD | BPF_K
  [0x04, first],
  // BPF_RET | BPF_A
  [0x16, 0],
]

/** Never freed: the system reads the first through a pointer in the second, which the garbage collector doesn't know. */
const instructions = new DataView(new ArrayBuffer(4 * INSTRUCTION_BYTES))
const program = new DataView(new ArrayBuffer(16))

/**
 * Chooses which listeners take all new connections, so that none is waiting at another when that ends: without it, about one in 2,000 was reset. False if
 * the system can't.
 */
async function preferListeners(port: number, which: ListenerRange): Promise<boolean> {
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
    const all = toProgram(which)
    for (const [at, [code, operand]] of all.entries()) {
      instructions.setUint16(at * INSTRUCTION_BYTES, code, true)
      instructions.setInt32(at * INSTRUCTION_BYTES + 4, operand, true)
    }
    program.setUint16(0, all.length, true)
    program.setBigUint64(8, BigInt(ptr(instructions)), true)
    return setsockopt(file, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, ptr(program), program.byteLength) === 0
  }
  return false
}
