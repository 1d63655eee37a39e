/** Connections of Tollgate's HTTP/1.1: which are reused, which end, and which requests are sent twice. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { IdleConnections, Pool } from '../../../src/upstreams/http1/pool.ts'
import { createHttp1Transport } from '../../../src/upstreams/http1/transport.ts'
import type { Incoming } from '../../../src/upstreams/transport.ts'
import { toOutgoing } from '../../support/outgoing.ts'
import { startTcpServer, type TcpServer } from '../../support/tcp-server.ts'
import { until } from '../../support/until.ts'

/** Responses to the next requests, in order. */
let script: ((socket: Socket) => void)[] = []
/** The number of the connection of each request. */
let requests: number[] = []
let server: TcpServer
/** How far the test has moved its clock. */
let passedMs = 0
beforeEach(async () => {
  passedMs = 0
  script = []
  requests = []
  let connections = 0
  server = await startTcpServer((socket) => {
    const number = ++connections
    socket.on('data', () => {
      requests.push(number)
      script.shift()?.(socket)
    })
  })
})
afterEach(() => server.stop())

const HEAD = 'HTTP/1.1 200 OK\r\n'
const WHOLE = `${HEAD}content-length: 2\r\n\r\n{}`
const says = (text: string) => (socket: Socket) => void socket.write(text)
const textOf = (incoming: Incoming) => incoming.text(1_000_000, () => null)

const nowMs = () => performance.now() + passedMs

function client(baseUrl = `http://127.0.0.1:${server.port}/v1`, idleMs = 60_000, maxIdle = 100) {
  const transport = createHttp1Transport({ idleMs, maxIdle, nowMs })
  const resent: number[] = []
  const outgoing = { ...toOutgoing(baseUrl), resent: () => void resent.push(requests.length) }
  const send = () => transport.send(outgoing)
  return { transport, send, resent, ask: async () => textOf(await send().answer) }
}

const untilOpen = (count: number) => until(`${count} connections`, () => server.sockets.size === count)

test('a connection whose response is aborted while its last piece is read is not reused', async () => {
  const { send, ask } = client()
  let last = () => {}
  script = [
    (socket) => {
      socket.write(`${HEAD}transfer-encoding: chunked\r\n\r\n`)
      last = () => void socket.write('2\r\n{}\r\n0\r\n\r\n')
    },
    says(WHOLE),
  ]
  const exchange = send()
  const pumped = (await exchange.answer).pump({
    takeBytes() {
      exchange.abort(new Error('enough'))
      return true
    },
  })
  last()
  await expect(pumped).rejects.toThrow('enough')
  expect(await ask()).toBe('{}')
  expect(requests).toEqual([1, 2])
})

test.each([
  ['that sent more than its answer', `${WHOLE}more`],
  ['that is about to end', `${HEAD}keep-alive: timeout=1\r\ncontent-length: 2\r\n\r\n{}`],
  ['that says so', `${HEAD}connection: close\r\ncontent-length: 2\r\n\r\n{}`],
])('a connection %s is not used again', async (_, text) => {
  const { ask } = client()
  script = [says(text), says(WHOLE)]
  expect(await ask()).toBe('{}')
  expect(await ask()).toBe('{}')
  expect(requests).toEqual([1, 2])
})

test.each(['utf-8', 'Identity', 'none'])('a body with content encoding %s is read unchanged', async (encoding) => {
  const { ask } = client()
  script = [says(`${HEAD}content-encoding: ${encoding}\r\ncontent-length: 2\r\n\r\n{}`)]
  expect(await ask()).toBe('{}')
})

test('invalid compressed data fails its response and no other', async () => {
  const { send, ask } = client()
  script = [says(`${HEAD}content-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}`), says(WHOLE)]
  await expect(send().answer.then(textOf)).rejects.toThrow()
  expect(await ask()).toBe('{}')
})

const closes = (socket: Socket) => void socket.end()
const resets = (socket: Socket) => void socket.resetAndDestroy()
const after = (ms: number, act: (socket: Socket) => void) => (socket: Socket) => {
  passedMs += ms
  act(socket)
}

test.each([
  ['closed, just after it was used', 0, closes],
  ['closed, after it was idle', 1_000, closes],
  ['reset, after it was idle', 1_000, resets],
  ['closed a while later, after it was idle', 1_000, after(2_000, closes)],
  ['reset a while later, after it was idle', 1_000, after(2_000, resets)],
])('a request over a kept connection that is %s is sent again over a new one, once', async (_, idleMs, act) => {
  const { ask, resent } = client()
  script = [says(WHOLE), act, says(WHOLE), act, act]
  await ask()
  passedMs += idleMs
  expect(await ask()).toBe('{}')
  expect([requests, resent]).toEqual([[1, 1, 2], [2]])
  passedMs += idleMs
  await expect(ask()).rejects.toThrow()
  expect([requests, resent]).toEqual([
    [1, 1, 2, 2, 3],
    [2, 4],
  ])
})

test.each([
  ['reset, just after it was used', 0, resets],
  ['closed a while later, just after it was used', 0, after(200, closes)],
  ['closed too late, after it was idle', 1_000, after(3_000, closes)],
  ['reset too late, after it was idle', 1_000, after(3_000, resets)],
  ['closed within an answer', 1_000, (socket: Socket) => void socket.end('HTTP/1.1 2')],
])('but not where that is %s: its origin may have done what it was asked', async (_, idleMs, act) => {
  const { ask, resent } = client()
  script = [says(WHOLE), act, says(WHOLE)]
  await ask()
  passedMs += idleMs
  await expect(ask()).rejects.toThrow()
  expect([requests, resent]).toEqual([[1, 1], []])
})

