/** How the binary stops: it finishes requests in flight, refuses new ones, and obeys a second signal at once. */
import { beforeEach, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { createWorkplace, type RunningBinary } from '../support/binary.ts'
import { toFrames } from '../support/frames.ts'
import { HELLO, toCatalogue } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'
import { startUpstream } from '../support/upstream.ts'
import { type StreamStep, streamAnswer, toDelta, wholeAnswer } from '../support/upstream-answers.ts'

let resume: () => void

const place = forEachTest(createWorkplace)
const upstream = forEachTest(startUpstream)
beforeEach(() => {
  const gate = Promise.withResolvers<void>()
  resume = gate.resolve
  const [role, ...rest] = streamAnswer().steps
  const [word] = rest
  if (role === undefined || word === undefined) throw new Error('an answer has words')
  // The first word at once, the others on request of the test.
  const steps: StreamStep[] = [role, word]
  let open = false
  void gate.promise.then(() => {
    open = true
  })
  function* script(): Generator<StreamStep> {
    yield* steps
    while (!open) yield { waitMs: 10 }
    yield* rest.slice(1)
  }
  upstream.script(() => ({ kind: 'stream', steps: script() }))
})

async function serve(...args: string[]): Promise<RunningBinary> {
  const catalog = await place.write('catalog.yaml', toCatalogue({ url: upstream.url }))
  return place.serve(['--first-key', '--catalog', catalog, ...args], { environment: { UPSTREAM_KEY: 'x' } })
}

const ask = (server: RunningBinary, body: object) =>
  fetch(`${server.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

const chat = (server: RunningBinary) => ask(server, { ...HELLO, stream: true })

/** The same over a socket, for a client that controls its reading. */
function toRaw({ key }: RunningBinary, asked: object): string {
  const body = JSON.stringify(asked)
  return (
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n` +
    `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
  )
}

test('SIGTERM lets a running stream end, refuses new requests meanwhile, and exits with 0', async () => {
  const server = await serve()
  const running = await chat(server)
  expect(running.status).toBe(200)
  server.signal('SIGTERM')
  await server.logged('"stopping"')

  const ready = await fetch(new URL('/readyz', server.baseUrl))
  expect({ status: ready.status, body: await ready.json() }).toEqual({ status: 503, body: { status: 'draining' } })
  expect((await fetch(new URL('/healthz', server.baseUrl))).status).toBe(200)
  const refused = await chat(server)
  expect(refused.status).toBe(503)
  expect(refused.headers.get('retry-after')).toBe('1')
  expect(await refused.json()).toMatchObject({ error: { code: 'server_is_overloaded' } })

  resume()
  const { content, done } = toFrames(await running.text())
  expect(content).toBe('tok0 tok1 tok2 tok3 tok4 ')
  expect(done).toBe(true)
  expect(await server.exited).toBe(0)
  expect(server.stderr()).not.toContain('"level":"error"')
})

test('SIGINT does the same, and without requests in flight it ends at once', async () => {
  const server = await serve()
  server.signal('SIGINT')
  expect(await server.exited).toBe(0)
})

test('a second signal ends it at once, with 1', async () => {
  const server = await serve()
  const running = await chat(server)
  server.signal('SIGTERM')
  await server.logged('"stopping"')
  server.signal('SIGTERM')
  expect(await server.exited).toBe(1)
  await running.text().catch(() => {})
})

const finished = (server: RunningBinary): Record<string, unknown>[] =>
  server
    .stderr()
    .split('\n')
    .filter((line) => line.includes('"request_finished"'))
    .map((line) => JSON.parse(line))

test('a request that exceeds the drain time gets an error, and is settled as interrupted by the server', async () => {
  const server = await serve('--drain', '200ms', '--disconnect-grace', 'off')
  const running = await chat(server)
  server.signal('SIGTERM')
  const { content, done, error } = toFrames(await running.text())
  expect({ content, done, code: error?.code }).toEqual({ content: 'tok0 ', done: false, code: 'server_stopping' })
  expect(await server.exited).toBe(0)
  await upstream.waitFor(([seen]) => seen?.abortedAtMs !== null, 'the abort')
  expect(finished(server)).toMatchObject([{ status: 'cut', http: 200, code: 'server_stopping', estimated: true }])
  expect(server.stderr()).not.toContain('"level":"error"')
})

test("neither a client that doesn't read nor a silent upstream prevents the end", async () => {
  const server = await serve('--drain', '200ms')
  const word = toDelta({ content: 'a long word '.repeat(2_000) })
  function* endless(): Generator<StreamStep> {
    for (;;) yield word
  }
  upstream.script(({ json }) =>
    json?.stream === true ? { kind: 'stream', steps: endless(), end: 'hang' } : { kind: 'silent' },
  )
  const whole = ask(server, HELLO)
  const unread = connect(Number(new URL(server.baseUrl).port), '127.0.0.1', () => {
    unread.pause()
    unread.write(toRaw(server, { ...HELLO, stream: true }))
  })
  unread.on('error', () => {})
  const sent = () => upstream.requests.find(({ json }) => json?.stream === true)?.bytesSent ?? 0
  await upstream.waitFor((seen) => seen.length === 2 && sent() > 1_000_000, 'an answer that nobody reads')
  server.signal('SIGTERM')
  const refused = await whole
  expect({ status: refused.status, again: refused.headers.get('retry-after') }).toEqual({ status: 503, again: '1' })
  expect(await refused.json()).toMatchObject({ error: { code: 'server_stopping' } })
  expect(await server.exited).toBe(0)
  unread.destroy()
  const ends = finished(server).map(({ stream, status, code }) => ({ stream, status, code }))
  expect(ends).toHaveLength(2)
  expect(ends).toContainEqual({ stream: true, status: 'cut', code: 'server_stopping' })
  expect(ends).toContainEqual({ stream: false, status: 'failed', code: 'server_stopping' })
}, 30_000)

test('a whole response is sent to its last byte, however slowly it is read', async () => {
  const server = await serve()
  const words = Array.from({ length: 200_000 }, (_, i) => `the long word number ${i} `)
  upstream.script(() => wholeAnswer({ tokens: words }))
  const { port } = new URL(server.baseUrl)
  const got: Buffer[] = []
  const socket = connect(Number(port), '127.0.0.1', () => {
    socket.write(toRaw(server, HELLO))
  })
  socket.on('data', (piece) => {
    got.push(Buffer.from(piece))
    socket.pause()
    setTimeout(() => socket.resume(), 2)
  })
  const closed = new Promise((resolve) => socket.on('close', resolve))
  await new Promise((resolve) => socket.once('data', resolve))
  server.signal('SIGTERM')
  expect(await server.exited).toBe(0)
  await closed
  const [head = '', json = ''] = Buffer.concat(got).toString('utf8').split('\r\n\r\n')
  expect(head).toStartWith('HTTP/1.1 200')
  expect(JSON.parse(json).choices[0].message.content).toBe(words.join(''))
}, 60_000)
