/** On every endpoint: interrupted streams, failures before the first word, and readers that stop reading. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { checkHeaders } from '../support/contract.ts'
import { type HeardStream, hear } from '../support/door-clients.ts'
import { COUNTS, failing, WORDS } from '../support/door-upstreams.ts'
import { costOf, DOORS, type Door, type DoorGateway, ownCountOf, STREAMING, startDoors } from '../support/doors.ts'
import type { StreamEnd, StreamStep } from '../support/upstream-answers.ts'

let gateway: DoorGateway
beforeAll(async () => {
  const settings = ', deadlines: { idle: 300ms }'
  gateway = await startDoors({ settings, config: { slowReaderMs: 300 } })
  // The counting thread starts slowly under load, and late counts are estimated.
  const [first] = STREAMING
  if (!first) throw new Error('no door streams')
  gateway.calm(first)
  gateway.near.script({ kind: 'stream', steps: upToHere(first), end: 'eof' })
  await heard(first)
})
afterAll(() => gateway.stop())

type Streaming = (typeof STREAMING)[number]

/** The pause lets the words arrive: a broken connection loses buffered ones. */
const upToHere = ({ stream }: Streaming): StreamStep[] => [
  ...stream.head(COUNTS),
  ...WORDS.map(stream.word),
  { waitMs: 50 },
]

async function heard(door: Door): Promise<HeardStream> {
  const response = await gateway.ask(door, { stream: true })
  const text = await response.text()
  expect({ status: response.status, text }).toMatchObject({ status: 200 })
  checkHeaders('stream', response.headers)
  if (door.lane === 'translated') door.client.check.stream(text)
  return hear(door.client, text)
}

const CUTS: [how: string, end: StreamEnd | 'failure', code: string, says: RegExp][] = [
  ['stalls', 'hang', 'upstream_timeout', /idle timeout/],
  ['is reset', 'reset', 'upstream_failed', /connection/],
  ['closes within a frame', 'cut', 'upstream_failed', /upstream|`/],
  ['ends early', 'eof', 'upstream_failed', /before the (response|speech) was complete/],
  ['says that it failed', 'failure', 'upstream_failed', /upstream|`/],
]

describe.each(STREAMING)('$name, a stream that', (door) => {
  beforeEach(() => gateway.calm(door))

  const cuts = CUTS.filter(([, end]) => end !== 'hang' || !door.client.isDear)
  test.each(cuts)('%s is reported as interrupted, and billed for its output', async (_, end, code, says) => {
    const steps = upToHere(door)
    gateway.near.script(
      end === 'failure'
        ? { kind: 'stream', steps: [...steps, door.stream.failure('it broke')], end: 'eof' }
        : { kind: 'stream', steps, end },
    )
    const told = await heard(door)
    expect(told).toMatchObject({ text: WORDS.join(''), end: 'failure', looksWhole: false })
    expect(told.failure?.message).toMatch(says)
    const { prompt, completion } = ownCountOf(door)
    expect((await gateway.rows(1))[0]).toMatchObject({
      ...{ status: 'cut', http_status: 200, error_code: code, estimated: 1, endpoint: door.client.endpoint },
      ...{ lane: door.lane, prompt_tokens: prompt, completion_tokens: completion },
      cost_nano_usd: costOf(prompt, completion),
    })
  })

  test("isn't read blocks its upstream, is ended in time, and is billed", async () => {
    const { stream } = door
    const piece = stream.word('x'.repeat(1_024))
    gateway.near.script(() => ({ kind: 'stream', steps: endless([...stream.head(COUNTS)], piece), end: 'hang' }))
    const calls = gateway.near.requests.length
    const socket = await askAndStop(door)
    await gateway.near.waitFor((all) => all[calls]?.abortedAtMs !== null, 'the end of the call', 10_000)
    const [row] = await gateway.rows(1)
    expect(row).toMatchObject({ status: 'cut', error_code: 'slow_reader', estimated: 1 })
    expect(row?.completion_tokens).toBeGreaterThan(0)
    expect(row?.cost_nano_usd).toBe(costOf(Number(row?.prompt_tokens), Number(row?.completion_tokens)))
    socket.destroy()
  })
})

function* endless(head: StreamStep[], piece: StreamStep): Generator<StreamStep> {
  yield* head
  for (;;) yield piece
}

async function askAndStop(door: Door) {
  const { hostname, port } = new URL(gateway.app.origin)
  const socket = connect(Number(port), hostname)
  const model = `${door.id}/one`
  const { path, pathOf } = door.client
  const json = JSON.stringify({ ...(pathOf ? {} : { model }), ...door.client.body({ stream: true }) })
  const head = ['host: x', `authorization: Bearer ${gateway.app.key()}`, 'content-type: application/json']
  socket.on('error', () => {})
  socket.write(
    `POST /v1${pathOf?.(model, true) ?? path} HTTP/1.1\r\n${head.join('\r\n')}\r\ncontent-length: ${json.length}\r\n\r\n${json}`,
  )
  await new Promise((resolve) => socket.once('data', resolve))
  socket.pause()
  return socket
}

const FAILURES: [what: number | 'reset', status: number, code: string | null, type: string][] = [
  [500, 502, 'upstream_failed', 'api_error'],
  [401, 502, 'upstream_failed', 'api_error'],
  [503, 503, 'server_is_overloaded', 'overloaded_error'],
  [429, 429, 'upstream_rate_limited', 'rate_limit_error'],
  [400, 400, null, 'invalid_request_error'],
  ['reset', 502, 'upstream_failed', 'api_error'],
]

describe.each(DOORS)('$name, an upstream that fails before its first token', (door) => {
  const ways = door.upstream.stream ? [false, true] : [false]
  beforeEach(() => gateway.calm(door))

  test.each(FAILURES)('by %p is a %d, and costs nothing', async (what, status, code, type) => {
    gateway.near.script(what === 'reset' ? { kind: 'reset' } : failing(what))
    const isMessages = door.client.endpoint === 'messages'
    for (const stream of ways) {
      gateway.app.pass(60_000)
      const response = await gateway.ask(door, { stream })
      const told = door.client.refusal(response, await response.text())
      expect({ stream, status: response.status, ...told }).toMatchObject({
        ...{ stream, status: isMessages && status === 503 ? 529 : status },
        ...(isMessages ? { type } : { code }),
      })
    }
    for (const row of await gateway.rows(ways.length))
      expect(row).toMatchObject({ status: 'failed', http_status: status, cost_nano_usd: 0, lane: door.lane })
  })
})
