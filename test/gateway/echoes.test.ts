/** An upstream that echoes its request: no client, log line, or ledger row may contain the credential. */
import { beforeEach, expect, test } from 'bun:test'
import { CREDENTIAL } from '../support/app.ts'
import { startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { reading } from '../support/several-upstreams.ts'

const GOOGLE_KEY = 'AIzaSyA0123456789abcdefghijABCDEFGHIJKLMN'

const gateway = forAllTests(startGateway)
// Clears penalties of the upstream.
beforeEach(() => gateway.app.pass(60_000))

const ECHOES: [string, string][] = [
  ['as it is', CREDENTIAL],
  ['with a character more', `${CREDENTIAL}x`],
  ['with a character in the middle', `${CREDENTIAL.slice(0, 17)}-${CREDENTIAL.slice(17)}`],
  ['in base64, as a header may have it', Buffer.from(`user:${CREDENTIAL}`).toString('base64')],
  ['percent-encoded', encodeURIComponent(CREDENTIAL)],
  ['and a key of its own provider', GOOGLE_KEY],
]

test.each(ECHOES)('an error that quotes our credential, %s', async (_, echo) => {
  // A piece of each form that masking must not leave.
  const pieces = [echo.slice(0, 16), echo.slice(-16)]
  for (const status of [400, 401, 500]) {
    gateway.upstream.script({
      kind: 'whole',
      status,
      headers: { 'x-request-id': `req ${echo}` },
      body: { error: { message: `You sent ${echo}`, code: echo, param: echo, type: echo } },
    })
    const response = await gateway.chat()
    const answer = JSON.stringify(await response.json())
    const rows = await gateway.app.settled(gateway.upstream.requests.length)
    const calls = reading(gateway.app, (sqlite) => sqlite.query('SELECT * FROM calls').all())
    const kept = JSON.stringify([rows, calls]) + (await gateway.app.logText())
    for (const piece of pieces) {
      expect(answer).not.toContain(piece)
      expect(kept).not.toContain(piece)
    }
    expect(rows.at(-1)?.error_code).toMatch(/^upstream_(rejected|failed)$/)
  }
})

test('its code is passed on if it is one', async () => {
  gateway.upstream.script({
    kind: 'whole',
    status: 400,
    body: { error: { message: 'No.', code: 'context_too-long.2' } },
  })
  const response = await gateway.chat()
  expect(await response.json()).toMatchObject({ error: { message: 'No.', code: 'context_too-long.2' } })
  expect((await gateway.app.settled(gateway.upstream.requests.length)).at(-1)?.error_code).toBe('context_too-long.2')
})
