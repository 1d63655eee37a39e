/**
 * HTTP/1.1 that is legal and rare, on Bun's server: unsupported requests must be rejected before any call, or recorded like a
 * client disconnect.
 */
import { beforeEach, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { HELLO, startGateway } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'
import { isOver } from '../support/several-upstreams.ts'
import { obliging } from '../support/upstream.ts'

const gateway = forEachTest(startGateway)
beforeEach(() => {
  gateway.upstream.script(obliging)
})

const LEFT = { status: 'cut', http_status: 499, error_code: 'client_closed_request' }
const BODY = JSON.stringify(HELLO)
const toHead = (more: string) =>
  `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gateway.key}\r\ncontent-type: application/json\r\n${more}\r\n\r\n`
const post = () => `${toHead(`content-length: ${BODY.length}`)}${BODY}`
const chunked = (extension: string, trailers: string) =>
  `${toHead('transfer-encoding: chunked')}${BODY.length.toString(16)}${extension}\r\n${BODY}\r\n0${extension}\r\n${trailers}\r\n`

/** Sends the text on a new connection; `closed` resolves to the whole response. */
function send(text: string) {
  const { hostname, port } = new URL(gateway.app.origin)
  const socket = connect(Number(port), hostname, () => socket.write(text))
  const closed = Promise.withResolvers<string>()
  let read = ''
  socket.on('data', (data) => {
    read += data
  })
  socket.on('error', () => {})
  socket.on('close', () => closed.resolve(read))
  return { socket, closed: closed.promise, answered: () => read.includes('\r\n\r\n') }
}

test.each([
  ['two requests in one packet', () => post() + post(), ''],
  ['a chunked body with a trailer', () => chunked('', 'x-checksum: 1\r\n'), 'HTTP/1.1 400'],
])(
  '%s: the connection is closed, no model is asked, and it is on record as left, for nothing',
  async (_, text, says) => {
    const { closed } = send(text())
    expect(await closed).toStartWith(says)
    expect((await gateway.chat()).status).toBe(200)
    expect(gateway.upstream.requests).toHaveLength(1)
    expect(await gateway.app.settled(2)).toMatchObject([{ ...LEFT, cost_nano_usd: 0 }, { status: 'ok' }])
  },
)

test('a request before the previous response closes the connection, and the previous request is recorded as interrupted', async () => {
  const { app, upstream } = gateway
  upstream.script({ kind: 'silent' })
  const { socket, closed } = send(post())
  await upstream.waitFor(() => upstream.requests.length === 1, 'the first one')
  socket.write(post())
  expect(await closed).toBe('')
  await upstream.waitFor(isOver, 'the end of its call')
  expect(await app.settled(1)).toMatchObject([LEFT])
  expect(upstream.requests).toHaveLength(1)
})

test('chunk extensions are accepted', async () => {
  const { socket, closed, answered } = send(chunked(';name=value', ''))
  await gateway.upstream.waitFor(answered, 'the answer')
  socket.end()
  expect(await closed).toStartWith('HTTP/1.1 200')
})
