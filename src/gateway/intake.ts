/**
 * What is let in: how many requests may be under way at once, how many bytes may be held in memory for them, and of each
 * its body, read once. What is beyond is refused at once with 503, so that an overload never becomes a queue. And when all
 * of it has ended, for a drain.
 */
import { type Decision, GatewayError } from '../domain/error.ts'
import { isTooDeep, MAX_DEPTH } from '../domain/json.ts'

export const MAX_BODY_BYTES = 32 * 1024 * 1024

/**
 * A body up to this is read in one go, and takes its memory at once. A longer one takes it as it arrives: what a client
 * only says that it will send takes nothing from others.
 */
const QUICK_BYTES = 256 * 1024

/** A request's headers by lower-case name. */
export type RequestHeaders = Readonly<Record<string, string | undefined>>

/** What is under way in one process. */
export class Load {
  readonly #maxInFlight: number
  readonly #maxBufferedBytes: number
  /** Requests that were let in. */
  inFlight = 0
  /** Of those, the ones that were admitted: a drain waits for them. */
  admitted = 0
  /** Bytes of bodies and answers that are held for them. */
  bufferedBytes = 0
  isDraining = false
  #waiting: (() => void)[] = []

  constructor({ maxInFlight, maxBufferedBytes }: { maxInFlight: number; maxBufferedBytes: number }) {
    this.#maxInFlight = maxInFlight
    this.#maxBufferedBytes = maxBufferedBytes
  }

  /** Counts a request in, or refuses it. */
  enter(): Decision<Place> {
    const most = this.#maxInFlight
    if (this.inFlight >= most) return overloaded(`${most} requests are under way, the most it takes`)
    this.inFlight++
    return new Place(this)
  }

  /** Counts bytes in. Returns the refusal where there is no room for them. */
  take(bytes: number): GatewayError | null {
    const most = this.#maxBufferedBytes
    if (this.bufferedBytes + bytes > most) {
      return overloaded(`requests under way hold ${toMebibytes(this.bufferedBytes)} of ${toMebibytes(most)} MiB`)
    }
    this.bufferedBytes += bytes
    return null
  }

  /** From now on no new request is admitted. */
  drain(): void {
    this.isDraining = true
  }

  /** Resolves true when nothing that was admitted is under way any more, or false after `ms`. */
  async ended(ms: number): Promise<boolean> {
    if (this.admitted === 0) return true
    const last = Promise.withResolvers<boolean>()
    this.#waiting.push(() => last.resolve(true))
    const timer = setTimeout(() => last.resolve(false), ms)
    try {
      return await last.promise
    } finally {
      clearTimeout(timer)
    }
  }

  /** Called by a place that is left. */
  leave(bytes: number, wasAdmitted: boolean): void {
    this.inFlight--
    this.bufferedBytes -= bytes
    if (!wasAdmitted || --this.admitted > 0) return
    for (const resolve of this.#waiting) resolve()
    this.#waiting = []
  }
}

/** What one request takes of it, from its entry to its end. */
export class Place implements Disposable {
  readonly #load: Load
  #bytes = 0
  #isAdmitted = false
  #isLeft = false

  constructor(load: Load) {
    this.#load = load
  }

  /** Counts bytes in that the request keeps until it ends. Returns the refusal where there is no room for them. */
  readonly take = (bytes: number): GatewayError | null => {
    if (this.#isLeft) return null
    const overloaded = this.#load.take(bytes)
    if (overloaded === null) this.#bytes += bytes
    return overloaded
  }

  /** Has a drain wait for the request's end. */
  admit(): void {
    this.#isAdmitted = true
    this.#load.admitted++
  }

  /** Gives all of it back. Idempotent. */
  [Symbol.dispose](): void {
    if (this.#isLeft) return
    this.#isLeft = true
    this.#load.leave(this.#bytes, this.#isAdmitted)
  }
}

/** Refuses a body that need not be read: one that says that it is too large, or that it is no JSON. */
export function checkHeaders(headers: RequestHeaders): GatewayError | null {
  const stated = Number(headers['content-length'] ?? Number.NaN)
  if (stated > MAX_BODY_BYTES) return tooLarge(`${stated} bytes`)
  const type = headers['content-type'] ?? ''
  return isJson(type) ? null : unsupportedContentType(type)
}

/**
 * Reads and parses a body. Returns whatever the JSON holds, or a GatewayError where it is too large, finds no memory free, or
 * is no JSON.
 */
export async function readJson(
  request: Request,
  headers: RequestHeaders,
  place: Pick<Place, 'take'>,
): Promise<unknown> {
  const stated = Number(headers['content-length'] ?? Number.NaN)
  let text: string | GatewayError
  try {
    text = await (stated <= QUICK_BYTES ? (place.take(stated) ?? request.text()) : readPieces(request, place))
  } catch {
    return new GatewayError('client_closed', 'The client left before its request was complete.')
  }
  if (typeof text !== 'string') return text
  try {
    const json: unknown = JSON.parse(text)
    return isTooDeep(json, text.length) ? tooDeep() : json
  } catch (cause) {
    return new GatewayError(
      'invalid_request',
      `We could not parse the JSON body of your request: ${cause instanceof Error ? cause.message : 'it is not JSON'}. The API expects one JSON object.`,
    )
  }
}

async function readPieces(request: Request, place: Pick<Place, 'take'>): Promise<string | GatewayError> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of request.body ?? []) {
    bytes += piece.length
    if (bytes > MAX_BODY_BYTES) return tooLarge(`more than ${MAX_BODY_BYTES} bytes`)
    const overloaded = place.take(piece.length)
    if (overloaded) return overloaded
    pieces.push(piece)
  }
  return new TextDecoder().decode(Buffer.concat(pieces))
}

const isJson = (type: string) => /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(type)

const toMebibytes = (bytes: number) => Math.round(bytes / 1024 ** 2)

const overloaded = (why: string) =>
  new GatewayError('overloaded', `Tollgate is overloaded: ${why}. Nothing was done for this request; try again.`)

const tooDeep = () =>
  new GatewayError('invalid_request', `The JSON body of your request is nested more than ${MAX_DEPTH} levels deep.`)

const tooLarge = (size: string) =>
  new GatewayError(
    'request_too_large',
    `The request body is too large: this API takes at most ${MAX_BODY_BYTES} bytes, and yours has ${size}.`,
  )

const unsupportedContentType = (type: string) =>
  new GatewayError(
    'unsupported_content_type',
    `Unsupported content type: '${type.slice(0, 100)}'. This API method only accepts 'application/json' requests, but you specified the header 'Content-Type: ${type.slice(0, 100)}'. Please try again with a supported content type.`,
  )
