/** Passkeys: who can add one, and which responses sign a user in. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { editAdmin, resetAdmin } from '../../src/identity/admins.ts'
import { PENDING_MS } from '../../src/identity/pending.ts'
import { type Authenticator, createAuthenticator, type Lies } from './authenticator.ts'
import { type Browser, createFixture, type Fixture, PASSWORD, PUBLIC_URL } from './fixture.ts'

const AT = 'http://localhost:4000'

let fixture: Fixture
let device: Authenticator
beforeEach(() => {
  fixture = createFixture()
  device = createAuthenticator(AT)
})
afterEach(() => fixture.close())

const by = () => ({ actor: 'test', nowMs: fixture.clock.ms })

/** A user signed in at a URL that supports passkeys. */
const signIn = (name = 'owner', at = AT) => fixture.signIn('owner', name, null, at)

const begin = async (browser: Browser, password = PASSWORD) =>
  (await browser.ask('POST', '/passkeys/options', { body: { password } })).body.options

async function add(
  browser: Browser,
  { of = device, lies = {}, name = 'laptop' }: { of?: Authenticator; lies?: Lies; name?: string } = {},
) {
  const options = await begin(browser)
  return browser.ask('POST', '/passkeys', { body: { name, response: of.create(options, lies) } })
}

const ask = async (browser: Browser) => (await browser.ask('POST', '/session/passkey/options')).body.options

async function enter(browser: Browser, lies: Lies = {}, of = device) {
  const options = await ask(browser)
  return browser.ask('POST', '/session/passkey', { body: { response: of.use(options, lies) } })
}

const list = async (browser: Browser) => (await browser.ask('GET', '/passkeys')).body.passkeys
const actions = () =>
  fixture.folder.database
    .query<{ action: string; detail: string }, []>('SELECT action, detail FROM audit ORDER BY id')
    .all()
    .map(({ action, detail }) => ({ action, detail: JSON.parse(detail) }))

test('a passkey signs in its user, without a name, in a new session', async () => {
  const browser = await signIn()
  const added = await add(browser)
  expect([added.status, added.body]).toEqual([
    200,
    { id: expect.any(String), name: 'laptop', rp_id: 'localhost', created_ms: fixture.clock.ms, used_ms: null },
  ])
  fixture.clock.ms += 1_000
  const before = browser.cookie
  const entered = await enter(browser)
  expect([entered.status, entered.body]).toEqual([200, { name: 'owner', role: 'owner' }])
  expect(browser.cookie).not.toBe(before)
  expect((await browser.ask('GET', '/keys', { headers: { cookie: before } })).status).toBe(401)
  expect(await list(browser)).toMatchObject([{ name: 'laptop', used_ms: fixture.clock.ms }])
  expect((await enter(fixture.createBrowser(AT))).status).toBe(200)
  expect((await browser.ask('GET', '/admins')).body.admins).toMatchObject([{ name: 'owner', passkeys: 1 }])
  expect(actions().slice(-3)).toMatchObject([
    { action: 'passkeys.create', detail: { name: 'laptop', after: { host: 'localhost' } } },
    { action: 'sessions.begin', detail: { name: 'owner', passkey: 'laptop' } },
    { action: 'sessions.begin', detail: { name: 'owner', passkey: 'laptop' } },
  ])
})

test('the options request a discoverable passkey with user verification, and exclude existing ones', async () => {
  const browser = await signIn()
  await add(browser)
  expect(await begin(browser)).toMatchObject({
    rp: { id: 'localhost' },
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    attestation: 'none',
    excludeCredentials: [{ id: device.id, type: 'public-key', transports: ['internal'] }],
  })
  expect(await ask(browser)).toMatchObject({ rpId: 'localhost', userVerification: 'required' })
})

