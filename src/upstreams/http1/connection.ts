/**
 * One connection to an origin, over which one request after the other is made: its opening, the answer under way, its
 * back-pressure and its end. A certificate that does not hold ends it before a byte of a request leaves. `pool.ts` keeps the
 * idle ones.
 */
import { isAddress } from '../../domain/ip.ts'
import { type AnswerListener, ResponseParser } from './response-parser.ts'
import { keepFrom, type Request, toBytes } from './transport.ts'

/** Hears how one answer begins, or why there is none or no more of it; nothing after `fail`, or once it has ended. */
export interface ExchangeListener extends AnswerListener {
  /** @param isStale whether its origin was closing the idle connection in the moment in which the request was sent over it. */
  fail(error: unknown, isStale: boolean): void
}

export interface ConnectionOwner {
  /** It can take another request, for so long, ms. */
  idle(connection: Connection, keptMs: number): void
  closed(connection: Connection): void
  /** It was closed before the system had opened it: until that gives up, which may take minutes, it holds a file. */
  abandoned(): void
  /** The system is done with one of those. */
  gone(): void
  /** A clock that never steps. */
  nowMs(): number
}

/** A host that does not take a connection, or does not shake hands, in this time is not there. */
const OPENING_MS = 10_000
/**
 * A request is sent again over a new connection where its own was used before and ended without a byte of an answer, as if its origin had
 * closed it before the request arrived (RFC 9112, 9.3.1). This is certain nowhere, and whoever has read the request may charge for it. So it
 * has to look like that: it was closed in order, within a turn of the loop; or it had been idle for a while, and was closed or reset within
 * the time that a far host, or a router that has forgotten the connection, needs to say so. Anything else is a failed call.
 */
const AT_ONCE_MS = 100
const IDLE_MS = 1_000
const FAR_MS = 3_000

export class Connection implements SocketListener {
  readonly #owner: ConnectionOwner
  readonly #origin: HttpOrigin
  readonly #parser = new ResponseParser()
  /** Null as long as the system has not opened it. */
  #socket: Socket | null = null
  /** Null once it is open, or closed. */
  #opening: Timer | null
  /** Whether the system has opened it, or given up. */
  #isSettled = false
  #isAbandoned = false
  #isClosed = false
  /** What closed it before anybody asked for anything. */
  #error: unknown = null
  /** Whether a request was made over it before this one. */
  #isUsed = false
  #listener: ExchangeListener | null = null
  #sentMs = 0
  #releasedMs = 0
  #isUnheard = true
  /** Null once writing it has begun. */
  #request: Request | null = null
  /** What is left to write of it. */
  #unsent: Uint8Array | null = null
  #isPaused = false

  /** Opens it. */
  constructor(origin: HttpOrigin, owner: ConnectionOwner) {
    this.#origin = origin
    this.#owner = owner
    this.#opening = setTimeout(
      () => this.closed(new ConnectionError('took no connection in time', 'ETIMEDOUT')),
      OPENING_MS,
    )
    openSocket(origin, this).then(
      () => this.#settle(),
      (error) => {
        this.#settle()
        this.closed(error)
      },
    )
  }

  /** Sends a request and hears its answer. Only where none is under way. */
  send(request: Request, listener: ExchangeListener): void {
    if (this.#isClosed) {
      listener.fail(this.#error, false)
      return
    }
    this.#listener = listener
    this.#isUnheard = true
    this.#sentMs = this.#owner.nowMs()
    this.#parser.expect(listener)
    this.#request = request
    this.drain()
  }

  pause(): void {
    if (!this.#isPaused) this.#socket?.pause()
    this.#isPaused = true
  }

  resume(): void {
    if (this.#isPaused) this.#socket?.resume()
    this.#isPaused = false
  }

  /** While it is idle, it keeps no process alive. */
  keepAlive(isBusy: boolean): void {
    if (isBusy) this.#socket?.ref()
    else this.#socket?.unref()
  }

  /** Ends it at once, and whatever is under way. Nobody is told. Idempotent. */
  abort(): void {
    this.#listener = null
    this.closed(null)
  }

  // Called by the socket.

  opened(socket: Socket): void {
    this.#socket = socket
    if (this.#isClosed) socket.terminate()
    else if (!this.#origin.isTls) this.secured(null)
  }

  secured(error: Error | null): void {
    if (this.#isClosed) return
    if (error) {
      this.closed(error)
      return
    }
    if (this.#opening) clearTimeout(this.#opening)
    this.#opening = null
    this.#socket?.setNoDelay(true)
    this.drain()
  }

  arrived(bytes: Buffer): void {
    if (this.#isClosed) return
    this.#isUnheard = false
    // Nobody has asked for anything.
    if (this.#parser.isIdle) {
      this.abort()
      return
    }
    try {
      this.#parser.feed(bytes)
    } catch (error) {
      this.closed(error)
      return
    }
    // What follows an answer in the same piece was looked at by now.
    if (this.#parser.isIdle && !this.#isClosed) this.#release()
  }

  drain(): void {
    if (this.#opening !== null) return
    const unsent = this.#request ? toBytes(this.#request) : this.#unsent
    this.#request = null
    if (unsent === null) return
    const written = this.#socket?.write(unsent) ?? 0
    this.#unsent = written < unsent.length ? keepFrom(unsent, Math.max(0, written)) : null
  }

  /** The other side has said all that it will. What ends so over TLS may have been cut: what it says has to show that it is whole. */
  finished(): void {
    if (this.#isClosed) return
    try {
      this.#parser.close()
    } catch (error) {
      this.closed(error, true)
      return
    }
    this.abort()
  }

  /** Ends it, and tells whoever waits for an answer; nothing more is heard of it. */
  closed(error: unknown, isInOrder = false): void {
    if (this.#isClosed) return
    const isStale = this.#isStale(isInOrder)
    this.#isClosed = true
    if (this.#opening) clearTimeout(this.#opening)
    this.#opening = null
    this.#parser.stop()
    this.#request = null
    this.#unsent = null
    this.#socket?.terminate()
    this.#owner.closed(this)
    this.#isAbandoned = !this.#isSettled && this.#socket === null
    if (this.#isAbandoned) this.#owner.abandoned()
    const listener = this.#listener
    this.#listener = null
    this.#error = error ?? new ConnectionError('closed the connection', 'ECONNRESET')
    listener?.fail(this.#error, isStale)
  }

  #isStale(isInOrder: boolean): boolean {
    if (this.#listener === null || !this.#isUsed || !this.#isUnheard) return false
    const waitedMs = this.#owner.nowMs() - this.#sentMs
    return (isInOrder && waitedMs < AT_ONCE_MS) || (this.#sentMs - this.#releasedMs >= IDLE_MS && waitedMs < FAR_MS)
  }

  #settle(): void {
    this.#isSettled = true
    if (this.#isAbandoned) this.#owner.gone()
  }

  #release(): void {
    this.#listener = null
    this.#isUsed = true
    this.#releasedMs = this.#owner.nowMs()
    // The end of an answer may come while its reader has enough: the next one is read all the same.
    this.resume()
    const { keptMs } = this.#parser
    if (keptMs > 0 && this.#unsent === null) this.#owner.idle(this, keptMs)
    else this.abort()
  }
}

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
function openSocket({ hostname, port, isTls }: HttpOrigin, listener: SocketListener): Promise<Socket> {
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
