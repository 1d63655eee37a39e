/** Request bodies that never arrive: a total time limit, and none after a stop. */
import { expect, test } from 'bun:test'
import { GatewayError } from '../../src/domain/error.ts'
import { readBody, Uploads } from '../../src/gateway/read.ts'
import { startGateway } from '../support/gateway.ts'
import { until } from '../support/until.ts'
import { obliging } from '../support/upstream.ts'
import { sendHalf, statusOf } from './half-sent.ts'

const FRAMINGS: [string, string][] = [
  ['content-length: 1000', '{'],
  ['content-length: 3000000', `{"a":"${'x'.repeat(500_000)}`],
  ['transfer-encoding: chunked', '4\r\n{"a"\r\n'],
]

test.each(FRAMINGS)(
  "a body of %s that doesn't arrive in time is a 408, and its connection ends",
  async (framing, body) => {
    const gateway = await startGateway({ script: obliging, config: { uploadMs: 100 } })
    const { app, key } = gateway
    const half = sendHalf(app, key, framing, body)
    // However slowly it arrives.
    const drip = setInterval(() => half.socket.write(framing.includes('chunked') ? '1\r\n \r\n' : ' '), 20)
    await until('the end of the connection', () => half.isClosed)
    clearInterval(drip)
    expect(half.answer).toStartWith('HTTP/1.1 408')
    expect(JSON.parse(half.answer.split('\r\n\r\n')[1] ?? '')).toMatchObject({
      error: { type: 'invalid_request_error', code: 'slow_upload', param: null },
    })
    expect(half.answer).toContain('Timed out reading the request body after 0.1 s.')
    expect(await statusOf(app)).toMatchObject({ in_flight: 0, buffered_bytes: 0 })
    expect((await gateway.chat()).status).toBe(200)
    await gateway.stop()
  },
)

test('a body in chunks of one byte, sent as fast as possible, is rejected, and its connection ends', async () => {
  const gateway = await startGateway({ script: obliging })
  const { app, key } = gateway
  const half = sendHalf(app, key, 'transfer-encoding: chunked', `1\r\n"\r\n${'1\r\nx\r\n'.repeat(100_000)}`)
  await until('the end of the connection', () => half.isClosed)
  expect(half.answer).toStartWith('HTTP/1.1 400')
  expect(half.answer).toContain('chunks, which are too small')
  await gateway.stop()
})

test('a rejection ends the connection of a chunked body, of which any number of chunks might follow', async () => {
  const gateway = await startGateway({ script: obliging })
  const half = sendHalf(gateway.app, 'sk-tg-nobody', 'transfer-encoding: chunked', '1\r\n{\r\n')
  await until('the end of the connection', () => half.isClosed)
  expect(half.answer).toStartWith('HTTP/1.1 401')
  await gateway.stop()
})

test("a stopping server doesn't wait for bodies", async () => {
  const gateway = await startGateway({ script: obliging })
  const { app, key } = gateway
  const halves = FRAMINGS.map(([framing, body]) => sendHalf(app, key, framing, body))
  await until('all are held', async () => (await statusOf(app)).in_flight === halves.length)
  expect(await app.stop()).toBe(true)
  await until('the end of the connections', () => halves.every(({ isClosed }) => isClosed))
  for (const { answer } of halves) expect(answer).toStartWith('HTTP/1.1 503')
  await gateway.upstream.stop()
})

test('each body has its own deadline, and one timer serves all', async () => {
  let nowMs = 0
  const timers: { ms: number; then(): void }[] = []
  const uploads = new Uploads({ uploadMs: 100, nowMs: () => nowMs, after: (ms, then) => timers.push({ ms, then }) })
  const endless = () => uploads.begin().race(new Promise<string>(() => {}))
  const first = endless()
  nowMs = 30
  const second = endless()
  const read = uploads.begin().race(Promise.resolve('read'))
  expect(await read).toBe('read')
  expect(timers.map(({ ms }) => ms)).toEqual([100])
  nowMs = 100
  timers.shift()?.then()
  expect(await first).toBeInstanceOf(GatewayError)
  expect(timers.map(({ ms }) => ms)).toEqual([30])
  nowMs = 130
  timers.shift()?.then()
  expect(await second).toMatchObject({ status: 408 })
  expect(timers).toEqual([])
})

test("a body without memory isn't among the ones waited for", async () => {
  const timers: number[] = []
  const uploads = new Uploads({ uploadMs: 100, nowMs: () => 0, after: (ms) => timers.push(ms) })
  const full = new GatewayError('overloaded', 'full')
  const request = new Request('http://localhost/', { method: 'POST', body: '{}' })
  expect(await readBody(request, { 'content-length': '2' }, { take: () => full }, uploads)).toBe(full)
  expect(timers).toEqual([])
})