describe('adding a passkey', () => {
  test('needs the password, whose attempts are limited as at sign-in', async () => {
    const browser = await signIn()
    for (let i = 0; i < 5; i++) {
      const { status, body } = await browser.ask('POST', '/passkeys/options', { body: { password: `wrong ${i}` } })
      expect([status, body.error.kind]).toEqual([401, 'sign_in_failed'])
    }
    const { body } = await browser.ask('POST', '/passkeys/options', { body: { password: PASSWORD } })
    expect(body.error.kind).toBe('too_many_attempts')
  })

  test('is impossible without a password: users of a provider sign in there', async () => {
    const browser = await signIn()
    const options = await begin(browser)
    fixture.folder.database.run('UPDATE admins SET password_hash = NULL, oidc_subject = ?', ['https://id.example 1'])
    const late = await browser.ask('POST', '/passkeys', { body: { name: 'x', response: device.create(options) } })
    expect([late.status, late.body.error.field]).toEqual([400, 'password'])
    const { body } = await browser.ask('POST', '/passkeys/options', { body: { password: PASSWORD } })
    expect([body.error.kind, body.error.field]).toEqual(['invalid', 'password'])
    // The page doesn't offer it to them.
    expect((await browser.ask('GET', '/session')).body.has_password).toBe(false)
  })

  test.each<[string, Lies]>([
    ['for another challenge', { challenge: 'AAAA' }],
    ['from another origin', { origin: 'http://localhost:4001' }],
    ['for another host', { rpId: 'example.com' }],
    ['whose owner was not asked for a finger, a face or a PIN', { isUnverified: true }],
    ['that was used, not made', { type: 'webauthn.get' }],
  ])('takes no passkey %s', async (_, lies) => {
    const browser = await signIn()
    const { status, body } = await add(browser, { lies })
    expect([status, body.error.kind, body.error.field]).toEqual([400, 'invalid', 'response'])
    expect(await list(browser)).toEqual([])
  })

  test('ignores what an authenticator says about its maker', async () => {
    const attestation: Lies['attestation'] = ['packed', new Map([['x5c', 'no certificate']])]
    expect((await add(await signIn(), { lies: { attestation } })).status).toBe(200)
  })

  test('works once, in time, and in the session that began it', async () => {
    const browser = await signIn()
    const options = await begin(browser)
    const { cookie } = browser
    const send = (body = { name: 'laptop', response: device.create(options) }, headers = { cookie }) =>
      browser.ask('POST', '/passkeys', { body, headers })
    const session = (of: string) => of.split('; ').find((pair) => !pair.includes('passkey')) ?? ''
    const other = await signIn('bob')
    const theirs = cookie.replace(session(cookie), session(other.cookie))
    expect((await send(undefined, { cookie: theirs })).body.error.kind).toBe('challenge_ended')
    expect((await send(undefined, { cookie: session(cookie) })).body.error.kind).toBe('challenge_ended')
    expect((await send()).status).toBe(200)
    expect((await send()).body.error.kind).toBe('challenge_ended')
    const late = await begin(browser)
    fixture.clock.ms += PENDING_MS
    const response = createAuthenticator(AT).create(late)
    const { body } = await browser.ask('POST', '/passkeys', { body: { name: 'phone', response } })
    expect(body.error.kind).toBe('challenge_ended')
  })

  test('refuses a passkey that another user has, and more than twenty per user', async () => {
    await add(await signIn())
    const bob = await signIn('bob')
    expect((await add(bob)).body.error.kind).toBe('invalid')
    const [first] = await fixture.identity.readPasskeys()
    const [, { id: adminId } = { id: '' }] = await fixture.identity.readAdmins()
    if (!first) throw new Error('there is no passkey')
    const passkeys = Array.from({ length: 20 }, (_, i) => ({ ...first, adminId, id: `${i}`, credentialId: `${i}` }))
    const change = { action: 'passkeys.create' as const, subject: '', detail: {}, write: { passkeys } }
    await fixture.identity.changeIdentity(by(), () => ({ value: null, change }))
    const { body } = await bob.ask('POST', '/passkeys/options', { body: { password: PASSWORD } })
    expect(body.error).toMatchObject({ kind: 'too_many_passkeys', most: 20 })
  })
})

