/** Connections to one origin: the most recently used idle one is reused first. All origins share a limit of idle connections. */
import { Connection, ConnectionError, type ConnectionOwner, type HttpOrigin } from './connection.ts'

export interface PoolOptions {
  /** How long a connection stays open without a request, ms. */
  idleMs: number
  /** Maximum number of idle connections to all origins. */
  maxIdle: number
  /** Monotonic clock. */
  nowMs: () => number
}

/** Safety margin: a request must arrive before the origin closes the connection. */
const ON_ITS_WAY_MS = 1_000
/** Maximum number of abandoned attempts that the system still makes to connect to an unreachable host. */
const MAX_ABANDONED = 64

export class IdleConnections {
  readonly #options: PoolOptions
  /** Expiry by connection; the longest idle one comes first. */
  readonly #untilMs = new Map<Connection, number>()
  #timer: Timer | null = null

  constructor(options: PoolOptions) {
    this.#options = options
  }

  /** @param keptMs how long its origin keeps it; returns false if that is too short. */
  add(connection: Connection, keptMs: number): boolean {
    const { maxIdle, idleMs } = this.#options
    const lastsMs = Math.min(idleMs, keptMs - ON_ITS_WAY_MS)
    if (lastsMs <= 0) return false
    this.#untilMs.set(connection, this.nowMs() + lastsMs)
    if (this.#untilMs.size > maxIdle) for (const [oldest] of this.#untilMs.entries().take(1)) oldest.abort()
    this.#timer ??= setInterval(() => this.#close((untilMs, nowMs) => untilMs <= nowMs), idleMs / 4).unref()
    return true
  }

  remove(connection: Connection): boolean {
    const untilMs = this.#untilMs.get(connection) ?? 0
    this.#untilMs.delete(connection)
    return untilMs > this.nowMs()
  }

  closeAll(): void {
    this.#close(() => true)
  }

  nowMs(): number {
    return this.#options.nowMs()
  }

  #close(isOver: (untilMs: number, nowMs: number) => boolean): void {
    const nowMs = this.nowMs()
    for (const [connection, untilMs] of [...this.#untilMs]) if (isOver(untilMs, nowMs)) connection.abort()
    if (this.#untilMs.size > 0 || this.#timer === null) return
    clearInterval(this.#timer)
    this.#timer = null
  }
}

export class Pool implements ConnectionOwner {
  readonly #origin: HttpOrigin
  readonly #all: IdleConnections
  /** The most recently used one comes last. */
  readonly #idle: Connection[] = []
  #abandoned = 0

  constructor(origin: HttpOrigin, all: IdleConnections) {
    this.#origin = origin
    this.#all = all
  }

  /** A connection for a request. Throws a ConnectionError if opening one is pointless. */
  take(): Connection {
    for (let found = this.#idle.pop(); found; found = this.#idle.pop()) {
      if (this.#all.remove(found)) {
        found.keepAlive(true)
        return found
      }
      found.abort()
    }
    return this.open()
  }

  open(): Connection {
    if (this.#abandoned >= MAX_ABANDONED) throw new ConnectionError('accepts no connections', 'ETIMEDOUT')
    return new Connection(this.#origin, this)
  }

  idle(connection: Connection, keptMs: number): void {
    if (!this.#all.add(connection, keptMs)) {
      connection.abort()
      return
    }
    connection.keepAlive(false)
    this.#idle.push(connection)
  }

  closed(connection: Connection): void {
    this.#all.remove(connection)
    const at = this.#idle.lastIndexOf(connection)
    if (at !== -1) this.#idle.splice(at, 1)
  }

  nowMs(): number {
    return this.#all.nowMs()
  }

  abandoned(): void {
    this.#abandoned++
  }

  gone(): void {
    this.#abandoned--
  }
}
