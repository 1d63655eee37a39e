/** Sign-in through an identity provider: roles, and actions of providers, pages, and attackers. */

import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { editAdmin, inviteAdmin, resetAdmin } from '../../src/identity/admins.ts'
import type { OidcSettings } from '../../src/identity/oidc.ts'
import { createTeam } from '../../src/keys/service.ts'
import { CLIENT, type IdentityProvider, startIdentityProvider } from '../support/identity-provider.ts'
import { until } from '../support/until.ts'
import { type Answer, type Browser, createFixture, type Fixture, PASSWORD, PUBLIC_URL } from './fixture.ts'

let provider: IdentityProvider
let fixture: Fixture
beforeEach(async () => {
  provider = await startIdentityProvider()
  provider.claims = ANN
  fixture = createFixture({ oidc: settings() })
})
afterEach(async () => {
  fixture.close()
  await provider.stop()
})

const ANN = { sub: 'ann-1', email: 'Ann@Example.com', email_verified: true, groups: ['admins', 'dev'] }
const MINUTE = 60_000
const by = () => ({ actor: 'test', nowMs: fixture.clock.ms })

const settings = (): OidcSettings => ({
  ...{ issuer: provider.issuer, clientId: CLIENT.id, clientSecret: CLIENT.secret, claim: 'groups' },
  roles: [
    { value: 'admins', role: 'owner', team: null },
    { value: 'dev', role: 'editor', team: null },
    { value: 'research', role: 'member', team: 'research' },
  ],
})

