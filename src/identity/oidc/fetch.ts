/** How a provider is fetched from: no answer is longer than a megabyte, and what does not come is told from what is wrong. */
import type { CustomFetchOptions } from 'openid-client'

const MOST_BYTES = 1024 ** 2

/** There was no answer, or not all of it. */
export class Unreachable extends Error {}

export async function fetchBounded(url: string, { body, ...options }: CustomFetchOptions): Promise<Response> {
  // The token endpoint alone is sent one (RFC 6749, section 3.2).
  const form = body instanceof URLSearchParams ? body : null
  try {
    const response = await fetch(url, { ...options, body: form })
    const bytes = await read(response)
    const { status, headers } = response
    return new Response(bytes.length === 0 ? null : bytes, { status, headers })
  } catch (cause) {
    throw new Unreachable('no answer', { cause })
  }
}

async function read({ body }: Response): Promise<Uint8Array<ArrayBuffer>> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of body ?? []) {
    bytes += piece.length
    if (bytes > MOST_BYTES) throw new Error('the answer is longer than a megabyte')
    pieces.push(piece)
  }
  return new Uint8Array(Buffer.concat(pieces))
}
