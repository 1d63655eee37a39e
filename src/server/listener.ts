/**
 * The public port. New certificates need a second listener in this process, because Bun keeps the certificates of the first (`Server.reload` ignores them). A
 * restart needs one in the next process. The first listener ends once its clients had time to notice.
 */
import type { ListeningApp } from '../http/instance.ts'
import { loadLibc } from './libc.ts'

/** Option of `Bun.serve`; one entry per name. */
export type ServedCertificates = readonly { serverName?: string; cert: string; key: string }[]

type Answer = (request: Request) => Promise<Response>

export interface Listener {
  port: number
  origin: string
  /** New connections get these certificates. Earlier connections end after their current request. Throws if the certificates are unusable. */
  replace(certificates: ServedCertificates): Promise<void>
  /** From now on, only these listeners of the port, perhaps in other processes, get new connections. False if the system doesn't support this. */
  prefer(which: ListenerRange): Promise<boolean>
  /** Number of listeners that get new connections. */
  readonly count: number
  /** Sets a function that answers new requests, also on existing connections. null: the app answers again. */
  divert(answer: Answer | null): void
  /** Resolves once clients had time to notice that new connections go elsewhere, or without connections. */
  grace(gone: Promise<void>): Promise<void>
  /** Resolves once all connections have ended. @param isForced ends connections now. */
  stop(isForced: boolean): Promise<void>
}

/** Most clients drop idle connections after 5 s (httpx, Node.js), before which a request could cross the end. */
export const GRACE_MS = 15_000

/** Time for accepted connections to finish their TLS handshake and send their first request. Until then, a listener that stops resets them. */
export const FIRST_REQUEST_MS = 1_000

/** Only Linux lets two listeners share a port without losing connections. */
export const CAN_SHARE = process.platform === 'linux'

export interface ListenPlace {
  hostname: string
  port: number
  /** True if this process may share the port with a process that it succeeds. */
  isShared?: boolean
}

/** Listeners of a port, in the order of opening. When one ends, the last one moves to its index. */
export interface ListenerRange {
  first: number
  count: number
}

/** @param certificates null for plain HTTP. Throws Bun's errors. */
export function createListener(
  app: ListeningApp,
  where: ListenPlace,
  certificates: ServedCertificates | null,
): Listener {
  const { hostname } = where
  const earlier = new Set<NonNullable<ListeningApp['server']>>()
  let end = () => {}
  /** Until then, the earlier listener has connections without a request. */
  let settled = Promise.resolve()
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
      await settled
      // A draining server keeps its certificates.
      if (isStopping) return
      // One earlier listener at a time, which `preferListeners` relies on.
      end()
      const old = server
      const endOld = () => void old.stop(false).then(() => earlier.delete(old))
      earlier.add(old)
      if (!CAN_SHARE) {
        // Throws for unusable certificates before the old listener ends.
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
      settled = Bun.sleep(FIRST_REQUEST_MS)
      const timer = setTimeout(() => end(), GRACE_MS)
      end = () => {
        clearTimeout(timer)
        end = () => {}
        endOld()
      }
    },
    count: 1,
    async prefer(which) {
      await settled
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

/** Makes the client open another connection for its next request. */
export function toLast(response: Response): Response {
  response.headers.set('connection', 'close')
  return response
}

/** Checks that the port is free. Sharing would hide that another program has it. */
export function reserve({ hostname, port, isShared }: ListenPlace): number {
  if (!CAN_SHARE || isShared) return port
  const probe = Bun.serve({ hostname, port, reusePort: false, fetch: () => new Response() })
  // A stopped server has no port.
  const { port: free = port } = probe
  void probe.stop(true)
  return free
}

/** Constants of socket(7) and filter.h, the same on x64 and arm64. */
const SOL_SOCKET = 1
const SO_ACCEPTCONN = 30
const SO_ATTACH_REUSEPORT_CBPF = 51
const INSTRUCTION_BYTES = 8
/** SKF_AD_OFF + SKF_AD_RANDOM */
const RANDOM = -0x1000 + 56

/** `return first + random() % count`: index of the listener for a connection. If none has this index, any listener. */
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

/** Never freed: the system reads the first through a pointer in the second, which the garbage collector can't see. */
const instructions = new DataView(new ArrayBuffer(4 * INSTRUCTION_BYTES))
const program = new DataView(new ArrayBuffer(16))

/**
 * Chooses the listeners for all new connections, so that no connection waits at a listener that ends. Otherwise about one in 2,000 was reset. False if the
 * system doesn't support this.
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
