/** How the binary stops: it lets what is under way end, takes nothing new, and obeys a second signal at once. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { createWorkplace, type RunningBinary, type Workplace } from '../support/binary.ts'
import { toFrames } from '../support/frames.ts'
import { HELLO, toCatalogue } from '../support/gateway.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { type StreamStep, streamAnswer, wholeAnswer } from '../support/upstream-answers.ts'

let place: Workplace
let upstream: ScriptedUpstream
let resume: () => void

beforeEach(async () => {
  place = createWorkplace()
  upstream = await startUpstream()
  const gate = Promise.withResolvers<void>()
  resume = gate.resolve
  const [role, ...rest] = streamAnswer().steps
  const [word] = rest
  if (role === undefined || word === undefined) throw new Error('an answer has words')
  // The first word at once, the others when the test says so.
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
afterEach(async () => {
  await place.close()
  await upstream.stop()
})

async function serve(...args: string[]): Promise<RunningBinary> {
  const catalog = await place.write('catalog.yaml', toCatalogue({ url: upstream.url }))
  return place.serve(['--first-key', '--catalog', catalog, ...args], { environment: { UPSTREAM_KEY: 'x' } })
}

const chat = (server: RunningBinary) =>
  fetch(`${server.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...HELLO, stream: true }),
  })

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

test('SIGINT does the same, and with nothing under way it ends at once', async () => {
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

test('what does not end within the drain time is cut, and settled as that', async () => {
  const server = await serve('--drain', '200ms')
  const running = await chat(server)
  server.signal('SIGTERM')
  expect(await server.exited).toBe(0)
  expect(await running.text().catch(() => '')).not.toContain('[DONE]')
  await upstream.waitFor(([seen]) => seen?.abortedAtMs !== null, 'the abort')
  expect(server.stderr()).toContain('"status":"cut"')
})

test('a whole answer leaves to its last byte, however slowly it is read', async () => {
  const server = await serve()
  const words = Array.from({ length: 200_000 }, (_, i) => `the long word number ${i} `)
  upstream.script(() => wholeAnswer({ tokens: words }))
  const { port } = new URL(server.baseUrl)
  const body = JSON.stringify(HELLO)
  const got: Buffer[] = []
  const socket = connect(Number(port), '127.0.0.1', () => {
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${server.key}\r\n` +
        `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    )
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
