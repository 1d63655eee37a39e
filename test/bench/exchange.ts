/** A fixed number of requests over raw sockets: `wrk` counts seconds, and Bun's `fetch` limits requests in flight. */
import { createConnection, type Socket } from 'node:net'
import type { Subject } from './subjects.ts'

export interface ExchangeShape {
  connections: number
  /** Limit for all connections together. */
  requests: number
  body: string
  /**
   * Holds back the last byte of every first request until all are sent, so that the server holds every body half read.
   */
  together: boolean
}

export interface ExchangeResult {
  requests: number
  /** Complete responses with status 200. */
  ok: number
  wallMs: number
  firstError: string | null
}

/** New connections per ms: more would measure the listen queue. */
const OPEN_PER_MS = 2
const LIMIT_MS = 120_000

export function toRequest(subject: Subject, body: string): Buffer {
  const head = [
    'POST /v1/chat/completions HTTP/1.1',
    `host: ${new URL(subject.origin).host}`,
    'content-type: application/json',
    `authorization: Bearer ${subject.key}`,
    `content-length: ${Buffer.byteLength(body)}`,
  ]
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`)
}

/** Never throws for the server's failures; `ok` counts 200s. */
export async function exchange(subject: Subject, shape: ExchangeShape): Promise<ExchangeResult> {
  const began = performance.now()
  const request = toRequest(subject, shape.body)
  const port = Number(new URL(subject.origin).port)
  const result: ExchangeResult = { requests: shape.requests, ok: 0, wallMs: 0, firstError: null }
  const fail = (reason: string) => {
    result.firstError ??= reason.slice(0, 400)
  }
  let left = shape.requests
  let held = shape.connections
  const released = Promise.withResolvers<void>()
  const release = () => {
    held -= 1
    if (held === 0) released.resolve()
  }
  const sockets = new Set<Socket>()
  const limit = setTimeout(() => {
    fail(`not done within ${LIMIT_MS / 1000} s`)
    for (const socket of sockets) socket.destroy()
  }, LIMIT_MS)

  const serve = async () => {
    const client = createClient(port)
    sockets.add(client.socket)
    for (let first = true; left > 0; first = false) {
      left -= 1
      const answer = client.answer()
      if (first && shape.together) {
        await Promise.race([client.write(request.subarray(0, -1)), answer])
        release()
        await Promise.race([released.promise, answer])
        void client.write(request.subarray(-1))
      } else void client.write(request)
      const said = await answer
      if (said.startsWith('HTTP/1.1 200')) result.ok += 1
      else {
        fail(said)
        break
      }
    }
    client.socket.destroy()
  }

  const all: Promise<void>[] = []
  for (let opened = 0; opened < shape.connections; opened += 1) {
    all.push(serve())
    if (opened % OPEN_PER_MS === 0) await Bun.sleep(1)
  }
  await Promise.all(all)
  clearTimeout(limit)
  return { ...result, wallMs: performance.now() - began }
}

/** A persistent connection. `answer()` resolves to the next response's text, or to the failure. */
function createClient(port: number) {
  const socket = createConnection({ host: '127.0.0.1', port, noDelay: true })
  let text = ''
  let ended: string | null = null
  let waiting: ((said: string) => void) | null = null
  const give = (said: string) => {
    text = ''
    waiting?.(said)
    waiting = null
  }
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1')
    if (isWhole(text)) give(text)
  })
  const end = (reason: string) => {
    ended ??= reason
    give(text.startsWith('HTTP/1.1 200') ? `cut: ${text.slice(-200)}` : text || ended)
  }
  socket.on('error', (cause) => end(`the connection failed: ${cause.message}`))
  socket.on('close', () => end('the connection was closed without an answer'))
  return {
    socket,
    answer: () =>
      new Promise<string>((resolve) => {
        if (ended !== null) return resolve(ended)
        waiting = resolve
      }),
    /** Resolves once the kernel has all bytes, or fails. */
    write: (bytes: Uint8Array) => new Promise<void>((resolve) => socket.write(bytes, () => resolve())),
  }
}

function isWhole(text: string): boolean {
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return false
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, end))?.[1]
  return length === undefined ? text.endsWith('0\r\n\r\n') : text.length >= end + 4 + Number(length)
}
