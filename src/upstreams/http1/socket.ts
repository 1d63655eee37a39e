/** Opens a socket to an origin, with TLS where that asks for it: what its certificate is held to, and who hears what happens. */
import { isAddress } from '../../domain/ip.ts'

/** Where requests go: one pool each. */
export interface HttpOrigin {
  hostname: string
  port: number
  isTls: boolean
}

export type Socket = Bun.Socket<SocketListener>

export interface SocketListener {
  opened(socket: Socket): void
  /** Of TLS: bytes may be sent now. With an error: there is no trusting the other side. */
  secured(error: Error | null): void
  arrived(bytes: Buffer): void
  /** It can take more. */
  drain(): void
  /** The other side has said all that it will. */
  finished(): void
  closed(error: unknown): void
}

/** Why there is a connection no more, by the code that the system has for it. */
export class ConnectionError extends Error {
  constructor(
    message: string,
    readonly code: 'ETIMEDOUT' | 'ECONNRESET' | 'ERR_TLS_CERT_INVALID',
  ) {
    super(message)
  }
}

/** Resolves once the system has opened it, and rejects once that has given up. */
export function openSocket({ hostname, port, isTls }: HttpOrigin, listener: SocketListener): Promise<Socket> {
  return Bun.connect<SocketListener>({
    hostname,
    port,
    data: listener,
    socket: HANDLER,
    ...(isTls ? { tls: { serverName: toServerName(hostname), rejectUnauthorized: VERIFIES } } : {}),
  })
}

/** An address is no name to ask for (RFC 6066, 3). */
const toServerName = (hostname: string) => (isAddress(hostname) ? '' : hostname)

/** As `fetch` reads it. */
const VERIFIES = process.env.NODE_TLS_REJECT_UNAUTHORIZED !== '0'

const HANDLER: Bun.SocketHandler<SocketListener> = {
  open: (socket) => socket.data.opened(socket),
  handshake: ({ data }, isAuthorized, error) =>
    data.secured(
      !VERIFIES || (isAuthorized && !error)
        ? null
        : (error ?? new ConnectionError('has a certificate that does not hold', 'ERR_TLS_CERT_INVALID')),
    ),
  data: ({ data }, bytes) => data.arrived(bytes),
  drain: ({ data }) => data.drain(),
  end: ({ data }) => data.finished(),
  close: ({ data }, error) => data.closed(error),
  error: ({ data }, error) => data.closed(error),
  connectError: ({ data }, error) => data.closed(error),
}
