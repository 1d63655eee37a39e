/**
 * Tollgate's HTTP/1.1 compared with `fetch`, on valid and hostile responses. Responses that both accept are read the
 * same, and Tollgate refuses all that `fetch` refuses, wherever they are split. Tollgate may refuse more.
 */
import { beforeAll, expect, test } from 'bun:test'
import fc from 'fast-check'
import { createFetchTransport } from '../../../src/upstreams/fetch.ts'
import { createHttp1Transport } from '../../../src/upstreams/http1/transport.ts'
import type { Transport } from '../../../src/upstreams/transport.ts'
import { inPieces } from '../../support/cuts.ts'
import { forAllTests } from '../../support/lifetime.ts'
import { toOutgoing } from '../../support/outgoing.ts'
import { startTcpServer } from '../../support/tcp-server.ts'

interface Script {
  pieces: readonly Uint8Array[]
  /** Bytes after the last chunk. */
  end: 'fin' | 'reset'
}

/** By the path of the request: both send one at once. */
const scripts = new Map<string, Script>()
let baseUrl = ''
const server = forAllTests(() =>
  startTcpServer((socket) => {
    socket.once('data', async (request) => {
      const [, path = ''] = /^POST \/(\S+)/.exec(request.toString()) ?? []
      const { pieces, end } = scripts.get(path) as Script
      for (const piece of pieces) {
        socket.write(piece)
        await new Promise(setImmediate)
      }
      if (end === 'fin') socket.end()
      else socket.resetAndDestroy()
    })
  }),
)
beforeAll(() => {
  baseUrl = `http://127.0.0.1:${server.port}`
})

type Read = { status: number; type: string | null; text: string } | 'nothing'
let asked = 0

async function read(transport: Transport, script: Script): Promise<Read> {
  const path = `${++asked}`
  scripts.set(path, script)
  try {
    const incoming = await transport.send(toOutgoing(baseUrl, { path: `/${path}` })).answer
    const text = await incoming.text(1_000_000, () => null)
    return { status: incoming.status, type: incoming.header('content-type'), text: text ?? '' }
  } catch {
    return 'nothing'
  } finally {
    scripts.delete(path)
  }
}

/** Doesn't reuse connections: its server ends each of them. */
const own = createHttp1Transport({ idleMs: 0, maxIdle: 0, nowMs: () => performance.now() })
const byFetch = createFetchTransport()

/** Both results. If `fetch` also responds, it must match; it fails on some responses that are split within the head. */
async function readBoth(script: Script): Promise<[ours: Read, theirs: Read]> {
  const both: [Read, Read] = await Promise.all([read(own, script), read(byFetch, script)])
  if (!both.includes('nothing')) expect(both[0]).toEqual(both[1])
  return both
}

const bytesOf = (text: string) => Buffer.from(text, 'latin1')
const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: a/b\r\n'
const PACKED = Buffer.from(Bun.gzipSync(Buffer.from('hello'))).toString('latin1')
const RIGHT: Record<string, string> = {
  length: `${HEAD}content-length: 5\r\n\r\nhello`,
  chunks: `${HEAD}Transfer-Encoding: chunked\r\n\r\n4;a=b\r\nhell\r\n01\r\no\r\n0\r\nx-end: 1\r\n\r\n`,
  'no length': `${HEAD}\r\nhello`,
  'a hint first': `HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n${HEAD}content-length: 5\r\n\r\nhello`,
  packed: `${HEAD}content-encoding: gzip\r\ncontent-length: ${PACKED.length}\r\n\r\n${PACKED}`,
}

test.each(Object.entries(RIGHT))('a response with %s is read the same wherever it is split', async (_, text) => {
  const bytes = bytesOf(text)
  const cuts = Array.from({ length: bytes.length - 1 }, (_, at) => at + 1)
  const scripts = cuts.map((at): Script => ({ pieces: [bytes.subarray(0, at), bytes.subarray(at)], end: 'fin' }))
  const all = await Promise.all(scripts.map(readBoth))
  for (const [ours] of all) expect(ours).toEqual({ status: 200, type: 'a/b', text: 'hello' })
})

test.each(Object.entries(RIGHT))('one with %s that ends too early is an error', async (what, text) => {
  const bytes = bytesOf(text)
  const cuts = Array.from({ length: bytes.length - 1 }, (_, at) => at)
  const scripts = cuts.map((at): Script => ({ pieces: [bytes.subarray(0, at)], end: at % 2 ? 'fin' : 'reset' }))
  const all = await Promise.all(scripts.map(readBoth))
  const headEnd = text.lastIndexOf('\r\n\r\n', what === 'chunks' ? text.indexOf('4;') : undefined) + 4
  // Only one without a length may end anywhere, if its connection closes properly.
  for (const [at, [ours]] of all.entries())
    if (what !== 'no length' || at < headEnd) expect([at, ours]).toEqual([at, 'nothing'])
})

test('of arbitrary responses, Tollgate only accepts those that both read the same', async () => {
  const line = fc.constantFrom(
    // Without `5, 5`, one length as a list: `fetch` refuses it, and RFC 9112 (6.3) leaves that to the recipient.
    ...['content-length: 5', 'content-length: 4', 'Content-Length : 5', 'content-length: +5'],
    ...['transfer-encoding: chunked', 'transfer-encoding: gzip, chunked', 'transfer-encoding: identity'],
    ...['content-type: a/b', 'connection: close', 'x: \\x01', 'x:', ' folded', 'nonsense', 'content-encoding: br'],
  )
  const first = fc.constantFrom(
    'HTTP/1.1 200 OK',
    'HTTP/1.1 200',
    'HTTP/1.0 200 OK',
    'HTTP/1.1 2',
    'HTTP/2 200',
    'ICY 200',
  )
  const body = fc.constantFrom(
    'hello',
    '5\r\nhello\r\n0\r\n\r\n',
    '5\r\nhello\r\n0\r\n',
    '5\nhello\n0\n\n',
    '-5\r\nhello\r\n',
  )
  const answer = fc.record({
    text: fc.tuple(first, fc.array(line, { maxLength: 4 }), body),
    cuts: fc.array(fc.nat(120), { maxLength: 4 }),
  })
  await fc.assert(
    fc.asyncProperty(answer, async ({ text: [status, lines, rest], cuts }) => {
      const bytes = bytesOf(`${[status, ...lines].join('\r\n')}\r\n\r\n${rest}`)
      const [ours, theirs] = await readBoth({ pieces: [bytes], end: 'fin' })
      if (theirs === 'nothing') expect(ours).toBe('nothing')
      expect(await read(own, { pieces: inPieces(bytes, cuts), end: 'fin' })).toEqual(ours)
    }),
    { numRuns: 400 },
  )
})
