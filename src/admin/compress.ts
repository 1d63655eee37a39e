/** Compresses reports, lists, and exports, which are slow to load on slow networks. */
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { accepts } from '../http/description.ts'

/** Below this, a packet or two are saved at most. */
const LEAST_BYTES = 4_096
/** Takes half the time of the default level, for a few percent more bytes. */
const LEVEL = 4

const JSON_TYPE = 'application/json'
const CSV_TYPE = 'text/csv'

/** Off the event loop. */
const pack = promisify<Uint8Array, { level: number }, Uint8Array<ArrayBuffer>>(gzip)

/**
 * Only responses to GET: new secrets are in responses to changes, and compressing them next to a caller's text could
 * reveal them by their length (BREACH).
 */
export async function compress(request: Request, response: Response): Promise<Response> {
  const type = response.headers.get('content-type') ?? ''
  const isJson = type.startsWith(JSON_TYPE)
  if (request.method !== 'GET' || response.status !== 200 || response.body === null) return response
  if (response.headers.has('content-encoding') || !(isJson || type.startsWith(CSV_TYPE))) return response
  const { headers } = response
  headers.append('vary', 'accept-encoding')
  if (!accepts(request, 'gzip')) return response
  if (!isJson) {
    // Exports may be long, so they are compressed as they are read.
    headers.set('content-encoding', 'gzip')
    headers.delete('content-length')
    return new Response(response.body.pipeThrough(new CompressionStream('gzip')), { headers })
  }
  const bytes = await response.bytes()
  if (bytes.length < LEAST_BYTES) return new Response(bytes, { headers })
  headers.set('content-encoding', 'gzip')
  headers.delete('content-length')
  return new Response(await pack(bytes, { level: LEVEL }), { headers })
}
