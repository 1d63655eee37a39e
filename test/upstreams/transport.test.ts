/** Common behavior of both transports, over real sockets. */
import { beforeAll, describe, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { GatewayError } from '../../src/domain/error.ts'
import { createFetchTransport } from '../../src/upstreams/fetch.ts'
import { createHttp1Transport } from '../../src/upstreams/http1/transport.ts'
import type { Incoming, Transport } from '../../src/upstreams/transport.ts'
import { forAllTests } from '../support/lifetime.ts'
import { toOutgoing } from '../support/outgoing.ts'
import { startTcpServer } from '../support/tcp-server.ts'
import { until } from '../support/until.ts'

/** Responses of the next connections once a request has arrived, in order. */
let script: ((socket: Socket, request: string) => void)[] = []
let lastBytes: Buffer = Buffer.alloc(0)
let connections = 0
let baseUrl = ''
const server = forAllTests(() =>
  startTcpServer((socket) => {
    connections++
    socket.on('data', (bytes) => {
      lastBytes = Buffer.from(bytes)
      script.shift()?.(socket, bytes.toString())
    })
  }),
)
beforeAll(() => {
  baseUrl = `http://127.0.0.1:${server.port}/v1`
})

const json = (body: string, more = '') =>
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${more}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
const says = (text: string) => (socket: Socket) => void socket.write(text)
const free = () => null

describe.each([
  ['our own', createHttp1Transport],
  ['fetch', createFetchTransport],
] as [string, () => Transport][])('%s', (_, create) => {
  const open = () => {
    const transport = create()
    const outgoing = toOutgoing(baseUrl, { headers: () => ({ authorization: 'Bearer x' }) })
    return (body = '{}') => transport.send({ ...outgoing, body })
  }
  const textOf = (incoming: Incoming) => incoming.text(1_000_000, free)

  test('sends the request, with its headers and its length in bytes, and reads the response', async () => {
    let seen = ''
    script = [
      (socket, request) => {
        seen = request
        socket.write(json('{"a":"é"}', 'X-Request-Id: r1\r\n'))
      },
    ]
    const incoming = await open()('{"b":"é"}').answer
    expect(incoming.status).toBe(200)
    expect(incoming.header('x-request-id')).toBe('r1')
    expect(incoming.header('not-there')).toBeNull()
    expect(await textOf(incoming)).toBe('{"a":"é"}')
    const [head = '', body] = seen.split('\r\n\r\n')
    expect(body).toBe('{"b":"é"}')
    const lines = head.toLowerCase().split('\r\n')
    expect(lines[0]).toBe('post /v1/chat http/1.1')
    for (const line of [
      'content-length: 10',
      'authorization: bearer x',
      'accept: a/b',
      'x-client-request-id: x-1',
      'x-tollgate-hops: a',
    ])
      expect(lines).toContain(line)
  })

  test('sends headers of one request only with that, in place of shared ones with the same name', async () => {
    const transport = create()
    const outgoing = toOutgoing(baseUrl, { headers: () => ({ authorization: 'Bearer x', 'x-kept': '1' }) })
    const seen: string[] = []
    const send = async (ownHeaders?: Record<string, string>) => {
      script = [
        (socket, request) => {
          seen.push(request.toLowerCase())
          socket.write(json('{}'))
        },
      ]
      await textOf(await transport.send({ ...outgoing, ownHeaders }).answer)
    }
    await send()
    await send({ authorization: 'Bearer y', 'x-tier': 'flex' })
    await send()
    for (const [at, own] of [false, true, false].entries()) {
      const lines = seen[at]?.split('\r\n') ?? []
      expect(lines.filter((line) => line.startsWith('authorization'))).toEqual([
        `authorization: bearer ${own ? 'y' : 'x'}`,
      ])
      expect(lines.includes('x-tier: flex')).toBe(own)
      expect(lines).toContain('x-kept: 1')
    }
  })

  test('reuses a connection', async () => {
    const send = open()
    const before = connections
    script = Array.from({ length: 5 }, () => says(json('{}')))
    for (let each = 0; each < 5; each++) expect(await textOf(await send().answer)).toBe('{}')
    expect(connections - before).toBeLessThanOrEqual(1)
  })

  test('hands over a stream as it arrives, one piece at a time, and resumes where it stopped', async () => {
    script = [
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
        let n = 0
        const timer = setInterval(() => {
          socket.write(n < 5 ? `1\r\n${n}\r\n` : '0\r\n\r\n')
          if (++n > 5) clearInterval(timer)
        }, 5)
      },
    ]
    const incoming = await open()().answer
    let text = ''
    expect(
      await incoming.pump({
        takeBytes(bytes, from, to) {
          text += Buffer.from(bytes.subarray(from, to)).toString()
          return text.length < 2
        },
      }),
    ).toBe(false)
    let busy = false
    expect(
      await incoming.pump({
        async takeBytes(bytes, from, to) {
          expect(busy).toBe(false)
          busy = true
          await Bun.sleep(8)
          text += Buffer.from(bytes.subarray(from, to)).toString()
          busy = false
          return true
        },
      }),
    ).toBe(true)
    expect(text).toBe('01234')
  })

  test.each([
    ['is closed before an answer', (socket: Socket) => void socket.end()],
    ['is reset before an answer', (socket: Socket) => void socket.resetAndDestroy()],
  ])('a connection that %s rejects', async (_, act) => {
    script = [act, act]
    await expect(open()().answer).rejects.toThrow()
  })

  test.each([
    ['a body with a length', 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhell'],
    ['chunks', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhell\r\n'],
  ])('%s that are cut are told', async (_, text) => {
    script = [(socket) => void socket.end(text)]
    const incoming = await open()().answer
    await expect(incoming.pump({ takeBytes: () => true })).rejects.toThrow()
  })

  test('an abort ends it, and its server notices', async () => {
    const closed = Promise.withResolvers<void>()
    script = [(socket) => void socket.on('close', () => closed.resolve())]
    const exchange = open()()
    await until('the request', () => script.length === 0)
    exchange.abort(new Error('enough'))
    await expect(exchange.answer).rejects.toThrow('enough')
    await closed.promise
  })

  test('a text that is too long is abandoned', async () => {
    script = [says(json('x'.repeat(100)))]
    const incoming = await open()().answer
    expect(await incoming.text(99, free)).toBeNull()
  })

  test.each(['gzip', 'deflate', 'zstd'] as const)('a body compressed as %s is decompressed', async (encoding) => {
    const plain = Buffer.from('hello '.repeat(1_000))
    const pack = {
      gzip: Bun.gzipSync,
      deflate: (bytes: Buffer) => require('node:zlib').deflateSync(bytes),
      zstd: Bun.zstdCompressSync,
    }
    const packed = Buffer.from(pack[encoding](plain))
    script = [
      (socket) => {
        socket.write(`HTTP/1.1 200 OK\r\ncontent-encoding: ${encoding}\r\ncontent-length: ${packed.length}\r\n\r\n`)
        socket.write(packed)
      },
    ]
    expect(await textOf(await open()().answer)).toBe(plain.toString())
  })

  test.each([
    ['broken chunks', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n'],
    ['a body that is cut', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"a":1}'],
  ])('%s are no text, though some of it was whole', async (_, text) => {
    script = [(socket) => void socket.end(text)]
    const asked = open()().answer
    await expect(asked.then(textOf)).rejects.toThrow()
    script = [(socket) => void socket.end(text)]
    const late = asked.catch(() => {}).then(() => open()().answer)
    await expect(late.then((incoming) => Bun.sleep(20).then(() => textOf(incoming)))).rejects.toThrow()
  })

  test('an invalid response is thrown, and its connection ends', async () => {
    const closed = Promise.withResolvers<void>()
    script = [
      (socket) => {
        socket.on('close', () => closed.resolve())
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n')
      },
    ]
    const exchange = open()()
    const incoming = await exchange.answer
    const refusal = new GatewayError('overloaded', 'no room')
    await expect(incoming.text(100, () => refusal)).rejects.toBe(refusal)
    exchange.abort(refusal)
    await closed.promise
  })

  test('a response without a body may claim to be compressed', async () => {
    script = [says('HTTP/1.1 503 x\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n')]
    const incoming = await open()().answer
    expect([incoming.status, await textOf(incoming)]).toEqual([503, ''])
  })

  test('a non-ASCII credential is sent byte by byte as given', async () => {
    script = [says(json('{}'))]
    const outgoing = toOutgoing(baseUrl, { headers: () => ({ 'x-key': 'schl\u00fcssel' }) })
    await textOf(await create().send(outgoing).answer)
    expect(lastBytes.toString('latin1').toLowerCase()).toContain('x-key: schl\u00fcssel')
  })

  test('a thousand concurrent requests each get their own response', async () => {
    const send = open()
    script = Array.from({ length: 1_000 }, () => (socket: Socket, request: string) => {
      const body = request.split('\r\n\r\n')[1] ?? ''
      setTimeout(() => socket.write(json(body)), Math.random() * 20)
    })
    const bodies = Array.from({ length: 200 }, (_, n) => `{"n":${n}}`)
    for (let round = 0; round < 5; round++) {
      const texts = await Promise.all(bodies.map(async (body) => textOf(await send(body).answer)))
      expect(texts).toEqual(bodies)
    }
  })
})