test('and the first request of a connection is never sent again', async () => {
  const { ask } = client()
  script = [(socket) => void socket.end(), says(WHOLE)]
  await expect(ask()).rejects.toThrow('closed the connection')
  expect(requests).toEqual([1])
})

test('an idle connection is closed after its timeout', async () => {
  const { ask } = client(undefined, 40)
  script = [says(`${HEAD}keep-alive: timeout=100\r\ncontent-length: 2\r\n\r\n{}`)]
  await ask()
  await untilOpen(0)
})

test('an abort before the TLS handshake is complete leaves no connection', async () => {
  const { send } = client(`https://127.0.0.1:${server.port}/v1`)
  const exchange = send()
  // A server that accepts data, but doesn't complete the handshake.
  await untilOpen(1)
  exchange.abort(new Error('enough'))
  await expect(exchange.answer).rejects.toThrow('enough')
  await untilOpen(0)
})

test('a canceled stream may end within a grace period, and is aborted otherwise', async () => {
  const { send, ask } = client()
  const begun = `${HEAD}transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n`
  let held: Socket | undefined
  script = [
    (socket) => {
      held = socket
      socket.write(begun)
    },
    says(WHOLE),
    says(begun),
  ]
  const left = await send().answer
  left.leave()
  held?.write('0\r\n\r\n')
  await Bun.sleep(20)
  expect(await ask()).toBe('{}')
  expect(requests).toEqual([1, 1])
  const hanging = await send().answer
  hanging.leave()
  await untilOpen(0)
})

test('a body is read by one reader at a time, and canceling it ends the read', async () => {
  const { send } = client()
  script = [says(`${HEAD}content-length: 5\r\n\r\n{}`)]
  const incoming = await send().answer
  const pumped = incoming.pump({ takeBytes: () => true })
  expect(() => incoming.pump({ takeBytes: () => true })).toThrow('read already')
  incoming.cancel()
  expect(await pumped).toBe(false)
  expect(await incoming.pump({ takeBytes: () => true })).toBe(false)
})

test('a slow reader throttles the sender, and loses nothing', async () => {
  const { send } = client()
  const body = Buffer.alloc(20 * 1024 * 1024, 'x')
  let isDrained = false
  script = [
    (socket) => {
      socket.write(`${HEAD}content-length: ${body.length}\r\n\r\n`)
      socket.write(body, () => {
        isDrained = true
      })
    },
  ]
  const incoming = await send().answer
  await Bun.sleep(100)
  expect(isDrained).toBe(false)
  let bytes = 0
  expect(
    await incoming.pump({
      async takeBytes(_, from, to) {
        if (bytes === 0) await Bun.sleep(20)
        bytes += to - from
        return true
      },
    }),
  ).toBe(true)
  expect(bytes).toBe(body.length)
})

test('all origins share a limit of idle connections, which are all closed if their file descriptors are needed', async () => {
  const { transport, ask } = client(undefined, 60_000, 3)
  const elsewhere = toOutgoing(`http://localhost:${server.port}/v1`)
  const late = (socket: Socket) => void setTimeout(() => socket.write(WHOLE), 20)
  script = Array.from({ length: 12 }, () => late)
  const asked = Array.from({ length: 6 }, () => [ask(), transport.send(elsewhere).answer.then(textOf)]).flat()
  expect(await Promise.all(asked)).toEqual(Array(12).fill('{}'))
  await untilOpen(3)
  transport.closeIdle()
  await untilOpen(0)
})

test('an unreachable host is not retried endlessly', () => {
  const pool = new Pool(
    { hostname: '127.0.0.1', port: server.port, isTls: false },
    new IdleConnections({ idleMs: 1, maxIdle: 1, nowMs }),
  )
  for (let each = 0; each < 64; each++) pool.abandoned()
  expect(() => pool.take()).toThrow('accepts no connections')
  pool.gone()
  pool.take().abort()
})

test.each([
  ['localhost', 'localhost', true],
  ['127.0.0.1', '127.0.0.1', false],
])('over TLS, %s is asked for by its name, if it is one', async (_, host, isNamed) => {
  let hello = ''
  const tls = await startTcpServer((socket) =>
    socket.once('data', (bytes) => {
      hello = bytes.toString('latin1')
      socket.destroy()
    }),
  )
  const { ask } = client(`https://${host}:${tls.port}/v1`)
  await expect(ask()).rejects.toThrow()
  expect(hello.includes(host)).toBe(isNamed)
  await tls.stop()
})

test("an idle connection doesn't keep the process running", async () => {
  script = [says(WHOLE)]
  const source = `
    import { createHttp1Transport } from './src/upstreams/http1/transport.ts'
    import { toOutgoing } from './test/support/outgoing.ts'
    const outgoing = toOutgoing('http://127.0.0.1:${server.port}/v1')
    const incoming = await createHttp1Transport().send(outgoing).answer
    console.log(await incoming.text(100, () => null))`
  const child = Bun.spawn([process.execPath, '-e', source], { cwd: `${import.meta.dir}/../../..`, stdout: 'pipe' })
  expect(await child.stdout.text()).toBe('{}\n')
  expect(await child.exited).toBe(0)
})
