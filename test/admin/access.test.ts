/** Access to the admin API: no one by default, no other site, no foreign host, and each role within its limits. */
import { describe, expect, test } from 'bun:test'
import { editAdmin } from '../../src/identity/admins.ts'
import { mintToken } from '../../src/keys/token.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createFixture, PUBLIC_URL } from './fixture.ts'

const fixture = forEachTest(createFixture)

const WHO = ['member', 'viewer', 'editor', 'owner'] as const

const eachRoute = () =>
  fixture.admin.routes.map(({ method, path, least, except }) => ({
    ...{ method, least, except },
    path: path.replace('/admin/api', '').replaceAll(/:\w+/g, '0'),
  }))

test('every route except sign-in rejects requests without credentials, with model keys, and with invalid tokens', async () => {
  const browser = fixture.createBrowser()
  const closed = eachRoute().filter(({ least }) => least !== 'anyone')
  expect(closed.length).toBeGreaterThan(5)
  for (const { method, path } of closed) {
    for (const token of [null, mintToken(), mintToken('sk-tgadm-')]) {
      const headers = token === null ? {} : { authorization: `Bearer ${token}` }
      const { status, body } = await browser.ask(method, path, { headers })
      expect([method, path, status, body.error.kind]).toEqual([
        ...[method, path, 401],
        token === null ? 'signed_out' : 'token_wrong',
      ])
    }
  }
})

test('the open routes are exactly those meant to be open', () => {
  const doors = eachRoute().filter(({ least }) => least === 'anyone')
  expect(doors.map(({ method, path }) => `${method} ${path}`)).toEqual([
    ...['GET /session', 'POST /setup', 'POST /session', 'POST /code'],
    ...['POST /session/passkey/options', 'POST /session/passkey', 'GET /oidc', 'GET /oidc/callback'],
  ])
})

test.each(WHO)('%s can use the routes of their role, and is refused others by role', async (role) => {
  const team = role === 'member' ? (await createTeam()).id : null
  const browser = await fixture.signIn(role, role, team)
  for (const { method, path, least, except } of eachRoute()) {
    // This would end the session used for all other routes.
    if (method === 'DELETE' && path === '/session') continue
    const { status, body } = await browser.ask(method, path)
    const isSmall = role === except || WHO.indexOf(role) < WHO.indexOf(least as 'member')
    const said = status === 403 && body.error.kind === 'role_too_small'
    expect([method, path, said]).toEqual([method, path, isSmall])
  }
})

async function createTeam() {
  const { createTeam: create } = await import('../../src/keys/service.ts')
  return create(fixture.store, { name: 'research' }, { actor: 'test', nowMs: fixture.clock.ms })
}

test('a token to read acts as a viewer, one to write as an editor, and neither has a session', async () => {
  const browser = fixture.createBrowser()
  const [read, write] = [await fixture.tokenHeaders('read'), await fixture.tokenHeaders('write')]
  const create = { body: { name: 'dev' } }
  expect((await browser.ask('GET', '/keys', { headers: read })).status).toBe(200)
  expect((await browser.ask('POST', '/keys', { ...create, headers: read })).body.error.kind).toBe('role_too_small')
  expect((await browser.ask('POST', '/keys', { ...create, headers: write })).status).toBe(200)
  expect((await browser.ask('GET', '/sessions', { headers: write })).body.error.kind).toBe('no_session')
})

describe('hosts and origins', () => {
  test.each([
    ['http://127.0.0.1:4000', 200],
    ['http://localhost', 200],
    ['http://[::1]:4000', 200],
    [PUBLIC_URL, 200],
    ['https://rebound.example.com', 403],
    ['http://192.168.1.5:4000', 403],
    ['http://127.0.0.1.example.com', 403],
  ])('%s answers %d', async (origin, status) => {
    const { status: answered } = await fixture.createBrowser().ask('GET', '/session', { origin })
    expect(answered).toBe(status)
  })

  test("a page of another site reads nothing with its visitor's cookie", async () => {
    const browser = await fixture.signIn('owner')
    for (const headers of [{ 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site' }]) {
      expect((await browser.ask('GET', '/keys', { headers })).status).toBe(403)
    }
    expect((await browser.ask('GET', '/keys', { headers: { 'sec-fetch-site': 'same-origin' } })).status).toBe(200)
  })
})

test('a user who is disabled during an upload changes nothing with it', async () => {
  const editor = await fixture.signIn('editor')
  const text = JSON.stringify({ name: 'late' })
  const sent = Promise.withResolvers<void>()
  const body = new ReadableStream({
    async pull(controller) {
      await sent.promise
      controller.enqueue(new TextEncoder().encode(text))
      controller.close()
    },
  })
  const headers = {
    ...{ host: '127.0.0.1:4000', origin: 'http://127.0.0.1:4000', cookie: editor.cookie },
    ...{ 'content-type': 'application/json', 'content-length': String(text.length) },
  }
  const request = new Request('http://127.0.0.1:4000/admin/api/keys', { method: 'POST', headers, body })
  const answering = fixture.admin.handle(request)
  await editAdmin(fixture.identity, 'editor', { disabled: true }, { actor: 'test', nowMs: fixture.clock.ms })
  sent.resolve()
  const answer = await answering
  expect(answer.status).toBe(401)
  expect((await fixture.store.readKeys()).keys).toEqual([])
})

test('no response is cached by a browser or sniffed as another type', async () => {
  for (const path of ['/session', '/keys', '/nothing']) {
    const { headers } = await fixture.createBrowser().ask('GET', path)
    expect([headers.get('cache-control'), headers.get('x-content-type-options')]).toEqual(['no-store', 'nosniff'])
  }
})