/** Headers of a browser that another site redirected. */
const SENT = {
  'sec-fetch-site': 'cross-site',
  ...{ 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', accept: 'text/html,*/*;q=0.8' },
}

const comeBack = (browser: Browser, url: URL) => browser.ask('GET', `/oidc/callback${url.search}`, { headers: SENT })

async function signIn(browser = fixture.createBrowser()): Promise<{ answer: Answer; browser: Browser; url: URL }> {
  const { headers } = await browser.ask('GET', '/oidc')
  const url = await provider.visit(headers.get('location'))
  return { answer: await comeBack(browser, url), browser, url }
}

const whoIs = async (browser: Browser) => (await browser.ask('GET', '/session')).body

const rows = (query: string) => fixture.folder.database.query<Record<string, unknown>, []>(query).all()

describe('a user at sign-in', () => {
  test('is created the first time, with the email address that the provider has verified, and the role of the first matching group', async () => {
    const { answer, browser } = await signIn()
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/admin'])
    expect(await whoIs(browser)).toEqual({
      ...{
        name: 'ann@example.com',
        role: 'owner',
        has_password: false,
        is_set_up: true,
        sign_in_methods: ['password', 'oidc'],
        passkeys: false,
      },
    })
    expect((await browser.ask('GET', '/keys')).status).toBe(200)
    const again = await signIn()
    expect(again.answer.status).toBe(303)
    expect(rows('SELECT oidc_subject, password_hash FROM admins')).toEqual([
      { oidc_subject: `${provider.issuer} ann-1`, password_hash: null },
    ])
    expect(rows('SELECT action, actor FROM audit ORDER BY id')).toMatchObject([
      { action: 'admins.create', actor: 'oidc' },
      { action: 'sessions.begin' },
      { action: 'sessions.begin' },
    ])
  })

  test.each<[what: string, said: Record<string, unknown>, name: string | null]>([
    ['a user name and an unchecked address', { preferred_username: 'ann', email: 'a@b.example' }, 'ann'],
    ['a word for a check', { preferred_username: 'ann', email: 'a@b.example', email_verified: 'true' }, 'ann'],
    ['an unchecked address alone', { email: 'a@b.example', email_verified: false }, null],
    ['a user name with spaces', { preferred_username: 'Ann of the Sea' }, null],
    ['nothing', {}, null],
  ])('with %s is called what can be relied on, or refused', async (_, said, name) => {
    provider.claims = { sub: '7', groups: 'dev', ...said }
    const { answer, browser } = await signIn()
    expect([answer.status, (await whoIs(browser)).name]).toEqual([name === null ? 400 : 303, name])
  })

  test('is found by issuer and subject, even under a new name', async () => {
    await signIn()
    provider.claims = { ...ANN, email: 'anna@example.com' }
    expect(await whoIs((await signIn()).browser)).toMatchObject({ name: 'ann@example.com' })
  })

  test("has the claim's current role, in all sessions; without a role, they are refused and signed out everywhere", async () => {
    await createTeam(fixture.store, { name: 'research' }, by())
    const { browser } = await signIn()
    provider.claims = { ...ANN, groups: ['research'] }
    const second = await signIn()
    expect((await whoIs(browser)).role).toBe('member')
    provider.claims = { ...ANN, groups: ['others', 1, null] }
    const { answer } = await signIn()
    expect([answer.status, answer.text]).toEqual([403, expect.stringContaining('you have no role here')])
    expect([(await whoIs(browser)).name, (await whoIs(second.browser)).name]).toEqual([null, null])
    await signIn()
    expect(rows("SELECT count(*) AS ended FROM audit WHERE action = 'sessions.end'")).toEqual([{ ended: 1 }])
  })

  test('is refused if the claim is missing, and no user is created', async () => {
    provider.claims = { ...ANN, groups: undefined }
    const { answer } = await signIn()
    expect([answer.status, answer.text]).toEqual([403, expect.stringContaining('did not send the claim')])
    expect(rows('SELECT * FROM admins')).toEqual([])
  })

  test("is refused while their keys' team does not exist", async () => {
    provider.claims = { ...ANN, groups: ['research'] }
    expect((await signIn()).answer.status).toBe(404)
    await createTeam(fixture.store, { name: 'research' }, by())
    expect((await signIn()).answer.status).toBe(303)
  })

  test('is refused once they are disabled', async () => {
    const owner = await fixture.signIn('owner')
    const { browser } = await signIn()
    await editAdmin(fixture.identity, 'ann@example.com', { disabled: true }, by())
    const { answer } = await signIn()
    expect([answer.status, (await whoIs(browser)).name]).toEqual([403, null])
    expect((await whoIs(owner)).name).toBe('owner')
  })

  test('may have claims that are only at the userinfo endpoint, and nested ones', async () => {
    fixture.close()
    fixture = createFixture({ oidc: { ...settings(), claim: 'realm_access.roles' } })
    provider.claims = { sub: '7' }
    provider.userinfo = { sub: '7', preferred_username: 'bo', realm_access: { roles: ['dev'] } }
    expect(await whoIs((await signIn()).browser)).toMatchObject({ name: 'bo', role: 'editor' })
    provider.userinfo = { ...provider.userinfo, sub: '8' }
    expect((await signIn()).answer.status).toBe(502)
  })
})

describe('a name that another user has', () => {
  const lookAlike = () => rows("SELECT oidc_subject FROM admins WHERE name = 'ann@example.com'")

  test('is not taken from a user with a password', async () => {
    await fixture.signIn('viewer', 'ann@example.com')
    const { answer } = await signIn()
    expect([answer.status, answer.text]).toEqual([409, expect.stringContaining('Ask an owner')])
    expect(lookAlike()).toEqual([{ oidc_subject: null }])
  })

  test('goes to a user whose name the provider has verified, after an invitation or a password reset by an owner', async () => {
    await fixture.signIn('viewer', 'ann@example.com')
    const { code } = await resetAdmin(fixture.identity, 'ann@example.com', by())
    provider.claims = { ...ANN, email: undefined, preferred_username: 'ann@example.com' }
    expect((await signIn()).answer.status).toBe(409)
    provider.claims = ANN
    expect(await whoIs((await signIn()).browser)).toMatchObject({ name: 'ann@example.com', role: 'owner' })
    const typed = { name: 'ann@example.com', code, password: PASSWORD }
    expect((await fixture.createBrowser().ask('POST', '/code', { body: typed })).status).toBe(400)
  })

  test.each([
    ['mike@example.com', 'mi\u212ae@example.com'],
    ['mike@example.com', '\uff4dike@example.com'],
    ['zo\u00eb@example.com', 'zoe\u0308@example.com'],
  ])('%s is not taken by %s, which looks the same in another form', async (name, email) => {
    await inviteAdmin(fixture.identity, { name, role: 'owner' }, by())
    provider.claims = { ...ANN, email }
    expect((await signIn()).answer.status).toBe(409)
    provider.claims = { ...ANN, email: name.toUpperCase().replace('Ë', 'ë') }
    expect((await signIn()).answer.status).toBe(303)
  })

  test('is not taken from a user with another subject', async () => {
    await signIn()
    provider.claims = { ...ANN, sub: 'ann-2' }
    expect((await signIn()).answer.status).toBe(409)
  })

  test('does not enable the user who was disabled under it', async () => {
    await fixture.signIn('owner')
    await inviteAdmin(fixture.identity, { name: 'ann@example.com', role: 'viewer' }, by())
    await editAdmin(fixture.identity, 'ann@example.com', { disabled: true }, by())
    expect((await signIn()).answer.status).toBe(403)
    expect(lookAlike()).toEqual([{ oidc_subject: null }])
  })
})

describe('during sign-in', () => {
  test('the browser is sent with a new challenge, state, and nonce, and requests the claim by name', async () => {
    const { url } = await signIn()
    const first = provider.words
    expect(Object.fromEntries(first)).toMatchObject({
      ...{ response_type: 'code', client_id: CLIENT.id, scope: 'openid profile email groups' },
      ...{ code_challenge_method: 'S256', redirect_uri: 'http://127.0.0.1:4000/admin/api/oidc/callback' },
    })
    expect(url.searchParams.get('state')).toHaveLength(43)
    await signIn()
    for (const name of ['state', 'nonce', 'code_challenge']) expect(provider.words.get(name)).not.toBe(first.get(name))
  })

  test('over https, redirect and cookies are for that URL', async () => {
    const browser = fixture.createBrowser(PUBLIC_URL)
    const { headers } = await browser.ask('GET', '/oidc')
    expect(headers.get('set-cookie')).toMatch(
      /^__Host-tollgate-sign-in=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=600; Secure$/,
    )
    const url = await provider.visit(headers.get('location'))
    expect(url.origin + url.pathname).toBe(`${PUBLIC_URL}/admin/api/oidc/callback`)
    const back = await comeBack(browser, url)
    expect(back.headers.getSetCookie()).toEqual([
      expect.stringMatching(/^__Host-tollgate=[\w-]{43}; .*SameSite=Strict; .*Secure$/),
      expect.stringMatching(/^__Host-tollgate-sign-in=; .*Max-Age=0/),
    ])
  })

  test("the browser's previous session ends", async () => {
    const browser = await fixture.signIn('owner')
    const before = browser.cookie
    await signIn(browser)
    expect((await fixture.createBrowser().ask('GET', '/keys', { headers: { cookie: before } })).status).toBe(401)
    expect(await whoIs(browser)).toMatchObject({ name: 'ann@example.com' })
  })

  test('errors are pages for browsers, without a script or text from others, and JSON for scripts', async () => {
    const { browser, url } = await signIn()
    url.searchParams.set('error', '<script>alert(1)</script>')
    const { text, headers } = await comeBack(browser, url)
    expect(headers.get('content-security-policy')).toStartWith("default-src 'none'; img-src data:; style-src 'sha256-")
    expect(text).toContain('Start again')
    expect(text).not.toContain('<script')
    const { body: told } = await browser.ask('GET', '/oidc/callback')
    expect(told.error.kind).toBe('sign_in_ended')
  })
})

describe('an attacker', () => {
  const ended = [400, expect.stringContaining('Start again')]

  test('cannot sign a victim in as themselves: a browser without a sign-in, or with another one, is refused', async () => {
    const attacker = fixture.createBrowser()
    const url = await provider.visit((await attacker.ask('GET', '/oidc')).headers.get('location'))
    for (const victim of [fixture.createBrowser(), await beginning()]) {
      const { status, text } = await comeBack(victim, url)
      expect([status, text]).toEqual(ended)
      expect((await whoIs(victim)).name).toBeNull()
    }
    // The code isn't used up, and the victim's sign-in continues.
    expect((await comeBack(attacker, url)).status).toBe(303)
  })

  async function beginning(): Promise<Browser> {
    const browser = fixture.createBrowser()
    await browser.ask('GET', '/oidc')
    return browser
  }

  test("cannot end another's sign-in with a state of their own", async () => {
    const browser = fixture.createBrowser()
    const url = await provider.visit((await browser.ask('GET', '/oidc')).headers.get('location'))
    const forged = new URL(url)
    forged.searchParams.set('state', 'x'.repeat(43))
    expect((await comeBack(browser, forged)).status).toBe(400)
    expect((await comeBack(browser, url)).status).toBe(303)
  })

  test('cannot reuse a code, in the same sign-in or in another', async () => {
    const { browser, url } = await signIn()
    const { cookie } = browser
    expect((await comeBack(browser, url)).status).toBe(400)
    const next = fixture.createBrowser()
    await next.ask('GET', '/oidc')
    const other = await provider.visit((await next.ask('GET', '/oidc')).headers.get('location'))
    other.searchParams.set('code', url.searchParams.get('code') ?? '')
    expect((await comeBack(next, other)).status).toBe(401)
    expect(browser.cookie).toBe(cookie)
  })

  test('has ten minutes at most', async () => {
    const browser = fixture.createBrowser()
    const url = await provider.visit((await browser.ask('GET', '/oidc')).headers.get('location'))
    fixture.clock.ms += 10 * MINUTE
    expect((await comeBack(browser, url)).status).toBe(400)
  })

  test('cannot redirect a browser elsewhere', async () => {
    const browser = fixture.createBrowser()
    const elsewhere = 'https://evil.example.com'
    const wish = `redirect_uri=${elsewhere}&return_to=${elsewhere}&next=//evil.example.com`
    const headers = { 'x-forwarded-host': 'evil.example.com', referer: elsewhere }
    const begun = await browser.ask('GET', `/oidc?${wish}`, { headers })
    const url = await provider.visit(begun.headers.get('location'))
    expect(url.origin).toBe('http://127.0.0.1:4000')
    const back = await browser.ask('GET', `/oidc/callback${url.search}&${wish}`, { headers: { ...SENT, ...headers } })
    expect(back.headers.get('location')).toBe('/admin')
    expect((await browser.ask('GET', '/oidc', { origin: elsewhere })).status).toBe(403)
  })

  test('opens the callback only in a window: not in a frame, by a script, or by a form', async () => {
    const browser = fixture.createBrowser()
    const url = await provider.visit((await browser.ask('GET', '/oidc')).headers.get('location'))
    for (const other of [
      { 'sec-fetch-dest': 'iframe' },
      { 'sec-fetch-mode': 'no-cors' },
      { 'sec-fetch-mode': 'cors' },
    ]) {
      const { status } = await browser.ask('GET', `/oidc/callback${url.search}`, { headers: { ...SENT, ...other } })
      expect(status).toBe(403)
    }
    expect((await browser.ask('POST', `/oidc/callback${url.search}`, { headers: SENT })).status).not.toBe(303)
    expect((await comeBack(browser, url)).status).toBe(303)
  })

  test.each([
    ['codes that are none', { code: 'guessed' }, 401, 429],
    ['errors that are none', { error: 'server_error' }, 503, 429],
    ['to think better of it', { error: 'access_denied' }, 401, 401],
  ])(
    'who comes back with %s asks the provider, and writes to the log, five times at most',
    async (_, words, status, at) => {
      for (let i = 0; i < 6; i++) {
        const browser = fixture.createBrowser()
        const { headers } = await browser.ask('GET', '/oidc')
        const state = new URL(headers.get('location') ?? '').searchParams.get('state') ?? ''
        const url = new URL(`http://here/?${new URLSearchParams({ ...words, state })}`)
        expect((await comeBack(browser, url)).status).toBe(i < 5 ? status : at)
      }
      const written = (await fixture.logged()).split('oidc_failed').length - 1
      expect([provider.asked.filter((path) => path === '/token').length, written]).toEqual([
        ...['code' in words ? 5 : 0, status === 503 ? 5 : 0],
      ])
    },
  )
})

describe("a provider's response", () => {
  const nowSeconds = () => Math.floor(Date.now() / 1_000)
  test.each<[what: string, spoilt: () => Record<string, unknown>, status: number]>([
    ['is for another client', () => ({ aud: 'another' }), 502],
    ['is for others beside us', () => ({ aud: [CLIENT.id, 'another'], azp: 'another' }), 502],
    ['answers another sign-in', () => ({ nonce: 'another' }), 502],
    ['answers none', () => ({ nonce: undefined }), 502],
    ['is another issuer’s', () => ({ iss: 'https://login.example.com' }), 502],
    ['is of nobody', () => ({ sub: undefined }), 502],
    ['has ended', () => ({ exp: nowSeconds() - 90 }), 502],
    ['is by a clock half a minute behind', () => ({ exp: nowSeconds() - 30 }), 303],
    ['is by a clock half a minute ahead', () => ({ iat: nowSeconds() + 30, nbf: nowSeconds() + 30 }), 303],
  ])('that %s is taken for what it is', async (_, spoilt, status) => {
    provider.spoil = (claims) => ({ ...claims, ...spoilt() })
    const { answer, browser } = await signIn()
    expect(answer.status).toBe(status)
    if (status !== 303) expect((await whoIs(browser)).name).toBeNull()
  })

  test('is trusted if it has signed it', async () => {
    await provider.forge()
    expect((await signIn()).answer.status).toBe(502)
  })

  test("without a sign-in is an error, which doesn't quote it", async () => {
    const browser = fixture.createBrowser()
    const begun = new URL((await browser.ask('GET', '/oidc')).headers.get('location') ?? '')
    const words = {
      error: 'access_denied',
      error_description: '<b>no</b>',
      state: begun.searchParams.get('state') ?? '',
    }
    const back = new URL(`http://here/?${new URLSearchParams(words)}`)
    const { status, text } = await comeBack(browser, back)
    expect([status, text]).toEqual([401, expect.stringContaining('did not sign you in')])
    expect(text).not.toContain('<b>')
  })

  test("that rejects Tollgate's client is logged", async () => {
    fixture.close()
    fixture = createFixture({ oidc: { ...settings(), clientSecret: 'wrong' } })
    expect((await signIn()).answer.status).toBe(502)
    expect(await fixture.logged()).toContain('invalid_client')
  })

  test('is stored nowhere: no token, code, verifier, or cookie is in the log or the database', async () => {
    const { browser, url } = await signIn()
    provider.spoil = (claims) => ({ ...claims, aud: 'another' })
    await signIn()
    const secrets = [...provider.tokens, url.searchParams.get('code') ?? '?', browser.cookie.split('=')[1] ?? '?']
    expect(secrets).toHaveLength(6)
    const tables = ['admins', 'admin_sessions', 'audit'].map((table) => rows(`SELECT * FROM ${table}`))
    const stored = `${await fixture.logged()} ${JSON.stringify(tables)}`
    expect(stored).toContain('oidc_failed')
    for (const secret of [...secrets, CLIENT.secret]) expect(stored).not.toContain(secret)
  })
})

describe('a failing provider', () => {
  const SILENT = () => new Promise<Response>(() => {})
  const isDown = [503, expect.stringContaining('is not responding')]

  test.each<[what: string, path: string, interrupt: () => Response | Promise<Response>]>([
    ['says nothing', '/.well-known/openid-configuration', SILENT],
    ['is overloaded', '/.well-known/openid-configuration', () => new Response('busy', { status: 503 })],
    ['gives no token', '/token', SILENT],
    ['gives an error for a token', '/token', () => new Response('<h1>oops</h1>', { status: 500 })],
    ['keeps its keys for itself', '/keys', SILENT],
    ['does not end', '/token', () => new Response('x'.repeat(2 * 1024 ** 2))],
  ])('and %s is told as down, and works again once it does', async (_, path, interrupt) => {
    fixture.close()
    fixture = createFixture({ oidc: settings(), waitMs: 150 })
    provider.interrupt = (asked) => (asked === path ? interrupt() : null)
    const browser = fixture.createBrowser()
    const begun = await browser.ask('GET', '/oidc', { headers: SENT })
    const answer =
      begun.status === 303 ? await comeBack(browser, await provider.visit(begun.headers.get('location'))) : begun
    expect([answer.status, answer.text]).toEqual(isDown)
    provider.interrupt = null
    fixture.clock.ms += 5_000
    expect((await signIn()).answer.status).toBe(303)
  })

  test('is not called for five seconds, however many sign-ins are begun', async () => {
    const asked = () => provider.asked.filter((path) => path.startsWith('/.well-known')).length
    const written = async () => (await fixture.logged()).split('oidc_failed').length - 1
    provider.interrupt = () => new Response('busy', { status: 503 })
    const begin = async () => (await fixture.createBrowser().ask('GET', '/oidc')).status
    for (let i = 0; i < 20; i++) expect(await begin()).toBe(503)
    expect([asked(), await written()]).toEqual([1, 1])
    fixture.clock.ms += 5_000
    for (let i = 0; i < 20; i++) expect(await begin()).toBe(503)
    expect([asked(), await written()]).toEqual([2, 2])
    provider.interrupt = null
    fixture.clock.ms += 5_000
    expect(await begin()).toBe(303)
    // Cached metadata stays in use, and isn't requested each time.
    provider.interrupt = () => new Response('busy', { status: 503 })
    fixture.clock.ms += 61 * MINUTE
    for (let i = 0; i < 20; i++) expect(await begin()).toBe(303)
    await until('the provider to be asked', () => asked() > 3)
    expect(asked()).toBe(4)
  })

  test('and unreachable is reported; existing sessions continue', async () => {
    const { browser } = await signIn()
    await provider.stop()
    expect((await whoIs(browser)).name).toBe('ann@example.com')
    fixture.clock.ms += 2 * 60 * MINUTE
    // Cached metadata stays in use.
    expect((await fixture.createBrowser().ask('GET', '/oidc')).status).toBe(303)
    const fresh = createFixture({ oidc: settings() })
    const { status, body } = await fresh.createBrowser().ask('GET', '/oidc')
    expect([status, body.error.kind]).toEqual([503, 'provider_unavailable'])
    fresh.close()
  })

  test('has its metadata read once, and again after an hour', async () => {
    const asked = () => provider.asked.filter((path) => path.startsWith('/.well-known')).length
    await Promise.all([signIn(), signIn()])
    await signIn()
    expect(asked()).toBe(1)
    fixture.clock.ms += 61 * MINUTE
    await signIn()
    expect(asked()).toBe(2)
  })

  test('delays nothing else, and is logged once, however many wait', async () => {
    fixture.close()
    fixture = createFixture({ oidc: settings(), waitMs: 150 })
    provider.interrupt = SILENT
    const waiting = Array.from({ length: 5 }, () => fixture.createBrowser().ask('GET', '/oidc'))
    expect((await fixture.createBrowser().ask('GET', '/session')).status).toBe(200)
    for (const { status } of await Promise.all(waiting)) expect(status).toBe(503)
    expect((await fixture.logged()).split('oidc_failed')).toHaveLength(2)
  })
})

describe('with passwords switched off', () => {
  test('no password and no code signs in, and the page offers only the provider', async () => {
    fixture.close()
    fixture = createFixture({ oidc: settings(), ways: ['oidc'] })
    const code = await fixture.setupCode.make(fixture.clock.ms)
    const browser = fixture.createBrowser()
    const typed = { name: 'eve', password: PASSWORD }
    for (const [path, body] of [
      ['/session', typed],
      ['/setup', { ...typed, code }],
      ['/code', { ...typed, code }],
    ] as const) {
      const { status, body: answer } = await browser.ask('POST', path, { body })
      expect([path, status, answer.error.kind]).toEqual([path, 403, 'password_off'])
    }
    expect((await whoIs(browser)).sign_in_methods).toEqual(['oidc'])
    expect((await signIn(browser)).answer.status).toBe(303)
  })
})

test('a server without a provider says so', async () => {
  fixture.close()
  fixture = createFixture()
  for (const path of ['/oidc', '/oidc/callback']) {
    const { status, body } = await fixture.createBrowser().ask('GET', path)
    expect([status, body.error.kind]).toEqual([404, 'oidc_off'])
  }
})
