/**
 * Chaos clients on raw sockets, for manners that `fetch` lacks: disconnecting within a request or after so many bytes,
 * and slow reading.
 */
import { connect } from 'node:net'
import type { Manner } from './plan.ts'

export interface RawAnswer {
  complete: boolean
  status: number
  headers: Headers
  text: string
}

/** A slow reader reads this much, and then pauses. */
const SIP_BYTES = 64 * 1024
const REST_MS = 4

/** Resolves to the bytes that arrived until the connection ended. */
export function exchange(port: number, head: string, body: string, manner: Manner): Promise<RawAnswer> {
  const pieces: Buffer[] = []
  let bytes = 0
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true })
    const leaves = manner.kind === 'leaves' ? manner : null
    const timer = leaves && leaves.when !== 'reading' ? setTimeout(() => socket.destroy(), leaves.afterMs) : undefined
    let sipped = 0
    socket.on('connect', () => {
      socket.write(head)
      socket.write(leaves?.when === 'half' ? body.slice(0, body.length / 2) : body)
    })
    socket.on('data', (piece) => {
      pieces.push(Buffer.from(piece))
      bytes += piece.length
      if (leaves?.when === 'reading' && bytes > leaves.afterBytes) socket.destroy()
      sipped += piece.length
      if (manner.kind !== 'slow' || sipped < SIP_BYTES) return
      sipped = 0
      socket.pause()
      setTimeout(() => socket.resume(), REST_MS)
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      clearTimeout(timer)
      resolve(toAnswer(Buffer.concat(pieces)))
    })
  })
}

/** The connection's only request. */
export function toHead(method: string, path: string, headers: Readonly<Record<string, string>>, bytes: number): string {
  const lines = Object.entries({ host: '127.0.0.1', connection: 'close', ...headers, 'content-length': String(bytes) })
  return `${method} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`
}

const NOTHING: RawAnswer = { complete: false, status: 0, headers: new Headers(), text: '' }

function toAnswer(bytes: Buffer): RawAnswer {
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) return NOTHING
  const [first = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n')
  const headers = new Headers(
    lines.map((line): [string, string] => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]),
  )
  const rest = bytes.subarray(end + 4)
  const body =
    headers.get('transfer-encoding') === 'chunked'
      ? joinChunks(rest)
      : { text: rest.toString(), complete: rest.length === Number(headers.get('content-length')) }
  return { status: Number(first.split(' ')[1]), headers, ...body }
}

function joinChunks(bytes: Buffer): { text: string; complete: boolean } {
  const parts: Buffer[] = []
  for (let at = 0; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at)
    const size = lineEnd === -1 ? Number.NaN : Number.parseInt(bytes.toString('latin1', at, lineEnd), 16)
    if (size === 0 || Number.isNaN(size)) return { text: Buffer.concat(parts).toString(), complete: size === 0 }
    parts.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size))
    at = lineEnd + 2 + size + 2
  }
}