describe('sign-in is refused', () => {
  const refused = [401, 'sign_in_failed']
  const said = async (answering: ReturnType<Browser['ask']>) => {
    const { status, body } = await answering
    return [status, body.error?.kind]
  }

  test.each<[string, Lies]>([
    ['for another challenge', { challenge: 'AAAA' }],
    ['from another origin', { origin: 'https://gateway.example.com' }],
    ['for another host', { rpId: 'example.com' }],
    ['whose owner was not asked for a finger, a face or a PIN', { isUnverified: true }],
    ['that was made, not used', { type: 'webauthn.create' }],
    ['that says it is of somebody else', { userHandle: 'AAAA' }],
    ['that nobody has added', { id: 'AAAA' }],
  ])('with a passkey %s', async (_, lies) => {
    await add(await signIn())
    const browser = fixture.createBrowser(AT)
    expect(await said(enter(browser, lies))).toEqual(refused)
    expect((await browser.ask('GET', '/session')).body.name).toBeNull()
    expect((await enter(browser)).status).toBe(200)
  })

  test('with an earlier response, in another browser, or too late', async () => {
    await add(await signIn())
    const browser = fixture.createBrowser(AT)
    const response = device.use(await ask(browser))
    const { cookie } = browser
    const send = (headers: Record<string, string>) =>
      said(fixture.createBrowser(AT).ask('POST', '/session/passkey', { body: { response }, headers }))
    const ended = [400, 'challenge_ended']
    expect(await send({})).toEqual(ended)
    expect((await send({ cookie }))[0]).toBe(200)
    expect(await send({ cookie })).toEqual(ended)
    const late = device.use(await ask(browser))
    fixture.clock.ms += PENDING_MS
    expect(await said(browser.ask('POST', '/session/passkey', { body: { response: late } }))).toEqual(ended)
  })

  test('with a response to adding a passkey', async () => {
    const browser = await signIn()
    await add(browser)
    const { challenge } = await begin(browser)
    const response = device.use({ challenge, rpId: 'localhost' })
    expect(await said(browser.ask('POST', '/session/passkey', { body: { response } }))).toEqual([
      400,
      'challenge_ended',
    ])
  })

  test('with a copy whose counter has been passed', async () => {
    await add(await signIn())
    const browser = fixture.createBrowser(AT)
    expect((await enter(browser, { counter: 7 })).status).toBe(200)
    expect(await said(enter(browser, { counter: 7 }))).toEqual(refused)
    expect(await said(enter(browser, { counter: 0 }))).toEqual(refused)
    expect((await enter(browser, { counter: 8 })).status).toBe(200)
  })

  test("with one person's passkey, signed by another's authenticator", async () => {
    await add(await signIn())
    const other = createAuthenticator(AT)
    await add(await signIn('bob'), { of: other })
    const browser = fixture.createBrowser(AT)
    expect(await said(enter(browser, { id: device.id, userHandle: device.userHandle }, other))).toEqual(refused)
    expect((await enter(browser, {}, other)).body.name).toBe('bob')
  })

  test('for a disabled user, until they are enabled again', async () => {
    await signIn('bob')
    await add(await signIn())
    await editAdmin(fixture.identity, 'owner', { disabled: true }, by())
    expect(await said(enter(fixture.createBrowser(AT)))).toEqual(refused)
    await editAdmin(fixture.identity, 'owner', { disabled: false }, by())
    expect((await enter(fixture.createBrowser(AT))).status).toBe(200)
  })

  test('with a passkey from before a reset, which removes them and says so', async () => {
    await add(await signIn())
    await add(await signIn('bob'), { of: createAuthenticator(AT) })
    await resetAdmin(fixture.identity, 'owner', by())
    expect(await said(enter(fixture.createBrowser(AT)))).toEqual(refused)
    expect(await fixture.identity.readPasskeys()).toHaveLength(1)
    expect(actions().at(-1)).toEqual({ action: 'admins.code', detail: { name: 'owner', passkeys_removed: 1 } })
  })

  test('after too many attempts from an address; a right password still works', async () => {
    await add(await signIn())
    const browser = fixture.createBrowser(AT)
    for (let i = 0; i < 20; i++) expect(await said(enter(browser, { id: 'AAAA' }))).toEqual(refused)
    expect(await said(enter(browser))).toEqual([429, 'too_many_attempts'])
    expect((await browser.ask('POST', '/session', { body: { name: 'owner', password: PASSWORD } })).status).toBe(200)
    const options = await ask(browser)
    const headers = { 'x-test-address': '198.51.100.1' }
    const elsewhere = await browser.ask('POST', '/session/passkey', {
      body: { response: device.use(options) },
      headers,
    })
    expect(elsewhere.status).toBe(200)
  })
})

