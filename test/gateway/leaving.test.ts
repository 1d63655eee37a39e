/**
 * Client disconnects at any point: the upstream is released and the row settled with its possible cost. On raw sockets,
 * because clients disconnect that way.
 */
import { describe, expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { costOf, HELLO, HELLO_COUNTED, startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'
import type { Script } from '../support/upstream.ts'
import { endlessAnswer, streamAnswer, toDelta } from '../support/upstream-answers.ts'

const gateway = forAllTests(startGateway)

function ask(body: object): { socket: Socket; text(): string } {
  const { origin } = gateway.app
  const { hostname, port } = new URL(origin)
  const socket = connect(Number(port), hostname)
  const json = JSON.stringify({ ...HELLO, ...body })
  let text = ''
  socket.on('data', (bytes) => {
    text += bytes.toString()
  })
  socket.on('error', () => {})
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gateway.key}\r\ncontent-type: application/json\r\ncontent-length: ${json.length}\r\n\r\n${json}`,
  )
  return { socket, text: () => text }
}

interface Leaving {
  name: string
  script: Script
  stream: boolean
  after: string | null
  httpStatus: number
}

const FLOOD = 'x'.repeat(1024)
/** Characters of one letter that make one token. */
const LONGEST_TOKEN = 8
const words = [...streamAnswer({ tokens: ['one ', 'two '], finish: null, usage: null }).steps]
const LEAVINGS: Leaving[] = [
  { name: 'before the headers of a stream', script: { kind: 'silent' }, stream: true, after: null, httpStatus: 499 },
  { name: 'while a whole answer is pending', script: { kind: 'silent' }, stream: false, after: null, httpStatus: 499 },
  {
    name: 'before the first word',
    script: { kind: 'stream', steps: [toDelta({ role: 'assistant', content: '' })], end: 'hang' },
    stream: true,
    after: null,
    httpStatus: 499,
  },
  {
    name: 'in the silence after two words',
    script: { kind: 'stream', steps: words, end: 'hang' },
    stream: true,
    after: 'two ',
    httpStatus: 200,
  },
  { name: 'under a flood', script: () => endlessAnswer(FLOOD.length), stream: true, after: 'xxx', httpStatus: 200 },
]

describe.each(['end', 'resetAndDestroy'] as const)('a client that disconnects by %s', (how) => {
  test.each(LEAVINGS)('$name is billed an estimate, and the upstream is released', async (leaving) => {
    const { app, upstream } = gateway
    const [before, calls] = [await app.count(), upstream.requests.length]
    upstream.script(leaving.script)
    const { socket, text } = ask({ stream: leaving.stream })
    await upstream.waitFor((seen) => seen.length === calls + 1, 'the call')
    const { after } = leaving
    if (after === null) await Bun.sleep(20)
    else await until(after, () => text().includes(after))
    socket[how]()

    await upstream.waitFor((seen) => seen.at(-1)?.abortedAtMs !== null, 'the abort')
    const row = (await app.settled(before + 1)).at(-1)
    expect(row).toMatchObject({ status: 'cut', estimated: 1, http_status: leaving.httpStatus })
    expect(row).toMatchObject({ error_code: 'client_closed_request', prompt_tokens: HELLO_COUNTED })
    if (after === null) expect(row?.cost_nano_usd).toBe(costOf(HELLO_COUNTED, 0))
    if (after === 'two ') expect(row?.cost_nano_usd).toBe(costOf(HELLO_COUNTED, 3))
    const written = row?.completion_tokens ?? -1
    if (after === 'xxx') {
      // Between the lowest count of what the client got and what the upstream sent.
      const got = text().split(FLOOD).length - 1
      expect(written).toBeGreaterThanOrEqual(Math.max(got, 1) * (FLOOD.length / LONGEST_TOKEN))
      expect(written).toBeLessThanOrEqual((upstream.requests.at(-1)?.bytesSent ?? 0) / 4)
      expect(row?.cost_nano_usd).toBe(costOf(HELLO_COUNTED, written))
    } else expect(written).toBe(after === null ? 0 : 3)
    socket.destroy()
  })
})

test("a client that disconnects within its own request leaves no row, and isn't an internal error", async () => {
  const { app } = gateway
  const before = await app.count()
  const { hostname, port } = new URL(app.origin)
  const socket = connect(Number(port), hostname)
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gateway.key}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"model":`,
  )
  await Bun.sleep(50)
  socket.destroy()
  await Bun.sleep(50)
  expect(await app.count()).toBe(before)
  expect(await app.logText()).not.toContain('"level":"error"')
})

test('afterwards, the next request gets a response and nothing is in flight', async () => {
  const { app, upstream } = gateway
  upstream.script(streamAnswer())
  expect(await (await gateway.chat({ stream: true })).text()).toEndWith('data: [DONE]\n\n')
  expect(await app.logText()).not.toContain('an unexpected error')
})
