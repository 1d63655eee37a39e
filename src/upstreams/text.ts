/** Reads the body of an upstream's answer as text, never more of it than there is room for. */
import { GatewayError } from '../domain/error.ts'
import type { BackendCall } from './backend.ts'

/** Nobody reads more of an error. */
const MAX_ERROR_BYTES = 64 * 1024

type Take = BackendCall['take']

/**
 * Reads a body up to a limit; null, and the rest given up, where it is longer.
 * @param take counts its bytes in; throws the refusal where the gateway has no room for them.
 */
export function readText(response: Response, maxBytes: number, take: Take): Promise<string | null> {
  // Of a compressed body it states the wrong length, and a few kilobytes may hold gigabytes.
  const isPlain = response.headers.get('content-encoding') === null
  const stated = isPlain ? Number(response.headers.get('content-length') ?? Number.NaN) : Number.NaN
  if (!(stated <= maxBytes)) return readPieces(response, maxBytes, take)
  mustFit(take(stated))
  return response.text()
}

/** Reads the body of an error status; null where there is no room for it, since the status tells the most. */
export async function readErrorText(response: Response, take: Take): Promise<string | null> {
  let text: string | null = null
  try {
    text = await readText(response, MAX_ERROR_BYTES, take)
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
  }
  if (text === null) response.body?.cancel().catch(() => {})
  return text
}

async function readPieces(response: Response, maxBytes: number, take: Take): Promise<string | null> {
  const utf8 = new TextDecoder()
  let text = ''
  let bytes = 0
  for await (const piece of response.body ?? []) {
    bytes += piece.length
    if (bytes > maxBytes) return null
    mustFit(take(piece.length))
    text += utf8.decode(piece, { stream: true })
  }
  return text + utf8.decode()
}

function mustFit(refusal: GatewayError | null): void {
  if (refusal) throw refusal
}
