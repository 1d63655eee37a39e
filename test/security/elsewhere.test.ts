/** Requests that don't come from a dashboard page, with an owner's session; and the limits of scripts. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { createToken, revokeToken } from '../../src/identity/principal.ts'
import { type Browser, createFixture } from '../admin/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'

let owner: Browser
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  owner = await fixture.signIn('owner')
})

const by = () => ({ actor: 'test', nowMs: fixture.clock.ms })
const eachRoute = () =>
  fixture.admin.routes.map(({ method, path, least }) => ({
    ...{ method, least },
    path: path.replace('/admin/api', '').replaceAll(/:\w+/g, '0'),
  }))
/** Everything except the audit row of a session's start. */
const changes = async () => (await fixture.store.readAudit()).filter(({ action }) => action !== 'sessions.begin')

describe('nothing is changed, and nothing is revealed', () => {
  const ELSEWHERE: [what: string, headers: Record<string, string>, kind: string][] = [
    ['a page of another site', { origin: 'https://evil.example.com' }, 'origin_not_allowed'],
    ['a page that has no origin', { origin: 'null' }, 'origin_not_allowed'],
    ['a page at another port', { origin: 'http://127.0.0.1:4001' }, 'origin_not_allowed'],
    ['a page of our public address', { origin: 'https://gateway.example.com' }, 'origin_not_allowed'],
    ['a form or an image of another site', { origin: '', 'sec-fetch-site': 'cross-site' }, 'origin_not_allowed'],
    [
      'a frame',
      { origin: '', 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' },
      'origin_not_allowed',
    ],
    ['a page beside ours', { origin: '', 'sec-fetch-site': 'same-site' }, 'origin_not_allowed'],
    [
      'a name that was resolved to us',
      { host: 'rebound.example.com:4000', origin: 'http://rebound.example.com:4000' },
      'host_not_allowed',
    ],
  ]
  test.each(ELSEWHERE)('by any route, requested by %s', async (_, { origin, ...headers }, kind) => {
    const before = await changes()
    const cookie = owner.cookie
    for (const { method, path } of eachRoute()) {
      const given = new Headers({ host: '127.0.0.1:4000', cookie, ...headers })
      if (origin) given.set('origin', origin)
      const request = new Request(`http://127.0.0.1:4000/admin/api${path}`, { method, headers: given })
      const answer = await fixture.admin.handle(request)
      const { error } = (await answer.json()) as { error: { kind: string } }
      expect([method, path, answer.status, error.kind]).toEqual([method, path, 403, kind])
      expect(answer.headers.get('set-cookie')).toBeNull()
    }
    expect(await changes()).toEqual(before)
  })

  test('by any route that changes something, if the request has no origin', async () => {
    for (const { method, path } of eachRoute().filter((route) => route.method !== 'GET')) {
      const headers = { host: '127.0.0.1:4000', cookie: owner.cookie }
      const answer = await fixture.admin.handle(
        new Request(`http://127.0.0.1:4000/admin/api${path}`, { method, headers }),
      )
      expect([method, path, answer.status]).toEqual([method, path, 403])
    }
  })
})

describe('a token', () => {
  test.each([
    ['read', 'viewer'],
    ['write', 'editor'],
  ] as const)('to %s goes as far as the role of %s, and to no session', async (scope, role) => {
    const headers = await fixture.tokenHeaders(scope)
    const person = await fixture.signIn(role)
    const nobody = fixture.createBrowser()
    for (const { method, path } of eachRoute()) {
      if (method === 'DELETE' && path === '/session') continue
      const [script, same] = [await nobody.ask(method, path, { headers }), await person.ask(method, path)]
      const isTooSmall = ({ body }: typeof script) => body?.error?.kind === 'role_too_small'
      expect([method, path, isTooSmall(script)]).toEqual([method, path, isTooSmall(same)])
      if (/^\/(sessions|password)/.test(path))
        expect([path, script.body.error.kind]).toEqual([path, script.status === 400 ? 'invalid' : 'no_session'])
    }
  })

  test('is valid until it is revoked or has expired, only in its header, whatever else is sent with it', async () => {
    const { token, secret } = await createToken(fixture.identity, { name: 'script', scope: 'read' }, by())
    const expiresMs = fixture.clock.ms + 60_000
    const short = await createToken(fixture.identity, { name: 'short', scope: 'read', expiresMs }, by())
    const statusFor = async (headers: Record<string, string>, path = '/keys') =>
      (await fixture.createBrowser().ask('GET', path, { headers })).status
    expect(await statusFor({ authorization: `Bearer ${secret}` })).toBe(200)
    expect(await statusFor({ cookie: `tollgate-4000=${secret}` })).toBe(401)
    expect(await statusFor({}, `/keys?token=${secret}&access_token=${secret}`)).toBe(401)
    expect(await statusFor({ authorization: `Bearer ${secret.slice(0, -1)}` })).toBe(401)
    // A session doesn't make an invalid one valid.
    expect(await statusFor({ authorization: `Bearer ${secret}x`, cookie: owner.cookie })).toBe(401)
    await revokeToken(fixture.identity, token.id, by())
    expect(await statusFor({ authorization: `Bearer ${secret}` })).toBe(401)
    expect(await statusFor({ authorization: `Bearer ${short.secret}` })).toBe(200)
    fixture.clock.ms = expiresMs
    expect(await statusFor({ authorization: `Bearer ${short.secret}` })).toBe(401)
  })
})
