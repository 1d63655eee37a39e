/**
 * A request's body: read once, counted as it arrives, and parsed only where that does not hold up everybody else: what it
 * would cost is found before. `handle.ts` reads it, once the request has its place.
 */
import { type Decision, GatewayError } from '../domain/error.ts'
import { asObject } from '../domain/json.ts'
import { type JsonLimits, JsonScan } from '../domain/json-scan.ts'
import { type Layout, noteText } from '../domain/source-text.ts'
import type { Place } from './intake.ts'
import type { Upload, Uploads } from './uploads.ts'

export const MAX_BODY_BYTES = 32 * 1024 * 1024

/**
 * A body up to this is read in one go, and takes its memory at once. A longer one takes it as it arrives: what a client
 * only says that it will send takes nothing from others.
 */
const QUICK_BYTES = 256 * 1024

/**
 * What can be parsed, checked and written again in some 50 ms each, however it is made. 64,000 values are a conversation of
 * over 4,000 turns with tools; escapes and bare characters are few in what is large: images, sound and files.
 */
const BODY_LIMITS: JsonLimits = { depth: 256, values: 64_000, escapes: 1_000_000, bare: 4 * 1024 * 1024 }

/**
 * A body may arrive in so many pieces, and one more for so many of its bytes. Each piece costs more than hundreds of bytes
 * do, and while a client sends chunks of one byte as fast as it can, Bun comes to nothing else.
 */
const FREE_PIECES = 4_096
const PIECE_BYTES = 512

/** A text up to this holds nothing that would take long, but for its depth. */
const SHORT_CHARS = 16 * 1024
/** A body of more values may take some ms. */
const LONG_VALUES = 4_000

/** A request's headers by lower-case name. */
export type RequestHeaders = Readonly<Record<string, string | undefined>>

/** JSON that was read and not parsed. */
export interface BodyText {
  text: string
  /** Whether parsing it may take more than a few ms: then it waits for its turn. */
  isLong: boolean
  /** Where what stands in it, if it is worth knowing. */
  layout: Layout | null
}

/** Refuses a body that need not be read: one that says that it is too large, packed, or no JSON. */
export function checkHeaders(headers: RequestHeaders): GatewayError | null {
  const stated = statedBytes(headers)
  if (stated > MAX_BODY_BYTES) return tooLarge(`${stated} bytes`)
  const encoding = headers['content-encoding'] ?? 'identity'
  if (encoding !== 'identity') return unsupportedEncoding(encoding)
  const type = headers['content-type'] ?? ''
  return isJson(type) ? null : unsupportedContentType(type)
}

/**
 * Reads a body. Refuses one that is too large, that would take too long to parse, that is too long on its way, or for which
 * no memory is free.
 */
export async function readBody(
  request: Request,
  headers: RequestHeaders,
  place: Pick<Place, 'take'>,
  uploads: Uploads,
): Promise<Decision<BodyText>> {
  const stated = statedBytes(headers)
  const isQuick = stated <= QUICK_BYTES
  const full = isQuick ? place.take(stated) : null
  if (full) return full
  const upload = uploads.begin()
  try {
    if (!isQuick) return await upload.race(readPieces(request, place, upload))
    const text = await upload.race(request.text())
    return typeof text === 'string' ? check(text) : text
  } catch {
    return clientGone()
  } finally {
    upload.leave()
  }
}

/** NaN where the client does not say it. */
const statedBytes = (headers: RequestHeaders) => Number(headers['content-length'] ?? Number.NaN)

export const clientGone = () => new GatewayError('client_closed', 'The client left before its request was read.')

/** Parses what was read, and keeps the text of a long conversation beside it. */
export function parseBody({ text, layout }: Pick<BodyText, 'text' | 'layout'>): unknown {
  try {
    const json: unknown = JSON.parse(text)
    const body = layout ? asObject(json) : null
    if (layout && body) noteText(body, 'messages', text, layout)
    return json
  } catch (cause) {
    return new GatewayError(
      'invalid_request',
      `We could not parse the JSON body of your request: ${cause instanceof Error ? cause.message : 'it is not JSON'}. The API expects one JSON object.`,
    )
  }
}

