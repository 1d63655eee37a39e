/** A raw socket server that can misbehave below HTTP. */
import { createServer, type Socket } from 'node:net'

export interface TcpServer {
  readonly port: number
  /** Connections open now. */
  readonly sockets: ReadonlySet<Socket>
  stop(): Promise<void>
}

/**
 * On 127.0.0.1, at a free port by default; throws if the port is taken. Writes leave at once, and broken connections
 * are not errors.
 */
export async function startTcpServer(accept: (socket: Socket) => void, port = 0): Promise<TcpServer> {
  const sockets = new Set<Socket>()
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    accept(socket)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  const address = server.address()
  return {
    port: typeof address === 'object' && address ? address.port : port,
    sockets,
    async stop() {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
