/**
 * Limits on requests in flight and their memory: beyond them 503 without a row, and all capacity is released in the
 * end.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Status } from '../../src/server/protocol.ts'
import { type Gateway, HELLO, startGateway } from '../support/gateway.ts'
import { expectEnvelope } from '../support/scenario.ts'
import { expectHonest, isOver } from '../support/several-upstreams.ts'
import { obliging, type Script } from '../support/upstream.ts'
import { endlessAnswer, errorAnswer, streamAnswer, toDelta, wholeAnswer } from '../support/upstream-answers.ts'

const overloaded = { type: 'service_unavailable_error', code: 'server_is_overloaded', param: null }

async function expectOverloaded(response: Response, says: string): Promise<void> {
  const text = await response.text()
  expect({ status: response.status, text }).toMatchObject({ status: 503 })
  expectEnvelope(response, text, overloaded)
  expect(text).toContain(says)
  expect(response.headers.get('retry-after')).toBe('1')
}

/** A connection that sends raw bytes. */
function open({ app }: Gateway): Socket {
  const { hostname, port } = new URL(app.origin)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  socket.on('data', () => {})
  return socket
}

const toHead = (gateway: Gateway, more: string) =>
  `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gateway.key}\r\ncontent-type: application/json\r\n${more}\r\n\r\n`

