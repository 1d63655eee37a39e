/** Notifies systemd that the server is ready, alive, or stopping: sd_notify(3), by datagrams to a Unix socket. */
import type { Environment } from '../domain/snapshot.ts'
import { loadLibc } from './libc.ts'

export interface Supervisor {
  /** From here on, also reports regularly that the event loop runs, if systemd asked for that. */
  ready(): void
  stopping(): void
  /** From here on, another process is the service's main process. */
  hasSuccessor(pid: number): void
}

/** Constants of socket(2), unix(7), and send(2); the same on x64 and arm64. */
const AF_UNIX = 1
const SOCK_DGRAM_CLOEXEC = 0o2000002
const MSG_NOSIGNAL = 0x4000
const MAX_PATH = 107

/** Null without systemd. Ignores failures, like sd_notify. Then systemd reports a start timeout. */
export async function connectSupervisor(environment: Environment): Promise<Supervisor | null> {
  const { NOTIFY_SOCKET: path = '', WATCHDOG_USEC: usec, WATCHDOG_PID: pid } = environment
  const libc = path === '' ? null : await loadLibc()
  if (libc === null || Buffer.byteLength(path) > MAX_PATH) return null
  const { socket, sendto, ptr } = libc
  const file = socket(AF_UNIX, SOCK_DGRAM_CLOEXEC, 0)
  if (file < 0) return null
  // A leading @ stands for a zero byte: a name outside the file system.
  const name = Buffer.from(path.replace(/^@/, '\0'))
  const address = Buffer.concat([Buffer.of(AF_UNIX, 0), name, Buffer.alloc(path.startsWith('@') ? 0 : 1)])
  const send = (state: string) => {
    const text = Buffer.from(state)
    sendto(file, ptr(text), text.length, MSG_NOSIGNAL, ptr(address), address.length)
  }
  const watchMs = pid === undefined || Number(pid) === process.pid ? Number(usec) / 1_000 : 0
  let timer: Timer | null = null
  return {
    ready() {
      send('READY=1')
      if (watchMs > 0) timer = setInterval(send, watchMs / 2, 'WATCHDOG=1').unref()
    },
    stopping: () => send('STOPPING=1'),
    hasSuccessor(pid) {
      if (timer !== null) clearInterval(timer)
      send(`MAINPID=${pid}`)
    },
  }
}
