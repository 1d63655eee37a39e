/** Sign-in: the first owner, invitations, passwords, sessions and cookies. */
import { describe, expect, test } from 'bun:test'
import { forEachTest } from '../support/lifetime.ts'
import { createFixture, PASSWORD } from './fixture.ts'

const fixture = forEachTest(createFixture)

const MINUTE = 60_000
const owner = { name: 'Ann@Example.com', password: PASSWORD }

describe('the first owner', () => {
  test('is created with the code, once, and is signed in', async () => {
    const browser = fixture.createBrowser()
    expect((await browser.ask('GET', '/session')).body).toEqual({
      ...{
        name: null,
        role: null,
        has_password: false,
        is_set_up: false,
        sign_in_methods: ['password'],
        passkeys: false,
      },
    })
    const code = await fixture.setupCode.make(fixture.clock.ms)
    const made = await browser.ask('POST', '/setup', { body: { ...owner, code: ` ${code.toUpperCase()}` } })
    expect([made.status, made.body]).toEqual([200, { name: 'ann@example.com', role: 'owner' }])
    expect((await browser.ask('GET', '/session')).body).toEqual({
      ...made.body,
      ...{ has_password: true, is_set_up: true, sign_in_methods: ['password'], passkeys: false },
    })
    const again = await fixture.createBrowser().ask('POST', '/setup', { body: { ...owner, name: 'eve', code } })
    expect(again.body.error.kind).toBe('code_wrong')
  })

  test('cannot be created with an expired code', async () => {
    const code = await fixture.setupCode.make(fixture.clock.ms)
    fixture.clock.ms += 15 * MINUTE
    const { body } = await fixture.createBrowser().ask('POST', '/setup', { body: { ...owner, code } })
    expect(body.error.kind).toBe('code_wrong')
  })

  test.each([['short'], ['aaaaaaaaaaaaaaaaaaaa'], ['ann@example.com and more']])(
    'needs a password that is not %p',
    async (password) => {
      const code = await fixture.setupCode.make(fixture.clock.ms)
      const { status, body } = await fixture
        .createBrowser()
        .ask('POST', '/setup', { body: { ...owner, password, code } })
      expect([status, body.error.kind, body.error.field]).toEqual([400, 'invalid', 'password'])
    },
  )
})

test('a session expires three days after its last use, and thirty after its beginning', async () => {
  const browser = await fixture.signIn('owner')
  for (let day = 0; day < 29; day++) {
    fixture.clock.ms += 24 * 60 * MINUTE
    expect((await browser.ask('GET', '/keys')).status).toBe(200)
  }
  fixture.clock.ms += 24 * 60 * MINUTE
  expect((await browser.ask('GET', '/keys')).status).toBe(401)
  await browser.ask('POST', '/session', { body: { name: 'owner', password: PASSWORD } })
  fixture.clock.ms += 3 * 24 * 60 * MINUTE
  expect((await browser.ask('GET', '/keys')).status).toBe(401)
})

test('sessions are listed with their clients, and ended one by one; an owner ends those of others', async () => {
  const owners = await fixture.signIn('owner')
  const viewer = await fixture.signIn('viewer')
  const [own] = (await viewer.ask('GET', '/sessions')).body.sessions
  expect(own).toMatchObject({ address: '203.0.113.7', is_current: true })
  const all = (await owners.ask('GET', '/sessions')).body.sessions
  expect(all).toHaveLength(2)
  const ofOwner = all.find((session: { is_current: boolean }) => session.is_current)
  expect((await viewer.ask('DELETE', `/sessions/${ofOwner.id}`)).status).toBe(404)
  expect((await owners.ask('DELETE', `/sessions/${own.id}`)).status).toBe(200)
  expect((await viewer.ask('GET', '/session')).body.name).toBeNull()
  const [ended] = (await owners.ask('GET', '/audit?action=sessions.end')).body.audit
  expect(ended).toMatchObject({ subject: own.admin_id, detail: { name: 'viewer', address: '203.0.113.7' } })
})

test('signing out ends the session, not only the cookie', async () => {
  const browser = await fixture.signIn('owner')
  const { cookie } = browser
  const { headers } = await browser.ask('DELETE', '/session')
  expect(headers.get('set-cookie')).toContain('Max-Age=0')
  expect((await browser.ask('GET', '/keys', { headers: { cookie } })).status).toBe(401)
})

test('a new password ends all other sessions, and requires the old one', async () => {
  const first = await fixture.signIn('owner')
  const second = fixture.createBrowser()
  await second.ask('POST', '/session', { body: { name: 'owner', password: PASSWORD } })
  const password = 'another way to the sea'
  const wrong = await second.ask('POST', '/password', { body: { old: 'not this one', password } })
  expect(wrong.body.error.kind).toBe('sign_in_failed')
  expect((await second.ask('POST', '/password', { body: { old: PASSWORD, password } })).status).toBe(200)
  expect((await first.ask('GET', '/keys')).status).toBe(401)
  expect((await second.ask('GET', '/keys')).status).toBe(200)
  const old = await first.ask('POST', '/session', { body: { name: 'owner', password: PASSWORD } })
  expect(old.status).toBe(401)
})

test('five wrong attempts block an account for one address, and for no one else', async () => {
  const wrong = { name: 'owner', password: 'not the right one' }
  await fixture.signIn('owner')
  const browser = fixture.createBrowser()
  for (let i = 0; i < 5; i++) expect((await browser.ask('POST', '/session', { body: wrong })).status).toBe(401)
  const right = { name: 'owner', password: PASSWORD }
  const locked = await browser.ask('POST', '/session', { body: right })
  expect([locked.status, locked.body.error.kind]).toEqual([429, 'too_many_attempts'])
  expect(Number(locked.headers.get('retry-after'))).toBeGreaterThan(60)
  const elsewhere = await browser.ask('POST', '/session', {
    body: right,
    headers: { 'x-test-address': '198.51.100.1' },
  })
  expect(elsewhere.status).toBe(200)
  fixture.clock.ms += 15 * MINUTE
  expect((await browser.ask('POST', '/session', { body: right })).status).toBe(200)
})

test('no password, code, cookie or token is in the log, the audit log or the database', async () => {
  const browser = await fixture.signIn('owner')
  const code = await fixture.setupCode.make(fixture.clock.ms)
  await browser.ask('POST', '/session', { body: { name: 'owner', password: `${PASSWORD}!` } })
  const { authorization } = await fixture.tokenHeaders('write')
  const secrets = [PASSWORD, code, browser.cookie.split('=')[1] ?? '?', authorization.slice(7)]
  const { database } = fixture.folder
  const tables = ['admins', 'admin_sessions', 'admin_tokens', 'audit']
  const stored = JSON.stringify([
    await fixture.logged(),
    ...tables.map((table) => database.query(`SELECT * FROM ${table}`).all()),
  ])
  for (const secret of secrets) expect(stored).not.toContain(secret)
})
