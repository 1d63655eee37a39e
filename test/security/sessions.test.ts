/** Sessions: the protection of their cookie, that no one can choose another's, and that each ends when it must. */
import { describe, expect, test } from 'bun:test'
import { editAdmin, inviteAdmin, resetAdmin } from '../../src/identity/admins.ts'
import { type Browser, createFixture, PASSWORD, PUBLIC_URL } from '../admin/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'

const fixture = forEachTest(createFixture)

const by = () => ({ actor: 'test', nowMs: fixture.clock.ms })
const NEW = 'another way to the sea'
const owner = { name: 'owner', password: PASSWORD }
const signIn = (browser: Browser, name = 'owner') =>
  browser.ask('POST', '/session', { body: { name, password: PASSWORD } })
const isIn = async (browser: Browser, cookie = browser.cookie) =>
  (await fixture.createBrowser().ask('GET', '/sessions', { headers: { cookie } })).status === 200

describe('the cookie', () => {
  test.each([
    ['http://127.0.0.1:4000', /^tollgate-4000=[\w-]{43}; Path=\/admin; HttpOnly; SameSite=Strict; Max-Age=2592000$/],
    ['http://localhost', /^tollgate=[\w-]{43}; Path=\/admin; HttpOnly; SameSite=Strict; Max-Age=2592000$/],
    [PUBLIC_URL, /^__Host-tollgate=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=2592000; Secure$/],
  ])('at %s is out of reach for scripts, other sites and, over TLS, other hosts', async (at, form) => {
    await fixture.signIn('owner')
    const { headers } = await signIn(fixture.createBrowser(at))
    expect(headers.getSetCookie()).toEqual([expect.stringMatching(form)])
  })

  test('of one server signs no one out of another on the same machine', async () => {
    const other = createFixture()
    try {
      await fixture.signIn('owner')
      await other.signIn('owner')
      const here = await signIn(fixture.createBrowser('http://127.0.0.1:4000'))
      const there = await signIn(other.createBrowser('http://127.0.0.1:4001'))
      // The browser's cookies then: one for each name.
      const kept = new Map(
        [here, there].map(({ headers }) => String(headers.get('set-cookie')).split(';')[0]?.split('=')) as [
          string,
          string,
        ][],
      )
      const cookie = [...kept].map((pair) => pair.join('=')).join('; ')
      for (const [one, origin] of [
        [fixture, 'http://127.0.0.1:4000'],
        [other, 'http://127.0.0.1:4001'],
      ] as const)
        expect((await one.createBrowser().ask('GET', '/keys', { origin, headers: { cookie } })).status).toBe(200)
    } finally {
      other.close()
    }
  })

  test('is not accepted with another name, twice, or in the URL', async () => {
    const browser = await fixture.signIn('owner')
    const secret = browser.cookie.split('=')[1]
    for (const cookie of [`tollgate=${secret}`, `__Host-tollgate=${secret}`, `x-tollgate-4000=${secret}`])
      expect([cookie, await isIn(browser, cookie)]).toEqual([cookie, false])
    const nobody = fixture.createBrowser()
    expect((await nobody.ask('GET', `/sessions?tollgate-4000=${secret}`)).status).toBe(401)
    expect((await nobody.ask('GET', '/sessions', { headers: { authorization: `Bearer ${secret}` } })).status).toBe(401)
  })
})

describe('a user who signs in', () => {
  test.each(['of their own choice', 'of somebody who is signed in'])(
    'with a cookie %s is given another',
    async (what) => {
      const victim = await fixture.signIn('owner')
      await fixture.signIn('viewer', 'eve')
      const chosen = what.startsWith('of their') ? `tollgate-4000=${'a'.repeat(43)}` : victim.cookie
      const browser = fixture.createBrowser()
      const { headers } = await browser.ask('POST', '/session', {
        body: { name: 'eve', password: PASSWORD },
        headers: { cookie: chosen },
      })
      expect(headers.get('set-cookie')).not.toContain(chosen.split('=')[1])
      expect(await isIn(browser)).toBe(true)
      // The session in the request's cookie has ended, whoever's it was.
      expect(await isIn(browser, chosen)).toBe(false)
    },
  )

  test.each(['/session', '/code', '/setup'])(
    'at %s has one session, and not the one that the browser had',
    async (door) => {
      const browser = await fixture.signIn('viewer', 'before')
      const before = browser.cookie
      const { code } = await inviteAdmin(fixture.identity, { name: 'ann', role: 'viewer' }, by())
      const typed = {
        '/session': { name: 'before', password: PASSWORD },
        '/code': { name: 'ann', password: PASSWORD, code },
        '/setup': { ...owner, code: await fixture.setupCode.make(fixture.clock.ms) },
      }[door]
      expect((await browser.ask('POST', door, { body: typed })).status).toBe(200)
      expect([await isIn(browser), await isIn(browser, before)]).toEqual([true, false])
      expect(await fixture.identity.readSessions()).toHaveLength(1)
    },
  )
})

describe('a session ends at once', () => {
  const endings: [what: string, end: (browser: Browser) => Promise<unknown>][] = [
    ['is signed out', (browser) => browser.ask('DELETE', '/session')],
    ['is disabled', () => editAdmin(fixture.identity, 'eve', { disabled: true }, by())],
    ['is given a code', () => resetAdmin(fixture.identity, 'eve', by())],
    [
      'sets a password elsewhere',
      async () => {
        const elsewhere = fixture.createBrowser()
        await signIn(elsewhere, 'eve')
        await elsewhere.ask('POST', '/password', { body: { old: PASSWORD, password: NEW } })
        expect(await isIn(elsewhere)).toBe(true)
      },
    ],
    [
      'has it ended by an owner',
      async (browser) => {
        const owners = await fixture.signIn('owner')
        const [{ id }] = (await browser.ask('GET', '/sessions')).body.sessions
        expect((await owners.ask('DELETE', `/sessions/${id}`)).status).toBe(200)
      },
    ],
  ]
  test.each(endings)('if its user %s', async (_, end) => {
    const browser = await fixture.signIn('editor', 'eve')
    const { cookie } = browser
    await end(browser)
    expect(await isIn(browser, cookie)).toBe(false)
    const change = await fixture.createBrowser().ask('POST', '/keys', { body: { name: 'late' }, headers: { cookie } })
    expect(change.status).toBe(401)
  })

  test.each(endings)('and so does its live stream, if its user %s', async (_, end) => {
    const browser = await fixture.signIn('editor', 'eve')
    const headers = { host: '127.0.0.1:4000', cookie: browser.cookie }
    const url = 'http://127.0.0.1:4000/admin/api/requests/live'
    const live = await fixture.admin.handle(new Request(url, { headers }))
    expect(live.status).toBe(200)
    await end(browser)
    // The stream ends although the server keeps running.
    expect(await live.text()).not.toContain('data:')
  })

  test('a smaller role is effective for the next request', async () => {
    await fixture.signIn('owner')
    const browser = await fixture.signIn('editor', 'eve')
    expect((await browser.ask('POST', '/keys', { body: { name: 'early' } })).status).toBe(200)
    await editAdmin(fixture.identity, 'eve', { role: 'viewer' }, by())
    expect((await browser.ask('POST', '/keys', { body: { name: 'late' } })).body.error.kind).toBe('role_too_small')
  })
})