async function readPieces(request: Request, place: Pick<Place, 'take'>, upload: Upload): Promise<Decision<BodyText>> {
  const utf8 = new TextDecoder()
  const scan = new JsonScan(BODY_LIMITS)
  let text = ''
  let bytes = 0
  let pieces = 0
  for await (const piece of request.body ?? []) {
    // Nobody waits for it any more, and its memory is counted no longer.
    if (upload.isEnded) return clientGone()
    bytes += piece.length
    if (++pieces > FREE_PIECES + bytes / PIECE_BYTES) return tooManyPieces(pieces)
    if (bytes > MAX_BODY_BYTES) return tooLarge(`more than ${MAX_BODY_BYTES} bytes`)
    const full = place.take(piece.length)
    if (full) return full
    const more = utf8.decode(piece, { stream: true })
    const excess = scan.take(more)
    if (excess) return tooMuch(excess)
    text += more
  }
  return { ...toRead(text + utf8.decode(), scan), isLong: bytes > QUICK_BYTES || scan.values > LONG_VALUES }
}

function check(text: string): Decision<BodyText> {
  if (text.length <= SHORT_CHARS && !hasMoreOpened(text, BODY_LIMITS.depth))
    return { text, isLong: false, layout: null }
  const scan = new JsonScan(BODY_LIMITS)
  const excess = scan.take(text)
  return excess ? tooMuch(excess) : toRead(text, scan)
}

/** Of many values nobody counts the names. */
function toRead(text: string, scan: JsonScan): BodyText {
  const isLong = scan.values > LONG_VALUES
  return { text, isLong, layout: isLong ? null : scan }
}

/** Whether so many lists and objects begin in a text that they might be nested deeper than `most`. */
function hasMoreOpened(text: string, most: number): boolean {
  let opened = 0
  for (const opening of ['{', '[']) {
    for (let at = text.indexOf(opening); at !== -1; at = text.indexOf(opening, at + 1)) {
      if (++opened > most) return true
    }
  }
  return false
}

const isJson = (type: string) => /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(type)

const TOO_MUCH: Record<keyof JsonLimits, string> = {
  depth: `is nested more than ${BODY_LIMITS.depth} levels deep`,
  values: `holds more than ${BODY_LIMITS.values} values`,
  escapes: `holds more than ${BODY_LIMITS.escapes} escaped characters`,
  bare: `holds more than ${BODY_LIMITS.bare} characters outside of its strings`,
}

const tooMuch = (of: keyof JsonLimits) =>
  new GatewayError('invalid_request', `The JSON body of your request ${TOO_MUCH[of]}, the most that this API takes.`)

const tooLarge = (size: string) =>
  new GatewayError(
    'request_too_large',
    `The request body is too large: this API takes at most ${MAX_BODY_BYTES} bytes, and yours has ${size}.`,
  )

const tooManyPieces = (pieces: number) =>
  new GatewayError(
    'invalid_request',
    `The request body came in ${pieces} pieces, which are too small. Send it at once, or in chunks of some kilobytes.`,
  )

const unsupportedEncoding = (encoding: string) =>
  new GatewayError(
    'unsupported_content_type',
    `Unsupported content encoding: '${encoding.slice(0, 100)}'. This API takes bodies as they are: send yours without the header 'Content-Encoding'.`,
  )

const unsupportedContentType = (type: string) =>
  new GatewayError(
    'unsupported_content_type',
    `Unsupported content type: '${type.slice(0, 100)}'. This API method only accepts 'application/json' requests, but you specified the header 'Content-Type: ${type.slice(0, 100)}'. Please try again with a supported content type.`,
  )
