/** A server on a raw socket, for what has to misbehave below HTTP. Whoever starts one says what it does, and `stop()`s it. */
import { createServer, type Socket } from 'node:net'

export interface TcpServer {
  readonly port: number
  /** Connections open now. */
  readonly sockets: ReadonlySet<Socket>
  /** Breaks what is open, and listens no more. */
  stop(): Promise<void>
}

/**
 * Starts one on 127.0.0.1, on a free port unless told one; throws where that is taken. What is written leaves at once, and
 * a client that breaks its connection is no error.
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
