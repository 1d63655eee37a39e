/** Reads a body as text, by whichever transport it comes. */
import { Pieces } from './pieces.ts'
import type { Incoming, TakeRoom } from './transport.ts'

/** A text is decoded in parts of so many bytes or more. */
export const DECODED_BYTES = 64 * 1024

/** See `Incoming.text`. Whatever goes wrong, nothing more of the body comes. */
export async function readText(
  body: Pick<Incoming, 'pump' | 'cancel'>,
  maxBytes: number,
  take: TakeRoom,
): Promise<string | null> {
  const utf8 = new TextDecoder()
  const small = new Pieces()
  let text = ''
  let bytes = 0
  const takeBytes = (piece: Uint8Array, from: number, to: number) => {
    bytes += to - from
    if (bytes > maxBytes) return false
    const refusal = take(to - from)
    if (refusal) throw refusal
    small.push(piece.subarray(from, to))
    if (small.bytes >= DECODED_BYTES) text += utf8.decode(small.join(), { stream: true })
    return true
  }
  try {
    if (await body.pump({ takeBytes })) return text + utf8.decode(small.join())
  } catch (error) {
    body.cancel()
    throw error
  }
  body.cancel()
  return null
}

/** The body of what `fetch` has answered; null where it is longer than so many bytes, of which nothing more comes then. */
export async function readResponse(response: Response, maxBytes: number): Promise<string | null> {
  const utf8 = new TextDecoder()
  let bytes = 0
  let text = ''
  for await (const piece of response.body ?? []) {
    bytes += piece.length
    if (bytes > maxBytes) return null
    text += utf8.decode(piece, { stream: true })
  }
  return text + utf8.decode()
}