test('users rename and remove only their own passkeys', async () => {
  const browser = await signIn()
  const { id } = (await add(browser)).body
  const bob = await signIn('bob')
  expect(await list(bob)).toEqual([])
  const path = `/passkeys/${id}`
  for (const theirs of [bob.ask('PATCH', path, { body: { name: 'mine' } }), bob.ask('DELETE', path)])
    expect((await theirs).body.error.kind).toBe('passkey_not_found')
  expect((await browser.ask('PATCH', path, { body: { name: '' } })).body.error.field).toBe('name')
  expect((await browser.ask('PATCH', path, { body: { name: 'phone' } })).body.name).toBe('phone')
  expect((await browser.ask('DELETE', path)).status).toBe(200)
  expect(await list(browser)).toEqual([])
  expect((await enter(fixture.createBrowser(AT))).status).toBe(401)
  expect(actions().filter(({ action }) => action.startsWith('passkeys.'))).toMatchObject([
    { action: 'passkeys.create' },
    { action: 'passkeys.edit', detail: { before: { name: 'laptop' }, after: { name: 'phone' } } },
    { action: 'passkeys.remove', detail: { name: 'phone' } },
  ])
})

describe('depending on the URL', () => {
  test.each([
    [AT, true],
    [PUBLIC_URL, true],
    ['http://127.0.0.1:4000', false],
    ['http://[::1]:4000', false],
  ])('at %s passkeys are offered: %p', async (at, isOffered) => {
    const browser = await signIn('owner', at)
    expect((await browser.ask('GET', '/session')).body.passkeys).toBe(isOffered)
    for (const path of ['/passkeys/options', '/session/passkey/options']) {
      const { status, body } = await browser.ask('POST', path, { body: { password: PASSWORD } })
      expect([status, body.error?.kind]).toEqual(isOffered ? [200, undefined] : [409, 'no_passkeys_here'])
    }
  })

  test('a passkey for one host signs no one in at another', async () => {
    await add(await signIn())
    const browser = fixture.createBrowser(PUBLIC_URL)
    const asked = await ask(browser)
    expect(asked.rpId).toBe('gateway.example.com')
    const response = device.use(asked, { origin: PUBLIC_URL })
    const { body } = await browser.ask('POST', '/session/passkey', { body: { response } })
    expect(body.error.kind).toBe('sign_in_failed')
  })

  test('if passwords are switched off, so are passkeys', async () => {
    const settings = { issuer: 'https://id.example.com', clientId: 'x', clientSecret: 'x', claim: 'groups', roles: [] }
    const other = createFixture({ oidc: settings, ways: ['oidc'] })
    try {
      const browser = other.createBrowser(AT)
      expect((await browser.ask('GET', '/session')).body).toMatchObject({ sign_in_methods: ['oidc'], passkeys: false })
      expect((await browser.ask('POST', '/session/passkey/options')).body.error.kind).toBe('password_off')
    } finally {
      other.close()
    }
  })
})

test("a script has no passkeys, and page scripts and other sites can't read the challenge's cookie", async () => {
  const headers = await fixture.tokenHeaders('write')
  expect((await fixture.createBrowser(AT).ask('GET', '/passkeys', { headers })).body.error.kind).toBe('no_session')
  const { headers: answered } = await fixture.createBrowser(PUBLIC_URL).ask('POST', '/session/passkey/options')
  expect(answered.getSetCookie()).toEqual([
    expect.stringMatching(
      /^__Host-tollgate-passkey=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=600; Secure$/,
    ),
  ])
})
