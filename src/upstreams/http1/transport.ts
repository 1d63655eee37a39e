/** Our own HTTP/1.1: one pool of connections per origin, and no promise per piece of a body. */
import { HOPS_HEADER } from '../../domain/task.ts'
import { type Exchange, type Incoming, type Outgoing, type Transport, withOwn } from '../transport.ts'
import type { Connection, ExchangeListener, HttpOrigin } from './connection.ts'
import type { Head } from './head.ts'
import { Http1Incoming } from './incoming.ts'
import { IdleConnections, Pool, type PoolOptions } from './pool.ts'

/** Limits idle connections, since each one uses a file that another request may need. */
const POOL: PoolOptions = { idleMs: 60_000, maxIdle: 256, nowMs: () => performance.now() }

interface Route {
  pool: Pool
  base: string
  head: string
  headers: Headers
}

export function createHttp1Transport(options: PoolOptions = POOL): Transport {
  const idle = new IdleConnections(options)
  const pools = new Map<string, Pool>()
  const routes = new WeakMap<Outgoing['upstream'], Route>()

  const toRoute = ({ upstream, headers }: Outgoing): Route => {
    const url = new URL(upstream.baseUrl ?? '')
    const isTls = url.protocol === 'https:'
    const origin: HttpOrigin = {
      hostname: url.hostname.replace(/^\[|\]$/g, ''),
      port: Number(url.port) || (isTls ? 443 : 80),
      isTls,
    }
    // `Headers` rejects invalid ones.
    const all = new Headers({ host: url.host, ...headers() })
    return {
      pool: pools.getOrInsertComputed(url.origin, () => new Pool(origin, idle)),
      base: url.pathname.replace(/\/$/, ''),
      head: toLines(all),
      headers: all,
    }
  }

  return {
    send(outgoing) {
      let route = routes.get(outgoing.upstream)
      if (route === undefined) {
        route = toRoute(outgoing)
        routes.set(outgoing.upstream, route)
      }
      return new Http1Exchange(route.pool, toRequest(route, outgoing), outgoing.resent)
    },
    closeIdle: () => idle.closeAll(),
  }
}

const toLines = (headers: Headers) => [...headers].map(([name, value]) => `${name}: ${value}\r\n`).join('')

const PLAIN = /^[\x21-\x7e]*$/

function toRequest(
  { base, head, headers }: Route,
  { path, accept, callId, hops, body, rest, ownHeaders }: Outgoing,
): Request {
  if (![path, callId, hops].every((text) => PLAIN.test(text)))
    throw new Error('a path, call ID or list of hops has characters that a request must not have')
  const shared = ownHeaders ? toLines(withOwn(headers, ownHeaders)) : head
  const own = `accept: ${accept}\r\nx-client-request-id: ${callId}\r\n${HOPS_HEADER}: ${hops}\r\n`
  const lines = `POST ${base}${path} HTTP/1.1\r\n${shared}${own}`
  return rest && isLarge(rest) ? { lines, body, further: rest.map(toPiece) } : { lines, body, rest }
}

/** A body of this size isn't copied into the buffer of the head. */
const LARGE_BYTES = 64 * 1024
const isLarge = (rest: NonNullable<Outgoing['rest']>) =>
  rest.some((piece) => typeof piece !== 'string' && piece.length > LARGE_BYTES)
const toPiece = (piece: string | Uint8Array) => (typeof piece === 'string' ? Buffer.from(piece) : piece)

class Http1Exchange implements Exchange, ExchangeListener {
  readonly answer: Promise<Incoming>
  readonly #pool: Pool
  #resolve!: (incoming: Incoming) => void
  #reject!: (error: unknown) => void
  #request: Request | null
  #connection: Connection | null = null
  #incoming: Http1Incoming | null = null
  readonly #resent: Outgoing['resent']

  constructor(pool: Pool, request: Request, resent: Outgoing['resent']) {
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    this.#pool = pool
    this.#request = request
    this.#resent = resent
    this.#send(request, () => pool.take())
  }

  abort(reason: Error): void {
    if (this.#incoming) this.#incoming.abort(reason)
    else this.#connection?.abort()
    this.#connection = null
    this.#reject(reason)
  }

  head(head: Head): Http1Incoming {
    this.#request = null
    const incoming = new Http1Incoming(head, this.#connection as Connection)
    this.#connection = null
    this.#incoming = incoming
    this.#resolve(incoming)
    return incoming
  }

  /** If the connection was stale, resends the request once, on a new one. That doesn't count as a failed attempt. */
  fail(error: unknown, isStale: boolean): void {
    this.#connection = null
    if (this.#incoming) this.#incoming.broken(error)
    else if (isStale && this.#request) {
      this.#resent?.()
      this.#send(this.#request, () => this.#pool.open())
    } else this.#reject(error)
  }

  #send(request: Request, take: () => Connection): void {
    try {
      this.#connection = take()
    } catch (error) {
      this.#reject(error)
      return
    }
    this.#connection.send(request, this)
  }
}

export interface Request {
  /** Request line and headers except the length, each with CRLF. */
  lines: string
  body: Outgoing['body']
  rest?: Outgoing['rest']
  /** Follows `body` and `rest`, and must not change until it is sent. */
  further?: readonly Uint8Array[]
}

/** Shared buffer: an allocation per large request would be garbage a moment later, and the collector would run three times as often. */
const SHARED_BYTES = 1024 * 1024
let sharedBuffer: Buffer | null = null

const MAX_CHAR_BYTES = 3
const LENGTH_ROOM = 'content-length: 9007199254740991\r\n\r\n'.length

/** The bytes of a request before `further`, valid until the next request is written. */
export function toBytes({ lines, body, rest = NOTHING, further = NOTHING_MORE }: Request): Uint8Array {
  const room = lines.length + LENGTH_ROOM
  const bytes = placeFor(room, body, rest)
  let length = write(bytes, body, room)
  for (const piece of rest) length += write(bytes, piece, room + length)
  const all = further.reduce((sum, piece) => sum + piece.length, length)
  const head = `${lines}content-length: ${all}\r\n\r\n`
  const from = room - head.length
  // A header holds bytes: a non-ASCII credential is sent as given.
  bytes.write(head, from, 'latin1')
  return bytes.subarray(from, room + length)
}

/** Copies unsent bytes if they are in the shared buffer. */
export const keepFrom = (bytes: Uint8Array, from: number): Uint8Array =>
  bytes.buffer === sharedBuffer?.buffer ? new Uint8Array(bytes.subarray(from)) : bytes.subarray(from)

function write(to: Buffer, piece: Outgoing['body'], at: number): number {
  if (typeof piece === 'string') return to.write(piece, at)
  to.set(piece, at)
  return piece.length
}

const NOTHING: readonly string[] = []
const NOTHING_MORE: readonly Uint8Array[] = []

function placeFor(room: number, body: Outgoing['body'], rest: NonNullable<Outgoing['rest']>): Buffer {
  const sum = (sizeOf: (piece: Outgoing['body']) => number) =>
    rest.reduce<number>((all, piece) => all + sizeOf(piece), sizeOf(body))
  if (room + sum((piece) => piece.length) * MAX_CHAR_BYTES > SHARED_BYTES)
    return Buffer.allocUnsafeSlow(room + sum((piece) => Buffer.byteLength(piece)))
  sharedBuffer ??= Buffer.allocUnsafeSlow(SHARED_BYTES)
  return sharedBuffer
}
