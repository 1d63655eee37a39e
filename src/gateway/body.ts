/** Reads the body of a request once: its size, then its content type, then its JSON; the first fault answers. */
import { allow, type Decision, GatewayError, refuse } from '../domain/error.ts'
import { isTooDeep, MAX_DEPTH } from '../domain/json.ts'
import type { MemoryReservation } from './load.ts'

export const MAX_BODY_BYTES = 32 * 1024 * 1024

/**
 * A body up to this is read in one go, and takes its memory at once. A longer one takes it as it arrives: what a client
 * only says that it will send takes nothing from others.
 */
const QUICK_BYTES = 256 * 1024

/** A request's headers by lower-case name. */
export type RequestHeaders = Readonly<Record<string, string | undefined>>

/** Reads and parses the body. Refuses one that is too large, or finds no memory free, before it is read. */
export async function readJson(
  request: Request,
  headers: RequestHeaders,
  memory: Pick<MemoryReservation, 'take'>,
): Promise<Decision<unknown>> {
  const text = await readText(request, headers, memory).catch(() => refuse(leftEarly()))
  if (!text.ok) return text
  const type = headers['content-type'] ?? ''
  if (!isJson(type)) return refuse(unsupportedContentType(type))
  try {
    const json: unknown = JSON.parse(text.value)
    return isTooDeep(json, text.value.length) ? refuse(tooDeep()) : allow(json)
  } catch (cause) {
    return refuse(
      new GatewayError(
        'invalid_request',
        `We could not parse the JSON body of your request: ${cause instanceof Error ? cause.message : 'it is not JSON'}. The API expects one JSON object.`,
      ),
    )
  }
}

async function readText(
  request: Request,
  headers: RequestHeaders,
  memory: Pick<MemoryReservation, 'take'>,
): Promise<Decision<string>> {
  const stated = Number(headers['content-length'] ?? Number.NaN)
  if (stated > MAX_BODY_BYTES) return refuse(tooLarge(`${stated} bytes`))
  if (stated <= QUICK_BYTES) {
    const overloaded = memory.take(stated)
    return overloaded ? refuse(overloaded) : allow(await request.text())
  }
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of request.body ?? []) {
    bytes += piece.length
    if (bytes > MAX_BODY_BYTES) return refuse(tooLarge(`more than ${MAX_BODY_BYTES} bytes`))
    const overloaded = memory.take(piece.length)
    if (overloaded) return refuse(overloaded)
    pieces.push(piece)
  }
  return allow(new TextDecoder().decode(Buffer.concat(pieces)))
}

const isJson = (type: string) => /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(type)

const leftEarly = () => new GatewayError('client_closed', 'The client left before its request was complete.')

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
