/** Endless events and answers, compressed or not, and readers that don't read: bounded memory and an exact ledger. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { hear } from '../support/door-clients.ts'
import { COUNTS, WORDS } from '../support/door-upstreams.ts'
import { type DoorGateway, startDoors, WRITING } from '../support/doors.ts'
import { HELLO } from '../support/gateway.ts'
import { endWell, type Several, startSeveral } from '../support/several-upstreams.ts'
import { endlessAnswer, toDelta, wholeAnswer } from '../support/upstream-answers.ts'

const MIB = 1024 ** 2

let several: Several
let rows = 0
beforeAll(async () => {
  several = await startSeveral({ config: { slowReaderMs: 300 } })
})
beforeEach(async () => {
  several.calm()
  rows = await several.app.count()
})
afterAll(() => endWell(several))

const lastRow = async () => (await several.app.settled(rows + 1)).at(-1)
const ask = (body: object = {}, options = {}) => several.chat({ model: 'acme/only', ...body }, options)

describe('output beyond the limits', () => {
  function* flood(bytes: number, begin: string): Generator<string> {
    yield begin
    for (let sent = 0; sent < bytes; sent += 65_536) yield 'x'.repeat(65_536)
  }

  test.each([
    ['before the first word', []],
    ['after the first word', [toDelta({ content: 'one' }), { waitMs: 20 }]],
  ] as const)('an event of 50 MB %s ends at four', async (_, steps) => {
    several.first.script(() => ({ kind: 'stream', steps: [...steps, ...flood(50 * MIB, 'data: {"x":"')], end: 'hang' }))
    const response = await ask({ stream: true })
    const text = await response.text()
    expect(text).toContain('sent an event of more than 4 MiB')
    await several.first.waitFor((all) => all.at(-1)?.abortedAtMs !== null, 'the end of the connection')
    // The four that are read, and what the buffers between hold.
    expect(several.first.requests.at(-1)?.bytesSent).toBeLessThan(20 * MIB)
    expect(response.status).toBe(steps.length === 0 ? 502 : 200)
    expect(await lastRow()).toMatchObject({
      status: steps.length === 0 ? 'failed' : 'cut',
      error_code: 'upstream_failed',
    })
  })

  describe('without content', () => {
    let doors: DoorGateway
    beforeAll(async () => {
      doors = await startDoors()
    })
    afterAll(() => doors.stop())

    test.each(WRITING)('is a stream of $name, which fails after 16 MiB', async (door) => {
      await doors.calm(door)
      const { head, idle } = door.stream
      const padding = 'x'.repeat(8_000)
      const steps = (function* () {
        yield* head(COUNTS)
        for (let number = 0; ; number++) yield idle(number, padding)
      })()
      doors.near.script({ kind: 'stream', steps, end: 'hang' })
      const calls = doors.near.requests.length
      const response = await doors.ask(door, { stream: true, route: 'both' })
      expect(hear(door.client, await response.text())).toMatchObject({ end: 'whole', text: WORDS.join('') })
      const call = doors.near.requests[calls]
      expect(call?.bytesSent).toBeLessThan(40 * MIB)
      await doors.rows(1)
    })
  })

  const PACKED = { 'content-type': 'application/json', 'content-encoding': 'gzip' }

  test('an event of 100 MB in a thousand pieces ends no later', async () => {
    const bomb = Bun.gzipSync(Buffer.concat([Buffer.from('data: '), Buffer.alloc(100 * MIB, 'x')]))
    several.first.script({ kind: 'stream', headers: { 'content-encoding': 'gzip' }, steps: [bomb], end: 'hang' })
    const response = await ask({ stream: true })
    expect(await response.text()).toContain('sent an event of more than 4 MiB')
    expect(response.status).toBe(502)
  })

  test('so does a whole response, at 64 MB, which is paid for and not retried', async () => {
    const calls = several.first.requests.length
    const bomb = Bun.gzipSync(Buffer.concat([Buffer.from('{"x":"'), Buffer.alloc(100 * MIB, 'x'), Buffer.from('"}')]))
    several.first.script({ kind: 'whole', headers: PACKED, body: bomb })
    const response = await ask()
    const text = await response.text()
    expect({ status: response.status, text }).toMatchObject({ status: 502 })
    expect(text).toContain('returned more than 64 MiB')
    const row = await lastRow()
    expect(row).toMatchObject({ status: 'failed', estimated: 1, attempts: 1 })
    expect(row?.cost_nano_usd).toBeGreaterThan(0)
    expect(several.first.requests).toHaveLength(calls + 1)
  })

  test('so does one with a million names, most of it unparsed', async () => {
    const body = `{${Array.from({ length: 1_000_000 }, (_, i) => `"k${i}":0`).join()}}`
    const calls = several.first.requests.length
    several.first.script({ kind: 'whole', body })
    const response = await ask()
    expect({ status: response.status, text: await response.text() }).toMatchObject({
      status: 502,
      text: expect.stringContaining('returned JSON that has too many values'),
    })
    const row = await lastRow()
    expect(row).toMatchObject({ status: 'failed', estimated: 1, attempts: 1 })
    expect(row?.cost_nano_usd).toBeGreaterThan(0)
    expect(several.first.requests).toHaveLength(calls + 1)
  })

  test('a long response with log probabilities arrives complete', async () => {
    const token = { token: 'x', logprob: -1, bytes: [120] }
    const content = Array(4_000).fill({ ...token, top_logprobs: Array(20).fill(token) })
    const { body } = wholeAnswer({ tokens: ['x'] })
    const choice = { index: 0, message: { role: 'assistant', content: 'x' }, logprobs: { content, refusal: null } }
    several.first.script({ kind: 'whole', body: { ...(body as object), choices: [choice] } })
    const answer = await (await ask({ logprobs: true, top_logprobs: 20 })).json()
    expect(answer).toMatchObject({ choices: [{ logprobs: { content } }] })
  })

  test('a compressed response of normal size is read', async () => {
    several.first.script({ ...wholeAnswer({ tokens: ['one ', 'two'] }), gzip: true })
    expect(await (await ask()).json()).toMatchObject({ choices: [{ message: { content: 'one two' } }] })
  })
})

describe('a client that does not read', () => {
  /** Waits for a client longer than any test runs. */
  let patient: Several
  beforeAll(async () => {
    patient = await startSeveral({ config: { slowReaderMs: 600_000 } })
  })
  afterAll(() => endWell(patient))

  async function askAndStop({ app, key }: Several) {
    const { hostname, port } = new URL(app.origin)
    const socket = connect(Number(port), hostname)
    const json = JSON.stringify({ ...HELLO, model: 'acme/only', stream: true })
    socket.on('error', () => {})
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${json.length}\r\n\r\n${json}`,
    )
    await new Promise((resolve) => socket.once('data', resolve))
    socket.pause()
    return socket
  }

  /** Stops reading, runs `leave` once the upstream is blocked, and checks the cost. */
  async function expectBounded(at: Several, leave: (socket: Socket) => void, code: string) {
    at.first.script(() => endlessAnswer(1_024))
    const [calls, before] = [at.first.requests.length, await at.app.count()]
    const socket = await askAndStop(at)
    const call = at.first.requests[calls]
    let sent = -1
    // The upstream blocks once every buffer is full.
    while (sent !== call?.bytesSent) {
      sent = call?.bytesSent ?? 0
      await Bun.sleep(50)
    }
    leave(socket)
    await at.first.waitFor((all) => all[calls]?.abortedAtMs !== null, 'the end of the call')
    expect(call?.bytesSent).toBeLessThan(40 * MIB)
    const row = (await at.app.settled(before + 1)).at(-1)
    expect(row).toMatchObject({ status: 'cut', error_code: code, upstream: 'first', estimated: 1 })
    expect(row?.completion_tokens).toBeGreaterThan(0)
    at.calm()
    expect(await (await at.chat({ model: 'acme/only' })).text()).toContain('this is first')
    socket.destroy()
  }

  test('blocks the upstream, uses no memory, is disconnected in time, and is billed', () =>
    expectBounded(several, () => {}, 'slow_reader'))

  test('and disappears long before its timeout is noticed at once, and billed', () =>
    expectBounded(patient, (socket) => socket.resetAndDestroy(), 'client_closed_request'))

  test('and then reads again finds its response interrupted', async () => {
    several.first.script(() => endlessAnswer(1_024))
    const socket = await askAndStop(several)
    await lastRow()
    let end = ''
    const over = new Promise((resolve) => socket.once('end', resolve).once('close', resolve))
    socket.on('data', (piece) => {
      end = (end + piece).slice(-2_000)
      if (end.endsWith('0\r\n\r\n')) socket.end()
    })
    socket.resume()
    await over
    expect(end).toContain('data: {"error":{"message":"Response stopped: the client read nothing for 0.3 s."')
    expect(end).not.toContain('[DONE]')
  })
})