describe('with three requests at once', () => {
  const MAX = 3
  let gateway: Gateway
  let rows = 0
  beforeAll(async () => {
    gateway = await startGateway({ config: { maxInFlight: MAX, share: 1 }, deadlines: 'total_whole: 20s' })
  })
  beforeEach(async () => {
    gateway.upstream.script(obliging)
    gateway.app.pass(60_000)
    rows = await gateway.app.count()
  })
  afterAll(async () => {
    expect(await gateway.app.logText()).not.toContain('"level":"error"')
    await expectHonest(gateway.app)
    await gateway.stop()
  })

  /** Checks that exactly so many fit, streamed and whole, and the next gets 503 at once. */
  async function expectExactly(count: number): Promise<void> {
    const { app, upstream, chat } = gateway
    const gate = Promise.withResolvers<void>()
    upstream.script(() => ({ ...streamAnswer(), after: gate.promise }))
    const [before, calls] = [await app.count(), upstream.requests.length]
    const held = Array.from({ length: count }, () => chat({ stream: true }))
    await upstream.waitFor((all) => all.length === calls + count, `${count} calls`)
    await expectOverloaded(await chat(), '3 requests in flight (limit)')
    await expectOverloaded(await chat({ stream: true }), '3 requests in flight (limit)')
    expect(upstream.requests).toHaveLength(calls + count)
    gate.resolve()
    for (const response of await Promise.all(held)) expect(await response.text()).toEndWith('[DONE]\n\n')
    await app.settled(before + count)
  }

  const leaveWhile = async (script: Script, stream: boolean, after: string | null) => {
    const { app, upstream, chat } = gateway
    upstream.script(script)
    const [rows, calls] = [await app.count(), upstream.requests.length]
    const client = new AbortController()
    const asked = chat({ stream }, { signal: client.signal })
    await upstream.waitFor((all) => all.length === calls + 1, 'the call')
    if (after !== null) await (await asked).body?.getReader().read()
    client.abort()
    await asked.then((response) => response.text()).catch(() => {})
    await upstream.waitFor((all) => all.at(-1)?.abortedAtMs !== null, 'the abort')
    // The slot is released only once the answer is counted and settled.
    await app.settled(rows + 1)
  }
  const answered = async (script: Script, body: object = {}, headers = {}) => {
    gateway.upstream.script(script)
    await (await gateway.chat({ ...body }, { headers })).text()
  }
  const breakOff = async (framing: string, part: string) => {
    const socket = open(gateway)
    socket.write(toHead(gateway, framing) + part)
    await Bun.sleep(20)
    socket.destroy()
    await Bun.sleep(20)
  }
  const post = (body: string, type = 'application/json') =>
    fetch(`${gateway.app.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': type },
      body,
    }).then((response) => response.text())
  const words = [toDelta({ content: 'one' }), { waitMs: 10 }]

  test.each<[string, () => Promise<unknown>]>([
    ['is answered whole', () => answered(wholeAnswer())],
    ['is answered in a stream', () => answered(streamAnswer(), { stream: true })],
    ['fails', () => answered(errorAnswer(400))],
    ['fails as a stream', () => answered({ kind: 'reset' }, { stream: true })],
    ['is cut', () => answered({ kind: 'stream', steps: words, end: 'reset' }, { stream: true })],
    ['has bad JSON', () => post('{"model":')],
    ['is no JSON', () => post('hello', 'text/plain')],
    ['lacks a field', () => post('{}')],
    ['is for no model', () => answered(wholeAnswer(), { model: 'acme/none' })],
    ['is for a model that is not ready', () => answered(wholeAnswer(), { model: 'acme/idle' })],
    ['is for a model that cannot do it', () => answered(wholeAnswer(), { max_tokens: 1_001 })],
    ['says that it is too large', () => breakOff(`content-length: ${64 * 1024 ** 2}`, '{')],
    ['breaks off in its body', () => breakOff('content-length: 100', '{"model":')],
    ['breaks off in a chunk', () => breakOff('transfer-encoding: chunked', '40\r\n{"model":')],
    ['is left by its client while it waits', () => leaveWhile({ kind: 'silent' }, false, null)],
    ['is left by its client before the first word', () => leaveWhile({ kind: 'silent' }, true, null)],
    ['is left by its client in a stream', () => leaveWhile(() => endlessAnswer(), true, 'x')],
  ])('one that %s leaves its slot to the next', async (_, end) => {
    for (let i = 0; i < MAX + 1; i++) await end()
    gateway.app.pass(60_000)
    gateway.upstream.script(obliging)
    // Closes the breaker that the failures opened.
    await (await gateway.chat()).text()
    await expectExactly(MAX)
  })

  test("one over its key's own limit takes no slot", async () => {
    const key = gateway.app.key({ rpm: 1 })
    const statuses: number[] = []
    for (let i = 0; i < MAX + 2; i++) {
      const response = await gateway.chat({}, { headers: { authorization: `Bearer ${key}` } })
      await response.text()
      statuses.push(response.status)
    }
    expect(statuses).toEqual([200, ...Array(MAX + 1).fill(429)])
    await expectExactly(MAX)
  })

  test('those without a key still get that error, and the fourth leaves no row', async () => {
    const { app, upstream, chat } = gateway
    const gate = Promise.withResolvers<void>()
    upstream.script(() => ({ ...streamAnswer(), after: gate.promise }))
    const calls = upstream.requests.length
    const held = Array.from({ length: MAX }, () => chat({ stream: true }))
    await upstream.waitFor((all) => all.length === calls + MAX, 'three calls')
    expect((await chat({}, { headers: { authorization: 'Bearer sk-tg-wrong' } })).status).toBe(401)
    await expectOverloaded(await chat(), 'in flight')
    const socket = open(gateway)
    const said = new Promise<string>((resolve) => socket.on('data', (bytes) => resolve(bytes.toString())))
    socket.write(toHead(gateway, 'content-length: 100'))
    expect(await said).toStartWith('HTTP/1.1 503')
    socket.destroy()
    expect(app.rows()).toHaveLength(rows + MAX)
    gate.resolve()
    for (const response of await Promise.all(held)) await response.text()
  })
})

// Bodies read in one go, and bodies counted on arrival.
describe.each([100_000, 1_000_000])('with %d bytes of memory', (MAX) => {
  let gateway: Gateway
  beforeAll(async () => {
    gateway = await startGateway({ config: { maxBufferedBytes: MAX, share: 1 } })
  })
  beforeEach(() => gateway.upstream.script(obliging))
  afterAll(async () => {
    await gateway.upstream.waitFor(isOver, 'the end of every call')
    await expectHonest(gateway.app)
    await gateway.stop()
  })

  const sized = (bytes: number) => ({ ...HELLO, metadata: { padding: 'x'.repeat(500) }, padding: 'x'.repeat(bytes) })

  async function* inPieces(text: string) {
    for (let at = 0; at < text.length; at += 16_384) yield Buffer.from(text.slice(at, at + 16_384))
  }
  const send = (bytes: number, chunked: boolean) => {
    const json = JSON.stringify(sized(bytes))
    return fetch(`${gateway.app.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: chunked ? inPieces(json) : json,
    })
  }

  test.each([false, true])('a larger body is rejected without a row, chunked: %p', async (chunked) => {
    const { app, upstream } = gateway
    const [rows, calls] = [await app.count(), upstream.requests.length]
    await expectOverloaded(await send(MAX, chunked), 'requests in flight hold')
    expect(app.rows()).toHaveLength(rows)
    expect(upstream.requests).toHaveLength(calls)
    expect((await send(0.9 * MAX, chunked)).status).toBe(200)
  })

  test.each([false, true])('bodies count together until their responses end, chunked: %p', async (chunked) => {
    const { app, upstream } = gateway
    const gate = Promise.withResolvers<void>()
    upstream.script(() => ({ ...streamAnswer(), after: gate.promise }))
    const [rows, calls] = [await app.count(), upstream.requests.length]
    const first = gateway.chat({ ...sized(0.6 * MAX), stream: true })
    await upstream.waitFor((all) => all.length === calls + 1, 'the first call')
    await expectOverloaded(await send(0.6 * MAX, chunked), 'requests in flight hold')
    expect(app.rows()).toHaveLength(rows + 1)
    gate.resolve()
    expect(await (await first).text()).toEndWith('[DONE]\n\n')
    upstream.script(obliging)
    for (let i = 0; i < 3; i++) expect((await send(0.6 * MAX, chunked)).status).toBe(200)
  })

  test('a client that disconnects within its body frees them', async () => {
    const part = 'x'.repeat(0.45 * MAX)
    for (const framing of [`content-length: ${0.9 * MAX}`, 'transfer-encoding: chunked']) {
      const socket = open(gateway)
      socket.write(`${toHead(gateway, framing)}${part.length.toString(16)}\r\n${part}\r\n`)
      await Bun.sleep(30)
      socket.destroy()
      await Bun.sleep(30)
      expect((await send(0.9 * MAX, false)).status).toBe(200)
    }
  })

  test.each<[string, Script]>([
    ['whose length is stated', { kind: 'whole', body: 'x'.repeat(20_000_000) }],
    [
      'in pieces',
      { kind: 'stream', headers: { 'content-type': 'application/json' }, steps: Array(500).fill('x'.repeat(40_000)) },
    ],
  ])('a larger response is not read further, %s', async (_, script) => {
    const { app, upstream } = gateway
    upstream.script(script)
    const rows = await app.count()
    await expectOverloaded(await gateway.chat(), 'requests in flight hold')
    await upstream.waitFor((all) => all.at(-1)?.abortedAtMs !== null, 'the end of the connection')
    // The upstream wrote an answer, and will bill it.
    const row = (await app.settled(rows + 1)).at(-1)
    expect(row).toMatchObject({ status: 'failed', http_status: 503, error_code: 'server_is_overloaded', estimated: 1 })
    expect(row?.cost_nano_usd).toBeGreaterThan(0)
    expect(upstream.requests.at(-1)?.bytesSent).toBeLessThan(20_000_000)
    upstream.script(obliging)
    expect((await send(0.8 * MAX, false)).status).toBe(200)
  })

  test('an error has its status even without memory for its text', async () => {
    const { app, upstream } = gateway
    upstream.script(errorAnswer(500, 'x'.repeat(0.5 * MAX)))
    const rows = await app.count()
    const response = await send(0.7 * MAX, false)
    expect(response.status).toBe(502)
    expect(await response.text()).toContain('`paid` returned 500')
    expect((await app.settled(rows + 1)).at(-1)).toMatchObject({ status: 'failed', cost_nano_usd: 0, estimated: 0 })
  })
})

test('a content-length takes no memory, and received bytes do', async () => {
  const gateway = await startGateway({ config: { maxBufferedBytes: 4_000_000, share: 1 } })
  const send = (bytes: number) => gateway.chat({ padding: 'x'.repeat(bytes) })
  const held = async () => {
    const answer = await fetch('http://localhost/status', { unix: join(gateway.app.dataFolder, 'control.sock') })
    const { in_flight: clients, buffered_bytes: bytes }: Status = JSON.parse(await answer.text())
    return { clients, bytes }
  }
  const sockets = Array.from({ length: 16 }, () => open(gateway))
  for (const socket of sockets) socket.write(`${toHead(gateway, 'content-length: 3900000')}{`)
  while ((await held()).clients < 16) await Bun.sleep(5)
  expect((await send(3_500_000)).status).toBe(200)
  sockets[0]?.write('x'.repeat(3_600_000))
  while ((await held()).bytes < 3_600_000) await Bun.sleep(5)
  await expectOverloaded(await send(600_000), 'requests in flight hold')
  expect((await send(300_000)).status).toBe(200)
  for (const socket of sockets) socket.destroy()
  await gateway.stop()
})
