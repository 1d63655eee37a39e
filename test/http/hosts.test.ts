/** A Host header has no effect on a server that reads its own URL from it. On raw sockets, since no client sends these. */
import { expect, test } from 'bun:test'
import { connect } from 'node:net'
import { startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'

const gateway = forAllTests(startGateway)

/** Sends the lines unchanged, and returns the whole response. */
function send(...lines: string[]): Promise<string> {
  const { hostname, port } = new URL(gateway.app.baseUrl)
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(Number(port), hostname, () =>
      socket.write(`${lines.join('\r\n')}\r\nconnection: close\r\n\r\n`),
    )
    socket.on('data', (piece) => {
      text += piece
    })
    socket.on('close', () => resolve(text))
    socket.on('error', reject)
  })
}

const HOSTILE = ['host: a b[', 'host: [', 'host: http://x/y', 'host: ', 'host: %']

test.each(HOSTILE)('"%s" gets the contract\'s error and no internals', async (host) => {
  for (const path of ['/nope', '/v1/models', '/v1/models/acme/large']) {
    const text = await send(`GET ${path} HTTP/1.1`, host)
    expect(text).not.toContain('<html')
    expect(text).not.toContain('/src/')
    if (text.startsWith('HTTP/1.1 400')) continue
    expect(text).toMatch(/^HTTP\/1\.1 40[14] /)
    expect(text.toLowerCase()).toContain('x-request-id: req_')
  }
})

/** Those for whose URLs the router misses most paths. */
const HIDING = ['host: a b[', 'host: http://x/y', 'host: ']

test.each(HIDING)(
  'a path that "%s" hides from the router is a 400 for each method, and names no method',
  async (host) => {
    for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS'])
      for (const path of ['/admin/api/keys', '/admin/api/passkeys/options', '/v1/models/acme/large', '/nope']) {
        const text = await send(`${method} ${path} HTTP/1.1`, host)
        expect(text).toStartWith('HTTP/1.1 400')
        expect(text).not.toMatch(/^allow:|\bALL\b/im)
      }
  },
)

test.each(['a', 'llm', 'api', 'abcd'])('the host name "%s" serves models by their slug', async (host) => {
  const bearer = `authorization: Bearer ${gateway.key}`
  const text = await send('GET /v1/models/acme%2Flarge HTTP/1.1', `host: ${host}`, bearer)
  expect(text).toStartWith('HTTP/1.1 200')
  expect(text).toContain('"id":"acme/large"')
})
