/** Minimal HTTP/1.1 on a raw socket, because a proper server can't cut a frame in the middle. Trusts its client. */

export interface RawRequest {
  /** Request line and headers, without the blank line. */
  head: string
  body: Buffer
}

const HEAD_END = '\r\n\r\n'

/** Takes bytes as they arrive, and passes each complete request to `onRequest`. */
export function createRequestReader(onRequest: (request: RawRequest) => void): (bytes: Buffer) => void {
  let pieces: Buffer[] = []
  let have = 0
  // Joining only once enough arrived keeps large bodies linear.
  let need = 0
  return (bytes) => {
    pieces.push(bytes)
    have += bytes.length
    while (have >= need && have > 0) {
      const all = pieces.length === 1 ? (pieces[0] ?? bytes) : Buffer.concat(pieces)
      const framed = frame(all)
      pieces = [framed.rest]
      have = framed.rest.length
      need = framed.need
      if (!framed.request) return
      onRequest(framed.request)
    }
  }
}

interface Framed {
  request: RawRequest | null
  rest: Buffer
  /** Bytes needed before parsing again is worthwhile. */
  need: number
}

function frame(bytes: Buffer): Framed {
  const end = bytes.indexOf(HEAD_END)
  if (end === -1) return { request: null, rest: bytes, need: bytes.length + 1 }
  const head = bytes.toString('latin1', 0, end)
  const start = end + HEAD_END.length
  if (/\r\ntransfer-encoding: *chunked/i.test(head)) return frameChunked(head, bytes, start)
  const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0)
  if (bytes.length < start + length) return { request: null, rest: bytes, need: start + length }
  return {
    request: { head, body: bytes.subarray(start, start + length) },
    rest: bytes.subarray(start + length),
    need: 0,
  }
}

function frameChunked(head: string, bytes: Buffer, start: number): Framed {
  const parts: Buffer[] = []
  let at = start
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd === -1) break
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16)
    const next = lineEnd + 2 + size + 2
    if (bytes.length < next) break
    if (size === 0) return { request: { head, body: Buffer.concat(parts) }, rest: bytes.subarray(next), need: 0 }
    parts.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size))
    at = next
  }
  return { request: null, rest: bytes, need: bytes.length + 1 }
}

/** Header names become lower-case. */
export function toRequestHead(head: string): { method: string; path: string; headers: Record<string, string> } {
  const [first = '', ...lines] = head.split('\r\n')
  const [method = '', path = ''] = first.split(' ')
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  return { method, path, headers }
}

const REASONS: Record<number, string> = { 200: 'OK', 400: 'Bad Request', 429: 'Too Many Requests' }

/** Includes the blank line. */
export function toResponseHead(status: number, headers: Record<string, string>): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} ${REASONS[status] ?? 'Status'}\r\n${lines.join('')}\r\n`
}

export function toHttpChunk(bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
}

export const LAST_HTTP_CHUNK = Buffer.from('0\r\n\r\n')
