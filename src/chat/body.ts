/** Reads the body of a chat request once: its size, its content type, its JSON, in the contract's order. */
import { allow, type Decision, GatewayError, refuse } from '../error.ts'

export const MAX_BODY_BYTES = 32 * 1024 * 1024

/** Reads and parses the body. Refuses one that is too large before it is in memory. */
export async function readJson(request: Request, maxBytes = MAX_BODY_BYTES): Promise<Decision<unknown>> {
  const text = await readText(request, maxBytes).catch(() => refuse(leftEarly()))
  if (!text.ok) return text
  const type = request.headers.get('content-type') ?? ''
  if (!isJson(type)) return refuse(unsupportedContentType(type))
  try {
    return allow(JSON.parse(text.value))
  } catch (cause) {
    return refuse(
      new GatewayError(
        'invalid_request',
        `We could not parse the JSON body of your request: ${cause instanceof Error ? cause.message : 'it is not JSON'}. The API expects one JSON object.`,
      ),
    )
  }
}

async function readText(request: Request, maxBytes: number): Promise<Decision<string>> {
  const stated = request.headers.get('content-length')
  if (stated !== null) {
    return Number(stated) > maxBytes ? refuse(tooLarge(maxBytes, `${stated} bytes`)) : allow(await request.text())
  }
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of request.body ?? []) {
    bytes += piece.length
    if (bytes > maxBytes) return refuse(tooLarge(maxBytes, `more than ${maxBytes} bytes`))
    pieces.push(piece)
  }
  return allow(Buffer.concat(pieces).toString('utf8'))
}

const isJson = (type: string) => /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(type)

const leftEarly = () => new GatewayError('client_closed', 'The client left before its request was complete.')

const tooLarge = (limit: number, size: string) =>
  new GatewayError(
    'request_too_large',
    `The request body is too large: this API takes at most ${limit} bytes, and yours has ${size}.`,
  )

const unsupportedContentType = (type: string) =>
  new GatewayError(
    'unsupported_content_type',
    `Unsupported content type: '${type.slice(0, 100)}'. This API method only accepts 'application/json' requests, but you specified the header 'Content-Type: ${type.slice(0, 100)}'. Please try again with a supported content type.`,
  )
