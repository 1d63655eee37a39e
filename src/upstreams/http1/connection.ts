/**
 * One connection to an origin, which sends one request after another: opening, current response, back-pressure and end. An invalid
 * certificate ends it before any byte of a request is sent.
 */
import { isAddress } from '../../domain/ip.ts'
import { type AnswerListener, ResponseParser } from './response-parser.ts'
import { keepFrom, type Request, toBytes } from './transport.ts'

/** Receives the beginning or failure of a response. Isn't called after `fail` or the end. */
export interface ExchangeListener extends AnswerListener {
  /** @param isStale true if the origin was closing the idle connection just when the request was sent. */
  fail(error: unknown, isStale: boolean): void
}

export interface ConnectionOwner {
  /** The connection can take another request within `keptMs`. */
  idle(connection: Connection, keptMs: number): void
  closed(connection: Connection): void
  /** Closed before it was opened. The system holds a file until its attempt ends, which may take minutes. */
  abandoned(): void
  gone(): void
  /** Monotonic clock. */
  nowMs(): number
}

/** Maximum time for TCP connect and TLS handshake. */
const OPENING_MS = 10_000
/**
 * A request is resent on a new connection if its own was used before and ended without a byte of response (RFC 9112, 9.3.1). The origin had
 * probably closed it before. That is never certain, and the origin may charge for the request. So the close must be orderly and immediate.
 * After an idle period, it may also be later or a reset, within the time that a distant host or a router needs.
 */
const AT_ONCE_MS = 100
const IDLE_MS = 1_000
const FAR_MS = 3_000

export class Connection implements SocketListener {
  readonly #owner: ConnectionOwner
  readonly #origin: HttpOrigin
  readonly #parser = new ResponseParser()
  #socket: Socket | null = null
  #opening: Timer | null
  #isSettled = false
  #isAbandoned = false
  #isClosed = false
  #error: unknown = null
  #isUsed = false
  #listener: ExchangeListener | null = null
  #sentMs = 0
  #releasedMs = 0
  #isUnheard = true
  #request: Request | null = null
  #unsent: Uint8Array | null = null
  /** Unsent pieces after `#unsent`. */
  #further: Iterator<Uint8Array> | null = null
  #isPaused = false

  constructor(origin: HttpOrigin, owner: ConnectionOwner) {
    this.#origin = origin
    this.#owner = owner
    this.#opening = setTimeout(() => this.closed(new ConnectionError('timed out connecting', 'ETIMEDOUT')), OPENING_MS)
    openSocket(origin, this).then(
      () => this.#settle(),
      (error) => {
        this.#settle()
        this.closed(error)
      },
    )
  }

  /** Sends a request; only if none is in flight. */
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

  /** An idle connection doesn't keep the process alive. */
  keepAlive(isBusy: boolean): void {
    if (isBusy) this.#socket?.ref()
    else this.#socket?.unref()
  }

  /** Closes the connection and drops the current exchange without calling its listener. Idempotent. */
  abort(): void {
    this.#listener = null
    this.closed(null)
  }

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
    // An unrequested response.
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
    // Bytes after the response in the same piece have been checked by now.
    if (this.#parser.isIdle && !this.#isClosed) this.#release()
  }

  drain(): void {
    if (this.#opening !== null) return
    let unsent = this.#unsent
    if (this.#request) {
      unsent = toBytes(this.#request)
      this.#further = this.#request.further?.values() ?? null
      this.#request = null
    }
    while (unsent !== null) {
      const written = this.#socket?.write(unsent) ?? 0
      if (written < unsent.length) {
        this.#unsent = keepFrom(unsent, Math.max(0, written))
        return
      }
      this.#unsent = null
      unsent = this.#further?.next().value ?? null
    }
    this.#further = null
  }

  /** The other side has closed for writing. Over TLS that may be a truncation, so the response has to be complete by itself. */
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

  closed(error: unknown, isInOrder = false): void {
    if (this.#isClosed) return
    const isStale = this.#isStale(isInOrder)
    this.#isClosed = true
    if (this.#opening) clearTimeout(this.#opening)
    this.#opening = null
    this.#parser.stop()
    this.#request = null
    this.#unsent = null
    this.#further = null
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
    // A response may end while its reader is full; the next response must still be read.
    this.resume()
    const { keptMs } = this.#parser
    if (keptMs > 0 && this.#unsent === null) this.#owner.idle(this, keptMs)
    else this.abort()
  }
}

export interface HttpOrigin {
  hostname: string
  port: number
  isTls: boolean
}

export type Socket = Bun.Socket<SocketListener>

export interface SocketListener {
  opened(socket: Socket): void
  /** TLS: bytes may be sent now, or the certificate is invalid. */
  secured(error: Error | null): void
  arrived(bytes: Buffer): void
  drain(): void
  finished(): void
  closed(error: unknown): void
}

export class ConnectionError extends Error {
  constructor(
    message: string,
    readonly code: 'ETIMEDOUT' | 'ECONNRESET' | 'ERR_TLS_CERT_INVALID',
  ) {
    super(message)
  }
}

function openSocket({ hostname, port, isTls }: HttpOrigin, listener: SocketListener): Promise<Socket> {
  return Bun.connect<SocketListener>({
    hostname,
    port,
    data: listener,
    socket: HANDLER,
    ...(isTls ? { tls: { serverName: toServerName(hostname), rejectUnauthorized: VERIFIES } } : {}),
  })
}

/** An IP address can't be a server name (RFC 6066, 3). */
const toServerName = (hostname: string) => (isAddress(hostname) ? '' : hostname)

/** The same variable as `fetch` uses. */
const VERIFIES = process.env.NODE_TLS_REJECT_UNAUTHORIZED !== '0'

const HANDLER: Bun.SocketHandler<SocketListener> = {
  open: (socket) => socket.data.opened(socket),
  handshake: ({ data }, isAuthorized, error) =>
    data.secured(
      !VERIFIES || (isAuthorized && !error)
        ? null
        : (error ?? new ConnectionError('has an invalid certificate', 'ERR_TLS_CERT_INVALID')),
    ),
  data: ({ data }, bytes) => data.arrived(bytes),
  drain: ({ data }) => data.drain(),
  end: ({ data }) => data.finished(),
  close: ({ data }, error) => data.closed(error),
  error: ({ data }, error) => data.closed(error),
  connectError: ({ data }, error) => data.closed(error),
}
